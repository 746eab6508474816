/** node:timers/promises. */
import { host, nodeError } from './host.js';

const { timers } = host.web;

/** @param {any} signal */
function abortError(signal) {
  const error = nodeError(Error, 'ABORT_ERR', 'The operation was aborted');
  error.name = 'AbortError';
  error.cause = signal.reason;
  return error;
}

/** @template T @param {number} [ms] @param {T} [value] @param {{signal?: any}} [options] @returns {Promise<T|undefined>} */
export function setTimeout(ms, value, options = {}) {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    const stop = () => { timers.clearTimeout(id); reject(abortError(signal)); };
    const id = timers.setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve(value);
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
    return undefined;
  });
}
/** @template T @param {T} [value] @param {{signal?: any}} [options] */
export const setImmediate = (value, options) => setTimeout(0, value, options);
/** @template T @param {number} [ms] @param {T} [value] @param {{signal?: any}} [options] */
export async function* setInterval(ms, value, options = {}) {
  for (;;) {
    await setTimeout(ms, undefined, options);
    yield value;
  }
}
export const scheduler = {
  /** @param {number} ms @param {{signal?: any}} [options] */ wait: (ms, options) => setTimeout(ms, undefined, options),
  yield: () => setImmediate(),
};
export default { setTimeout, setImmediate, setInterval, scheduler };
