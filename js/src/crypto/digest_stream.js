/** crypto.DigestStream: a WritableStream that ends in a hash of what was written to it. */
import { BigInt, TypedArrayPrototypeGetByteLength, TypeError, Uint8Array, defineGetter, promiseIgnore, promiseWithResolvers } from '../primordials.js';
import { natives } from '../natives.js';
import { WritableStream } from '../web/streams.js';
import { copyBytes, finishInterface, isBufferSource, requireArguments } from '../web/webidl.js';
import { HASHES, native } from './natives.js';
import { normalizeAlgorithm, toAlgorithmIdentifier } from './params.js';

/** Bytes of what was written: a string's are UTF-8. @param {any} chunk @returns {Uint8Array} */
function bytesOf(chunk) {
  if (typeof chunk === 'string') return new Uint8Array(natives.utf8Encode(chunk));
  if (!isBufferSource(chunk)) throw new TypeError('DigestStream takes ArrayBuffers, views of them, and strings');
  return copyBytes(chunk, 'chunk');
}

export class DigestStream extends WritableStream {
  #digest; #counter;
  /** @param {any} algorithm */
  constructor(algorithm) {
    requireArguments(arguments.length, 1, 'DigestStream');
    const { name } = normalizeAlgorithm(toAlgorithmIdentifier(algorithm), 'digest');
    const state = native((crypto) => crypto.digestNew(HASHES[name]));
    const counter = { __proto__: null, bytes: 0 };
    const { promise, resolve, reject } = promiseWithResolvers();
    promiseIgnore(promise);
    super({
      // @ts-ignore an underlying sink that inherits nothing
      __proto__: null,
      write(chunk) {
        try {
          const bytes = bytesOf(chunk);
          native((crypto) => crypto.digestUpdate(state, bytes));
          counter.bytes += TypedArrayPrototypeGetByteLength(bytes);
        } catch (error) {
          reject(error);
          throw error;
        }
      },
      close() { resolve(native((crypto) => crypto.digestFinish(state))); },
      abort(reason) { reject(reason); },
    });
    this.#digest = promise;
    this.#counter = counter;
  }
  get digest() { return this.#digest; }
  get bytesWritten() { return BigInt(this.#counter.bytes); }
}
finishInterface(DigestStream, 'DigestStream');
