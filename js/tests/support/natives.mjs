/**
 * The C side of js/natives.d.ts for tests that run in Node.js: text, time and timers are real, the link is whatever the test puts in
 * `link`. Only for tests; nothing of it runs in a Worker.
 */
import { webcrypto } from 'node:crypto';

/** @param {any} [link] overrides @returns {any} natives; `dispatch` must be set to the bundle's answer */
export function createNatives(link = {}) {
  const timers = new Map();
  const started = Date.now();
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }), loose = new TextDecoder('utf-8', { ignoreBOM: true });
  /** @param {Uint8Array} view */
  const buffer = (view) => { const copy = new ArrayBuffer(view.length); new Uint8Array(copy).set(view); return copy; };
  const natives = {
    dispatch: /** @type {any} */ (null),
    logs: /** @type {[number, string][]} */ ([]),
    utf8Encode: (text) => buffer(Buffer.from(text.toWellFormed ? text.toWellFormed() : text, 'utf8')),
    utf8EncodeInto: (text, to) => new TextEncoder().encodeInto(text, to).written,
    utf8Decode: (bytes, start, end, fatal) => (fatal ? strict : loose).decode(new Uint8Array(bytes.buffer, bytes.byteOffset + start, end - start)),
    latin1Decode: (bytes, start, end) => Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1'),
    latin1Encode: (text) => { for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) throw new RangeError('above 255'); return buffer(Buffer.from(text, 'latin1')); },
    base64Encode: (bytes) => Buffer.from(bytes).toString('base64'),
    base64Decode: (text) => buffer(Buffer.from(atob(text), 'latin1')),
    random: (to) => { webcrypto.getRandomValues(to); },
    now: () => Date.now(),
    monotonic: () => Date.now() - started,
    timer: (id, ms) => { timers.set(id, setTimeout(() => { timers.delete(id); natives.dispatch.timer(id); }, ms)); },
    timerClear: (id) => { clearTimeout(timers.get(id)); timers.delete(id); },
    log: (level, text) => { natives.logs.push([level, text]); },
    streamNew: () => { throw new Error('no link'); },
    ...link,
  };
  return natives;
}
