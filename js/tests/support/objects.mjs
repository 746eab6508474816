/** A realm with the library and one Worker's Durable Objects, over a real storage and a scripted container. */
import { createHash, createHmac } from 'node:crypto';
import { bundleText, evaluateBundle } from './bundle.mjs';
import { createNatives } from './natives.mjs';
import { StoragePeer } from './storage_peer.mjs';

const text = await bundleText('tests/support/objects_main.js');
const hashes = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];
const exact = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);

export class World {
  /** @param {{peer?: StoragePeer, container?: any, classes?: any}} options container: {method: (args, world) => answer} */
  constructor({ peer = new StoragePeer(), container = null } = {}) {
    this.peer = peer;
    this.container = container;
    this.sessions = new Map();
    this.nextCapability = 1;
    this.calls = [];
    let nextCall = 1, nextStream = 1, requests = 0;
    const requestCell = new Uint32Array(1);
    this.streams = new Map();
    const world = this;
    this.natives = createNatives({
      requestCell,
      requestBegin: () => (requestCell[0] = ++requests),
      requestEnter: (id) => { requestCell[0] = id; },
      requestEnd: (id) => { if (requestCell[0] === id) requestCell[0] = 0; },
      requestCurrent: () => requestCell[0],
      crypto: {
        hash: (which, data) => exact(createHash(hashes[which]).update(data).digest()),
        hmac: (which, key, data) => exact(createHmac(hashes[which], key).update(data).digest()),
      },
      callSync(capability, method, args) {
        if (capability >= 10000) return exact(world.encode(world.container[method]()));
        const { ok, value } = world.answer(capability, method, args);
        if (ok) return exact(value);
        const error = world.library.decodePlain(exact(value));
        throw Object.assign(new Error(error.message), { code: error.code });
      },
      call(capability, method, args) {
        const id = nextCall++;
        const copy = Buffer.from(args);
        Promise.resolve().then(() => world.answer(capability, method, copy)).then(({ ok, value }) => setImmediate(() => {
          if (ok) {
            world.natives.dispatch.answer(id, null, '', exact(value));
          } else {
            const error = world.library.decodePlain(exact(value));
            world.natives.dispatch.answer(id, error.code, error.message, undefined);
          }
        }));
        return id;
      },
      cancel() {},
      drop(capability) { world.drop(capability); },
      streamNew() { nextStream += 2; return nextStream; },
      streamSend(id) { world.streams.set(id, { sent: [], ended: false }); },
      streamReceive() {},
      streamWrite(id, bytes) { world.streams.get(id).sent.push(Buffer.from(bytes)); return 0; },
      streamEnd(id) { world.streams.get(id).ended = true; },
      streamReset(id, message) { world.calls.push(['reset', id, message]); },
      streamConsumed() {},
    });
    const { timer } = this.natives;
    // Housekeeping does not keep the test running.
    this.natives.timer = (id, ms) => (ms < 1000 ? timer(id, ms) : setTimeout(() => this.natives.dispatch.timer(id), ms).unref());
    const { value, global } = evaluateBundle(text, this.natives);
    this.library = value;
    this.global = global;
    this.classes = {};
  }

  drop(capability) {
    const session = this.sessions.get(capability);
    if (session === undefined) return;
    this.sessions.delete(capability);
    this.peer.call(0, 'end', Buffer.from(this.library.encodePlain({ session })));
  }

  encode(value) { return Buffer.from(this.library.encodePlain(value)); }

  answer(capability, method, args) {
    if (capability === 0 && method === 'object') {
      const begun = this.peer.call(0, 'session', args);
      if (!begun.ok) return begun;
      const { session } = this.library.decodePlain(exact(begun.value));
      const storage = this.nextCapability++;
      this.sessions.set(storage, session);
      const answer = { storage, alarm: null };
      if (this.container !== null) answer.container = 10000;
      return { ok: true, value: this.encode(answer) };
    }
    if (capability >= 10000) return this.answerContainer(capability, method, this.library.decodePlain(exact(args)));
    return this.peer.call(this.sessions.get(capability) ?? 65535, method, args);
  }

  async answerContainer(capability, method, args) {
    this.calls.push([method, args]);
    try {
      return { ok: true, value: this.encode((await this.container[method]?.(args, this, capability)) ?? null) };
    } catch (error) {
      return { ok: false, value: this.encode({ message: error.message, code: error.code ?? 'WRONG_STATE' }) };
    }
  }

  /** Classes by source, evaluated in the realm. @param {string} source "({Name: class extends DurableObject {...}})" */
  define(source, images) {
    this.global.DurableObject = this.library.DurableObject;
    this.global.RpcTarget = this.library.RpcTarget;
    this.global.WebSocketRequestResponsePair = this.library.WebSocketRequestResponsePair;
    this.classes = this.global.eval(source);
    const config = Object.keys(this.classes).map((name) => ({ class: name, sql: !name.startsWith('Kv'), container: this.container !== null, images }));
    this.objects = this.library.createObjects({
      findClass: (name) => this.classes[name], env: () => ({ NAME: 'env' }), exports: () => ({}), deleteAllDeletesAlarm: true,
    }, config);
  }

  /** @returns {any} a stub */
  get(className, name = 'one') { return this.objects.namespace(className).getByName(name); }

  close() { this.peer.close(); }
}
