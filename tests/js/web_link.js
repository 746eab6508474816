/** A link for the tests of the Web API: what the library sends is kept, what it receives the test says. */
import { natives } from './harness.js';
import { routes } from '../../js/src/link.js';
import { installWeb } from '../../js/src/web/index.js';

// The shell's own, before installWeb replaces it.
const { setTimeout } = globalThis;
natives.timer = (id, ms) => { setTimeout(() => routes.timer(id), ms); };

export const hooks = {};
export const web = installWeb(globalThis, hooks);
web.start();

const decoder = new TextDecoder();
/** What natives.respond() got. @type {any[]} */
export const answers = Object.setPrototypeOf([], null);
/** By number: {sent: bytes as text, ended, reset, open}. @type {Record<number, any>} */
export const streams = {};
/** streamWrite's answer: bytes that wait for credit. */
export const credit = { waiting: 0 };
let last = 100;
const apply = Reflect.apply, decode = decoder.decode;

natives.respond = (call, status, statusText, headers, body, ws) => {
  answers[answers.length] = { call, status, statusText, headers, body: typeof body === 'string' || typeof body === 'number' || body === null ? body : apply(decode, decoder, [body]), ws };
};
natives.streamNew = () => ++last;
natives.streamSend = (id) => { streams[id] = { sent: '', writes: 0, ended: false, reset: null, bytes: Object.setPrototypeOf([], null) }; };
natives.streamReceive = (id) => { streams[id] = { consumed: 0, reset: null }; };
natives.streamWrite = (id, bytes) => {
  const stream = streams[id];
  stream.sent += apply(decode, decoder, [bytes]);
  for (let i = 0; i < bytes.length; i++) stream.bytes[stream.bytes.length] = bytes[i];
  stream.writes++;
  return credit.waiting;
};
natives.streamEnd = (id) => { streams[id].ended = true; };
natives.streamReset = (id, message) => { streams[id].reset = message; };
natives.streamConsumed = (id, bytes) => { streams[id].consumed += bytes; };

const encoder = new TextEncoder(), encode = encoder.encode, { slice } = ArrayBuffer.prototype;
/** @param {number} id @param {string|Uint8Array} data */
export function arrive(id, data) {
  const bytes = typeof data === 'string' ? apply(encode, encoder, [data]) : data;
  routes.streamData(id, apply(slice, bytes.buffer, [bytes.byteOffset, bytes.byteOffset + bytes.byteLength]));
}
export { routes, natives };
