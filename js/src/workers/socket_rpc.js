/**
 * What carries a socket's bytes to another Worker: `connect()` on a service, or where a Worker's connections go through its `globalOutbound`. A call of op CONNECT
 * with [address, readable, writable], the streams being the other end's; it is answered when the handler has them.
 */
import { TypeError, promiseIgnore, promiseThen } from '../primordials.js';
import { rawList } from '../rpc/cbor.js';
import { currentContext } from '../rpc/context.js';
import { CONNECT, newPayload, releasePayload } from '../rpc/target.js';
import { decodeArguments, decodeFailure, encodeArguments } from '../rpc/values.js';
import { IdentityTransformStream } from '../web/identity_streams.js';
import { chunkBytes, getReader, getWriter, isReadableStream, isWritableStream, readerCancel, readerRead, writerAbort, writerClose, writerWrite } from '../web/streams.js';

/** @typedef {import('./socket_link.js').Transport} Transport */

/** @param {any} readable @param {any} writable @returns {Transport} */
export function transportOver(readable, writable) {
  const reader = getReader(readable), writer = getWriter(writable);
  return /** @type {any} */ ({
    __proto__: null,
    read: () => promiseThen(readerRead(reader), (step) => (step.done ? null : { __proto__: null, bytes: chunkBytes(step.value) })),
    cancel: (/** @type {any} */ reason) => promiseIgnore(readerCancel(reader, reason)),
    write: (/** @type {Uint8Array} */ bytes) => writerWrite(writer, bytes),
    end: () => promiseThen(writerClose(writer), () => {}, () => {}),
    abort: (/** @type {any} */ reason) => {
      promiseIgnore(readerCancel(reader, reason));
      promiseIgnore(writerAbort(writer, reason));
    },
    startTls: null,
  });
}

/**
 * As dial() of socket_link.js. @param {import('../rpc/target.js').Target} target @param {string} address @param {(transport: Transport) => void} done
 * @param {(error: any) => void} failed @returns {() => void}
 */
export function dialThrough(target, address, done, failed) {
  const up = new IdentityTransformStream(), down = new IdentityTransformStream(), context = currentContext();
  const transport = transportOver(down.readable, up.writable);
  const result = target.call(rawList(), CONNECT, encodeArguments([address, up.readable, down.writable]));
  let over = false;
  result.listen(() => {
    context?.enter();
    if (over) return;
    over = true;
    if (result.state === 2) failed(decodeFailure(result.take()));
    else {
      releasePayload(result.take());
      done(transport);
    }
    result.finish();
  });
  return () => {
    if (over) return;
    over = true;
    transport.abort('closed');
    result.finish();
  };
}

/** What a call of op CONNECT brings. @param {import('../rpc/target.js').Payload|null} payload passed on @returns {{address: string, readable: any, writable: any}} */
export function takeConnect(payload) {
  const { values } = decodeArguments(payload ?? newPayload(null));
  const [address, readable, writable] = [values?.[0], values?.[1], values?.[2]];
  if (typeof address !== 'string' || !isReadableStream(readable) || !isWritableStream(writable)) throw new TypeError('A connection was expected.');
  return { address, readable, writable };
}
