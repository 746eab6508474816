/**
 * Capability RPC between two workers over a channel. Both sides are equal. Each numbers what it exports, and the caller numbers the results
 * of its calls, so a call can be made on a result that is still to come, without a round trip.
 *
 * A message is a sequence of entries of CBOR items, the first an unsigned number:
 *   0 call     id, where (0 an export of the receiver, 1 the result of the sender's call), number, op, [path...], [capabilities...], bytes|null
 *   1 return   id, has a disposer, [capabilities...], bytes
 *   2 throw    id, bytes
 *   3 finish   id: the caller needs the result no more; the number is free once it was answered, too
 *   4 release  export, count: that many of the references that were sent are gone
 *   5 abort    text: the session is over
 *   6 gone     id: the answer to a call that was finished before it was answered
 * A capability is [kind, where, number]: where 0 is the sender's export, 1 the receiver's.
 * Export 0 is the main object of a side; it is there from the start.
 *
 * All that arrives is UNTRUSTED INPUT: the other side may be a guest that took over its process. A number that it was not given, an answer
 * that was not asked for, a table beyond its bound: the session is aborted and everything that came by it breaks with that reason. Calls that are
 * never answered cost their callers only.
 */
import { Error, SafeMap, SafeSet, TypeError, TypedArrayPrototypeGetLength } from '../primordials.js';
import { clearTimer, setTimer } from '../link.js';
import { ARRAY, BYTES, LARGE, Reader, UINT, Writer, malformed, rawList, viewOf } from './cbor.js';
import { CONNECT, LAST_KIND, Result, Target, callFromElsewhere, errorPayload, newCapability, newPayload, releasePayload } from './target.js';

const M_CALL = 0, M_RETURN = 1, M_THROW = 2, M_FINISH = 3, M_RELEASE = 4, M_ABORT = 5, M_GONE = 6;
const HERE = 0, THERE = 1;
const NULL = 0xf6;
const MAX_PATH = 66, MAX_NAME = 4096, MAX_CAPABILITIES = 4096;
/** Unanswered or unfinished calls of the other side, and references it made us hold. */
export const MAX_ANSWERS = 16384, MAX_IMPORTS = 65536;
/** How long finish and release may wait for another message to go with. */
const LAZY_MS = 1, LAZY_BYTES = 4096;
const KEEP_WRITER = 1 << 20;

class ImportTarget extends Target {
  /** @param {Session} session @param {number} id */
  constructor(session, id) {
    super();
    this.session = session;
    this.id = id;
    /** How often the other side sent it. */
    this.received = 0;
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    return this.session.sendCall(0, this.id, path, op, payload);
  }

  lastReleased() {
    this.session.importReleased(this);
  }

  /** @param {(reason: any) => void} callback */
  onBroken(callback) {
    return this.session.onEnd(callback);
  }
}

class QuestionTarget extends Target {
  /** @param {Session} session @param {number} id */
  constructor(session, id) {
    super();
    this.session = session;
    this.id = id;
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    return this.session.sendCall(1, this.id, path, op, payload);
  }

  /** @param {(reason: any) => void} callback */
  onBroken(callback) {
    return this.session.onEnd(callback);
  }
}

export class Session {
  /**
   * @param {{send: (bytes: Uint8Array, tail?: Uint8Array) => void, close: (reason: string) => void}} channel `send` copies one message, in one piece or two
   * @param {Target|null} main what the other side can call first; owned
   */
  constructor(channel, main) {
    this.channel = channel;
    /** @type {any} the reason, once it is over */
    this.over = null;
    /** @type {Map<number, {target: Target, count: number}>} */
    this.exports = new SafeMap();
    /** @type {Map<Target, number>} */
    this.exportIds = new SafeMap();
    /** @type {Map<number, ImportTarget>} */
    this.imports = new SafeMap();
    /** @type {Map<number, Result>} our calls, until they are answered */
    this.questions = new SafeMap();
    /** @type {Map<number, {result: Result, answered: boolean}>} the other side's calls, until they are finished */
    this.answers = new SafeMap();
    this.lastQuestion = 0;
    this.lastExport = 0;
    this.writer = new Writer(1024);
    this.lazy = new Writer(256);
    this.lazyTimer = 0;
    /** @type {Set<(reason: any) => void>} */
    this.endCallbacks = new SafeSet();
    if (main !== null) this.exports.set(0, { target: main, count: Infinity });
  }

