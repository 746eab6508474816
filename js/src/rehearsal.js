/**
 * The rehearsal: in the zygote, before any fork, the library loads a Worker that does nothing, calls it over a session, and forgets it. What
 * the engine makes of the library's code on the way (bytecode, inline caches, machine code) is then in every worker's memory from the start. The
 * Worker's source is ours, the natives that would reach the link are replaced, and what the library keeps is as before when it is over.
 */
import { Error, ObjectAssign, Uint8Array } from './primordials.js';
import { FORMAT } from '../compiler/format.js';
import { natives, setNatives } from './natives.js';
import { encodePlain, rawList } from './rpc/cbor.js';
import { followRequests, limits } from './rpc/context.js';
import { Session } from './rpc/session.js';
import { CALL, later } from './rpc/target.js';
import { decodeResult, encodeArguments, encodeValue, rules } from './rpc/values.js';
import { openEntrypoint } from './workers/bootstrap.js';
import { worker } from './workers/ctx.js';
import { setTails } from './workers/events.js';
import { setOutbound } from './workers/outbound.js';

/** As the module compiler would have it. */
const MAIN = `({format: ${FORMAT}, kind: "esm", tla: false, requests: [["cloudflare:workers", null]], imports: [[0, "WorkerEntrypoint"]],
namespaces: [], locals: ["Code", "default"], indirect: [], stars: [], code: function* (imported, meta, hooks, env0) {"use strict";
yield [() => Code, () => $default];
class Code extends env0.WorkerEntrypoint { evaluate(a, b) { return a + b; } }
const $default = {async fetch(request, env, ctx) { return new Response("Hello " + new URL(request.url).pathname, {headers: {"x-a": "b"}}); }};
}})`;
const CHANNEL = 1, INIT = 1;

/** @type {any} what is put back */
let before = null;
let answered = 0, expected = 0;
/** @type {any} */
let parent = null;

/** Natives that reach nothing. @param {any} real @param {(bytes: Uint8Array) => void} sent */
function withoutLink(real, sent) {
  const requestCell = new Uint32Array(1);
  let last = 0;
  return {
    __proto__: real,
    random() {},
    timer() {},
    timerClear() {},
    log() {},
    requestCell,
    requestBegin() { requestCell[0] = ++last; return last; },
    requestEnter(/** @type {number} */ id) { requestCell[0] = id; },
    requestEnd() { requestCell[0] = 0; },
    requestCurrent: () => requestCell[0],
    return() {},
    throw() {},
    respond(/** @type {number} */ _call, /** @type {number} */ status) { if (status === 200) answered++; },
    channelOpen: () => CHANNEL,
    channelSend: (/** @type {number} */ _id, /** @type {Uint8Array} */ bytes) => sent(bytes),
    channelClose() {},
  };
}

/**
 * Begins. Everything that follows happens in microtasks, and is over when the entry is.
 * @param {any} dispatch @param {number} times how many calls and requests
 */
export function rehearse(dispatch, times) {
  const real = natives, state = { __proto__: null, ...worker };
  before = { real, state, cpuMs: limits.cpuMs, subRequests: limits.subRequests, duplicateParameters: rules.duplicateParameters };
  answered = 0;
  expected = 2 * times;
  setNatives(withoutLink(real, (bytes) => {
    const copy = new Uint8Array(bytes);
    later(() => parent.receive(copy));
  }));
  followRequests();
  parent = new Session({
    send(bytes) {
      const copy = new Uint8Array(bytes);
      later(() => dispatch.channelMessage(CHANNEL, copy.buffer));
    },
    close() {},
  }, null);
  const main = parent.main(), path = rawList();
  path[0] = 'start';
  dispatch.call(INIT, 'init', encodePlain({
    __proto__: null, role: 'dynamic', name: 'rehearsal', compatibilityDate: '2026-01-01', compatibilityFlags: rawList(), outbound: 'none', main: 'main.js',
    limits: { __proto__: null, cpuMs: 1000, subRequests: 10, memoryMib: 128, wallMs: 0 },
    modules: [{ __proto__: null, name: 'main.js', type: 'js', data: new Uint8Array(real.utf8Encode(MAIN)) }],
    channel: { __proto__: null, in: 2, out: 4 },
  }));
  main.call(path, CALL, encodeValue({ env: { A: 'a' }, outbound: null, tails: [] }));
  const code = openEntrypoint(main, encodeValue({ name: 'Code', props: {}, limits: undefined }));
  const evaluate = rawList();
  evaluate[0] = 'evaluate';
  let calls = 0;
  const next = () => {
    const result = code.pipeline.call(evaluate, CALL, encodeArguments([calls, 1]));
    result.listen((/** @type {any} */ settled) => {
      if (decodeResult(settled) !== calls + 1) return;
      answered++;
      if (++calls < times) next();
      else code.finish();
    });
  };
  next();
  for (let i = 0; i < times; i++) dispatch.fetch(100 + i, 'GET', 'http://localhost/rehearsal', 'host\nlocalhost\naccept\n*/*', null, false, '');
}

/** Puts everything back. @param {any} dispatch */
export function endRehearsal(dispatch) {
  dispatch.channelClosed(CHANNEL, 'the rehearsal is over');
  parent.closed('the rehearsal is over');
  parent = null;
  ObjectAssign(worker, before.state);
  limits.cpuMs = before.cpuMs;
  limits.subRequests = before.subRequests;
  rules.duplicateParameters = before.duplicateParameters;
  setOutbound('none', null);
  setTails(rawList());
  setNatives(before.real);
  followRequests();
  before = null;
  if (answered !== expected) throw new Error(`the rehearsal was answered ${answered} times instead of ${expected}`);
}
