/**
 * One object's storage capability (src/link/worker_protocol.h): calls that are answered at once, arguments and answers of any size, and what
 * has been written but is not known to be on disk yet.
 */
import {
  Error, RangeError, TypeError, TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array, nullObject, promiseResolve, promiseThen,
} from '../primordials.js';
import { call, callSync, dropCapability } from '../link.js';
import { decodePlain, encodePlain, viewOf } from '../rpc/cbor.js';

/** What one call carries at most; the frame's own limit is 1 MiB. */
const PIECE = 700 << 10;

/** The daemon's error as the program shall see it. @param {any} error @param {boolean} limits whether a limit is a RangeError @returns {any} */
function seenError(error, limits) {
  const message = error.message;
  if (error.code === 'LIMIT_EXCEEDED' && limits) return new RangeError(message);
  if (error.code === 'INVALID_ARGUMENT' && limits) return new TypeError(message);
  return new Error(message);
}

export class StorageLink {
  /**
   * @param {number} capability
   * @param {(error: any) => void} broken a write could not be brought to disk: nothing of the instance may be believed
   */
  constructor(capability, broken) {
    this.capability = capability;
    this.broken = broken;
    /** @type {any} why it cannot be used any more */
    this.closed = null;
    this.dirty = false;
    /** The last that was asked for, settled when all before it is on disk; null: nothing is owed. @type {Promise<any>|null} */
    this.flushing = null;
  }

  /** @param {any} reason thrown by every use from now on */
  close(reason) {
    if (this.closed !== null) return;
    this.closed = reason;
    try {
      callSync(this.capability, 'undo');
    } catch { /* it was taken over by a newer instance: nothing of ours is left */ }
    dropCapability(this.capability);
  }

  /** @param {string} method @param {any} args @param {boolean} limits */
  ask(method, args, limits) {
    if (this.closed !== null) throw this.closed;
    let answer;
    try {
      const bytes = encodePlain(args);
      const size = TypedArrayPrototypeGetLength(bytes);
      if (size > PIECE) {
        for (let at = 0; at < size; at += PIECE) callSync(this.capability, 'stage', { __proto__: null, data: viewOf(bytes, at, at + PIECE < size ? at + PIECE : size) });
        answer = callSync(this.capability, method, null);
      } else {
        answer = callSync(this.capability, method, args);
      }
      if (answer !== null && answer.pieces !== undefined) answer = this.pieces(answer.pieces);
    } catch (error) {
      throw seenError(error, limits);
    }
    return answer;
  }

  /** @param {number} size */
  pieces(size) {
    const bytes = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const piece = callSync(this.capability, 'piece');
      const length = TypedArrayPrototypeGetLength(piece);
      if (length === 0) throw new Error('An answer of the storage ended early.');
      TypedArrayPrototypeSet(bytes, piece, at);
      at += length;
    }
    return decodePlain(bytes);
  }

  /** As ask(), for what changes something. @param {string} method @param {any} args @param {boolean} limits */
  write(method, args, limits) {
    const answer = this.ask(method, args, limits);
    this.wrote();
    return answer;
  }

  /** After this turn the daemon is told to bring it to disk: what is written without awaiting anything is there whole or not at all. */
  wrote() {
    if (this.dirty) return;
    this.dirty = true;
    const flushing = promiseThen(promiseResolve(), () => {
      this.dirty = false;
      return this.closed === null ? call(this.capability, 'sync', nullObject()) : undefined;
    });
    this.flushing = flushing;
    promiseThen(flushing, () => {
      if (this.flushing === flushing) this.flushing = null;
    }, (error) => {
      if (this.flushing === flushing) this.flushing = null;
      if (this.closed === null) this.broken(seenError(error, false));
    });
  }

  /** Settled once everything written so far is on disk. @returns {Promise<any>} */
  sync() {
    if (this.closed !== null) throw this.closed;
    return this.flushing ?? promiseResolve();
  }
}