  /** The other side's main object. @returns {Target} owned by the caller */
  main() {
    const main = new ImportTarget(this, 0);
    main.received = 0;
    return main;
  }

  /** @param {(reason: any) => void} callback @returns {() => void} */
  onEnd(callback) {
    if (this.over !== null) {
      callback(this.over);
      return () => {};
    }
    this.endCallbacks.add(callback);
    return () => { this.endCallbacks.delete(callback); };
  }

  // --- sending

  /** @returns {Writer} */
  begin() {
    const w = this.writer;
    w.at = 0;
    if (this.lazy.at > 0) {
      w.append(viewOf(this.lazy.bytes, 0, this.lazy.at));
      this.lazy.at = 0;
    }
    return w;
  }

  /** @param {Writer} w @param {Uint8Array} [tail] what ends the message */
  send(w, tail = undefined) {
    if (this.over !== null) return;
    try {
      const head = viewOf(w.bytes, 0, w.at);
      if (tail === undefined) this.channel.send(head);
      else this.channel.send(head, tail);
    } catch (error) {
      this.end(error instanceof Error ? error : new Error('The message could not be sent.'), true);
    }
    if (w.capacity > KEEP_WRITER) this.writer = new Writer(1024);
  }

  /** Sends what waits in `lazy` soon. */
  sendLazy() {
    if (this.over !== null) return;
    if (this.lazy.at >= LAZY_BYTES) {
      this.send(this.begin());
    } else if (this.lazyTimer === 0) {
      this.lazyTimer = setTimer(LAZY_MS, () => {
        this.lazyTimer = 0;
        if (this.lazy.at > 0 && this.over === null) this.send(this.begin());
      });
    }
  }

  /**
   * @param {number} where @param {number} number @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload passed on
   * @returns {Result}
   */
  sendCall(where, number, path, op, payload) {
    if (this.over !== null) {
      releasePayload(payload);
      const result = new Result();
      result.fail(errorPayload(this.over));
      return result;
    }
    const id = ++this.lastQuestion;
    const result = new Result(new QuestionTarget(this, id));
    result.eager = true;
    result.onFinish = () => this.finish(id);
    this.questions.set(id, result);
    const w = this.begin();
    w.head(UINT, M_CALL);
    w.head(UINT, id);
    w.head(UINT, where);
    w.head(UINT, number);
    w.head(UINT, op);
    w.head(ARRAY, path.length);
    for (let i = 0; i < path.length; i++) w.text(path[i]);
    this.send(w, this.writePayload(w, payload));
    this.sent(payload);
    return result;
  }

  /** @param {Writer} w @param {import('./target.js').Payload|null} payload @returns {Uint8Array|undefined} its bytes, when they are to be sent apart */
  writePayload(w, payload) {
    const capabilities = payload === null ? null : payload.capabilities;
    const count = capabilities === null ? 0 : capabilities.length;
    w.head(ARRAY, count);
    for (let i = 0; i < count; i++) {
      const { kind, target } = /** @type {any} */ (capabilities)[i];
      w.head(ARRAY, 3);
      w.head(UINT, kind);
      if (target instanceof ImportTarget && target.session === this) {
        w.head(UINT, THERE);
        w.head(UINT, target.id);
      } else {
        w.head(UINT, HERE);
        w.head(UINT, this.export(target));
      }
    }
    if (payload === null || payload.bytes === null) {
      w.null();
      return undefined;
    }
    const { bytes } = payload, length = TypedArrayPrototypeGetLength(bytes);
    if (length < LARGE) {
      w.raw(BYTES, bytes);
      return undefined;
    }
    w.head(BYTES, length);
    return bytes;
  }

  /** The payload is written: imports that went home are released now, exports hold their own. @param {import('./target.js').Payload|null} payload */
  sent(payload) {
    releasePayload(payload);
  }

  /** @param {Target} target @returns {number} */
  export(target) {
    let id = this.exportIds.get(target);
    if (id === undefined) {
      id = ++this.lastExport;
      this.exportIds.set(target, id);
      this.exports.set(id, { target: target.retain(), count: 0 });
      target.context?.hold();
    }
    const entry = /** @type {any} */ (this.exports.get(id));
    entry.count++;
    return id;
  }

