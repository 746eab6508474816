/**
 * What carries a socket's bytes: a pair of streams of the link, joined by the daemon to a TCP connection (src/link/worker_protocol.h, `connect`).
 */
import { TypeError, nullObject } from '../primordials.js';
import { cancelCall, dropCapability, startCall, streamEnd, streamReset } from '../link.js';
import { LinkBody, Sender } from '../web/link_body.js';

/**
 * @typedef {object} Transport
 * @property {() => Promise<{bytes: Uint8Array}|null>} read
 * @property {(reason?: any) => void} cancel nobody reads any more
 * @property {(bytes: Uint8Array) => Promise<void>} write resolves when there is room for more
 * @property {() => any} end nothing more is written
 * @property {(message: string) => void} abort
 * @property {((done: (transport: Transport) => void, failed: (error: any) => void) => () => void)|null} startTls as `dial`; null: it cannot
 */

/** @param {any} answer of the daemon @param {(error: any) => void} broken told when the connection fails @returns {Transport} */
function transportOf(answer, broken) {
  if (answer === null || typeof answer !== 'object' || typeof answer.in !== 'number' || typeof answer.out !== 'number') throw new TypeError('The answer is no connection.');
  const failed = (/** @type {string} */ message) => broken(new TypeError(message));
  const body = new LinkBody(answer.in, failed), sender = new Sender(answer.out);
  sender.onGone = failed;
  const capability = answer.socket;
  let held = typeof capability === 'number';
  const drop = () => {
    if (held) dropCapability(capability);
    held = false;
  };
  return /** @type {any} */ ({
    __proto__: null,
    read: () => body.read(),
    cancel: (/** @type {any} */ reason) => body.cancel(reason),
    write: (/** @type {Uint8Array} */ bytes) => sender.write(bytes),
    end: () => { drop(); streamEnd(answer.out); },
    abort: (/** @type {string} */ message) => {
      drop();
      body.cancel();
      streamReset(answer.out, message);
    },
    startTls: !held ? null : (/** @type {any} */ done, /** @type {any} */ refused) => {
      // The daemon goes on with two new streams: what has come on the old ones came without TLS.
      sender.onGone = null;
      const stop = ask(capability, 'startTls', nullObject(), done, refused, broken);
      body.cancel();
      streamReset(answer.out, 'TLS');
      drop();
      return stop;
    },
  });
}

/**
 * @param {number} capability @param {string} method @param {any} args @param {(transport: Transport) => void} done @param {(error: any) => void} failed
 * @param {(error: any) => void} broken @returns {() => void} gives it up
 */
function ask(capability, method, args, done, failed, broken) {
  const id = startCall(capability, method, args, (answer) => {
    let transport;
    try {
      transport = transportOf(answer, broken);
    } catch (error) {
      failed(error);
      return;
    }
    done(transport);
  }, failed);
  return () => cancelCall(id);
}

/**
 * Opens a connection. Exactly one of the first two functions is called. @param {string} host @param {number} port @param {string} tls
 * @param {(transport: Transport) => void} done @param {(error: any) => void} failed @param {(error: any) => void} broken later, when it breaks
 * @returns {() => void} gives it up; then none is called
 */
export function dial(host, port, tls, done, failed, broken) {
  return ask(0, 'connect', /** @type {any} */ ({ __proto__: null, host, port, tls }), done, failed, broken);
}
