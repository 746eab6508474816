/**
 * Structured clone as bytes: what crosses between workers, what Durable Object storage keeps, and structuredClone() itself.
 *
 * A value is CBOR (cbor.js) with private tags for what CBOR has no word for. Every object gets a number in the order in which it is
 * met; a second meeting is a reference to that number, so shared and cyclic values keep their shape. What cannot be copied (functions,
 * stubs, streams) is an entry of a list that travels beside the bytes, so bytes can be passed on without being understood.
 *
 * The encoder may run code of the value's owner (getters, Proxies): each property is read once, and bytes are copied before anything
 * else runs. The decoder reads UNTRUSTED INPUT: it runs nobody's code, sets no inherited setter off, trusts no length, and stops at
 * bounds of depth and of memory.
 */
import { ObjectSetPrototypeOf } from '../primordials.js';
import { decode } from './codec_decoder.js';
import { encode } from './codec_encoder.js';

export { Decoder, decode } from './codec_decoder.js';
export { Encoder, encode } from './codec_encoder.js';
export { MAX_DEPTH } from './codec_format.js';
export { className, dataCloneError, isArrayBuffer, isDate, isError, markUncloneable, registerPlatformType, setDataCloneError } from './codec_kinds.js';

/** A clone within this worker: structuredClone() without transfer. @param {any} value */
export function clone(value) {
  return decode(encode(value, CLONE), CLONE);
}
const CLONE = ObjectSetPrototypeOf({ plainInstances: true, stacks: true }, null);