  /** @param {ImportTarget} target */
  importReleased(target) {
    if (this.over !== null || target.id === 0) return;
    if (this.imports.get(target.id) === target) this.imports.delete(target.id);
    const w = this.lazy;
    w.head(UINT, M_RELEASE);
    w.head(UINT, target.id);
    w.head(UINT, target.received);
    this.sendLazy();
  }

  /** @param {number} id */
  finish(id) {
    if (this.over !== null) return;
    const w = this.lazy;
    w.head(UINT, M_FINISH);
    w.head(UINT, id);
    this.sendLazy();
  }

  /** @param {number} id @param {Result} result settled */
  answer(id, result) {
    const entry = this.answers.get(id);
    if (entry === undefined || this.over !== null) {
      result.finish();
      return;
    }
    entry.answered = true;
    const w = this.begin();
    if (result.state === 2) {
      w.head(UINT, M_THROW);
      w.head(UINT, id);
      const payload = result.take();
      w.raw(BYTES, /** @type {Uint8Array} */ (payload.bytes));
      this.send(w);
      return;
    }
    const payload = result.take();
    w.head(UINT, M_RETURN);
    w.head(UINT, id);
    w.boolean(result.hasDisposer);
    this.send(w, this.writePayload(w, payload));
    this.sent(payload);
  }

  // --- receiving

  /** UNTRUSTED INPUT. @param {Uint8Array} bytes */
  receive(bytes) {
    if (this.over !== null) return;
    const r = new Reader(bytes);
    try {
      while (!r.atEnd() && this.over === null) this.entry(r);
    } catch (error) {
      this.end(error instanceof TypeError ? error : new Error('The message could not be handled.'), true);
    }
  }

  /** @param {Reader} r */
  entry(r) {
    const kind = r.readUint();
    switch (kind) {
      case M_CALL: this.onCall(r); return;
      case M_RETURN: {
        const id = r.readUint(), hasDisposer = r.readBoolean();
        const payload = this.readPayload(r);
        const result = this.question(id, payload);
        result.settle(payload, null, hasDisposer);
        return;
      }
      case M_THROW: {
        const id = r.readUint();
        const payload = newPayload(readBytes(r));
        this.question(id, payload).fail(payload);
        return;
      }
      case M_FINISH: {
        const id = r.readUint();
        const entry = this.answers.get(id);
        if (entry === undefined) return malformed('it finishes a call that was not made');
        this.answers.delete(id);
        const { answered, result } = entry;
        result.finish();
        if (!answered) {
          const w = this.lazy;
          w.head(UINT, M_GONE);
          w.head(UINT, id);
          this.sendLazy();
        }
        return;
      }
      case M_RELEASE: {
        const id = r.readUint(), count = r.readUint();
        const entry = this.exports.get(id);
        if (id === 0 || entry === undefined || count < 1 || count > entry.count) return malformed('it releases what it does not hold');
        entry.count -= count;
        if (entry.count === 0) this.unexport(id, entry.target);
        return;
      }
      case M_ABORT:
        this.end(new Error(`The other side ended the session: ${r.readText()}`), false);
        return;
      case M_GONE: {
        const result = this.question(r.readUint(), null);
        if (!result.finished) malformed('it drops a call that is waited for');
        return;
      }
      default: malformed('an unknown entry');
    }
  }

  /** @param {number} id @param {Target} target */
  unexport(id, target) {
    this.exports.delete(id);
    this.exportIds.delete(target);
    const { context } = target;
    target.release();
    context?.drop();
  }

  /** Takes an answered call out of the table. @param {number} id @param {import('./target.js').Payload|null} payload @returns {Result} */
  question(id, payload) {
    const result = this.questions.get(id);
    if (result === undefined) {
      releasePayload(payload);
      return malformed('it answers a call that was not made, or answers twice');
    }
    this.questions.delete(id);
    return result;
  }

  /** @param {Reader} r */
  onCall(r) {
    const id = r.readUint(), where = r.readUint(), number = r.readUint(), op = r.readUint();
    if (where > 1 || op > CONNECT) malformed('an unknown kind of call');
    const count = r.readArray(MAX_PATH);
    const path = rawList();
    for (let i = 0; i < count; i++) {
      const name = r.readText();
      if (name.length > MAX_NAME) malformed('a name that is too long');
      path[i] = name;
    }
    const payload = this.readPayload(r);
    let target;
    if (where === 0) target = this.exports.get(number)?.target;
    else target = this.answers.get(number)?.result.pipeline;
    if (target === undefined || this.answers.has(id) || this.answers.size >= MAX_ANSWERS) {
      releasePayload(payload);
      if (target === undefined) malformed('it calls what it does not hold');
      malformed(this.answers.has(id) ? 'it numbers two calls alike' : `more than ${MAX_ANSWERS} unfinished calls`);
    }
    const result = callFromElsewhere(target, path, op, payload.bytes === null ? dropPayload(payload) : payload);
    this.answers.set(id, { result, answered: false });
    result.listen((settled) => this.answer(id, settled));
  }

  /** @param {Reader} r @returns {import('./target.js').Payload} */
  readPayload(r) {
    const capabilities = rawList();
    try {
      const count = r.readArray(MAX_CAPABILITIES);
      for (let i = 0; i < count; i++) {
        if (r.readArray(3) !== 3) malformed('a capability was expected');
        const kind = r.readUint(), where = r.readUint(), number = r.readUint();
        if (kind > LAST_KIND || where > 1) malformed('an unknown kind of capability');
        let target;
        if (where === HERE) {
          target = this.import(number);
        } else {
          const entry = this.exports.get(number);
          if (entry === undefined || number === 0) return malformed('it passes what it does not hold');
          target = entry.target.retain();
        }
        capabilities[i] = newCapability(kind, target);
      }
      if (r.at < r.end && r.bytes[r.at] === NULL) {
        r.at++;
        return newPayload(null, capabilities);
      }
      return newPayload(readBytes(r), capabilities);
    } catch (error) {
      releasePayload(newPayload(null, capabilities));
      throw error;
    }
  }

  /** @param {number} id @returns {Target} owned */
  import(id) {
    if (id === 0) malformed('its main object is no capability');
    let target = this.imports.get(id);
    if (target === undefined) {
      if (this.imports.size >= MAX_IMPORTS) malformed(`more than ${MAX_IMPORTS} references`);
      target = new ImportTarget(this, id);
      this.imports.set(id, target);
    } else {
      target.retain();
    }
    target.received++;
    return target;
  }

  // --- the end

  /** @param {string|null} reason the channel's end */
  closed(reason) {
    this.end(new Error(reason ?? 'The other side of the session is gone.'), false);
  }

  /** Ends it from this side. @param {string} reason */
  abort(reason) {
    this.end(new Error(reason), true);
  }

  /** @param {any} error @param {boolean} tell */
  end(error, tell) {
    if (this.over !== null) return;
    const said = typeof error.message === 'string' ? error.message : 'unknown';
    if (tell) {
      const w = this.begin();
      w.head(UINT, M_ABORT);
      w.text(said);
      this.send(w);
    }
    if (this.over !== null) return;
    this.over = error;
    if (this.lazyTimer !== 0) clearTimer(this.lazyTimer);
    this.lazyTimer = 0;
    if (tell) this.channel.close(said);
    const failure = errorPayload(error);
    const { questions, answers, exports, endCallbacks } = this;
    this.questions = new SafeMap();
    this.answers = new SafeMap();
    this.exports = new SafeMap();
    this.exportIds = new SafeMap();
    this.imports = new SafeMap();
    this.endCallbacks = new SafeSet();
    questions.forEach((result) => result.fail(newPayload(failure.bytes)));
    answers.forEach(({ result }) => result.finish());
    exports.forEach(({ target }, id) => {
      const { context } = target;
      target.release();
      if (id !== 0) context?.drop();
    });
    endCallbacks.forEach((each) => each(error));
  }
}

/** @param {Reader} r @returns {Uint8Array} not a copy: nobody else holds the message */
function readBytes(r) {
  r.next();
  if (r.major !== BYTES) malformed('bytes were expected');
  const size = r.size();
  const bytes = viewOf(r.bytes, r.at, r.at + size);
  r.at += size;
  return bytes;
}

/** A call without arguments: has no use for capabilities. @param {import('./target.js').Payload} payload */
function dropPayload(payload) {
  releasePayload(payload);
  return null;
}

