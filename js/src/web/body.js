/**
 * What Request and Response share. A body is kept in the form it came in, and a ReadableStream is made only when somebody asks for
 * `.body`: text and bytes are given back as they are, a body on the link is collected without a stream.
 */
import {
  ArrayBufferPrototypeGetByteLength, JSONParse, ObjectAssign, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ReflectOwnKeys,
  StringPrototypeIsWellFormed, StringPrototypeToWellFormed, TypeError, TypedArrayPrototypeGetBuffer, Uint8Array, nullObject, promiseIgnore,
} from '../primordials.js';
import { blobBytes, blobOf, isBlob } from './blob.js';
import { utf8Decode, utf8Encode, withoutMark } from './bytes.js';
import { formDataBytes, isFormData, parseFormData } from './form_data.js';
import { lengthOf } from './identity_streams.js';
import { LinkBody, relay, sendStream } from './link_body.js';
import { extractMime, serializeMime } from './mime.js';
import {
  ReadableStream, bytesStream, cancelStream, chunkBytes, consumeStream, defaultClose, defaultEnqueue, getReader, isByteStream, isDisturbed, isLocked, isReadableStream, originOf, readAll,
  readerCancel, readerRead, sourceStream, teeStream,
} from './streams.js';
import { structuredClone } from './structured_clone.js';
import { isURLSearchParams, serializeSearchParams } from './url.js';
import { copyBytes, isBufferSource, isObject, isUint8Array, toUSVString } from './webidl.js';

export const NULL = 0, TEXT = 1, BYTES = 2, LINK = 3, STREAM = 4;
const USED = 'Body has already been used. It can only be used once. Use tee() first if you need to read it twice.';

/** Bytes in an object that inherits nothing: what goes through a promise must not be asked for `then`. @param {Uint8Array} bytes @returns {any} */
const holder = (bytes) => ({ __proto__: null, bytes });

/** Not exposed; the base of Request and Response. */
export class Body {
  #kind = NULL;
  /** string, Uint8Array or LinkBody @type {any} */
  #source = null;
  /** the stream, once there is one @type {any} */
  #stream = null;
  #used = false;

  get body() {
    if (this.#kind === NULL) return null;
    if (this.#stream === null) {
      this.#stream = this.#kind === LINK ? sourceStream(this.#source, true) : bytesStream(this.#kind === TEXT ? utf8Encode(this.#source) : this.#source);
      this.#kind = STREAM;
      this.#source = null;
      if (this.#used) consumeStream(this.#stream);
    }
    return this.#stream;
  }
  get bodyUsed() {
    return this.#kind === STREAM ? isDisturbed(this.#stream) : this.#used;
  }
  async arrayBuffer() {
    const { bytes } = await this.#bytes();
    const buffer = TypedArrayPrototypeGetBuffer(bytes);
    return bytes.length === ArrayBufferPrototypeGetByteLength(buffer) ? buffer : TypedArrayPrototypeGetBuffer(new Uint8Array(bytes));
  }
  async blob() {
    const mime = extractMime(this.#contentType());
    return blobOf((await this.#bytes()).bytes, mime === null ? '' : serializeMime(mime));
  }
  async bytes() { return (await this.#bytes()).bytes; }
  async formData() {
    const mime = extractMime(this.#contentType());
    return parseFormData((await this.#bytes()).bytes, mime);
  }
  async json() {
    return JSONParse(this.#kind === TEXT ? this.#text() : utf8Decode((await this.#bytes(false)).bytes));
  }
  async text() {
    return this.#kind === TEXT ? this.#text() : utf8Decode((await this.#bytes(false)).bytes);
  }

  #contentType() { return contentTypeOf(this); }
  #text() {
    if (this.#used) throw new TypeError(USED);
    this.#used = true;
    const text = this.#source;
    return withoutMark(StringPrototypeIsWellFormed(text) ? text : StringPrototypeToWellFormed(text));
  }
  /** Consumes the body. @param {boolean} [own] the caller gets the bytes for itself @returns {any} {bytes}, or a promise of it */
  #bytes(own = true) {
    switch (this.#kind) {
      case NULL: return holder(new Uint8Array(0));
      case STREAM: {
        const stream = this.#stream;
        if (isLocked(stream) || isDisturbed(stream)) throw new TypeError(isDisturbed(stream) ? USED : 'The body is locked by a reader.');
        const origin = originOf(stream);
        if (origin === undefined) return readAll(stream);
        consumeStream(stream);
        if (!isUint8Array(origin) && origin.failure !== null) throw origin.failure[0];
        return isUint8Array(origin) ? holder(own ? new Uint8Array(origin) : origin) : origin.readAll();
      }
      default:
        if (this.#used) throw new TypeError(USED);
        this.#used = true;
        if (this.#kind === LINK) {
          if (this.#source.failure !== null) throw this.#source.failure[0];
          return this.#source.readAll();
        }
        return holder(this.#kind === TEXT ? utf8Encode(this.#source) : own ? new Uint8Array(this.#source) : this.#source);
    }
  }

  static {
    isBody = (value) => isObject(value) && #kind in value;
    setBody = (body, kind, source) => {
      body.#kind = kind;
      if (kind === STREAM) body.#stream = source;
      else body.#source = source;
    };
    unusable = (body) => (body.#kind === STREAM ? isDisturbed(body.#stream) || isLocked(body.#stream) : body.#used);
    hasBody = (body) => body.#kind !== NULL;
    cloneBody = (from, to) => {
      if (from.#kind === LINK) void from.body;
      if (from.#kind === STREAM) {
        const bytes = isByteStream(from.#stream);
        const both = teeStream(from.#stream);
        from.#stream = both[0];
        // The two sides of a byte stream have copies of their own already.
        to.#stream = bytes ? both[1] : copiedChunks(both[1]);
      }
      to.#kind = from.#kind;
      to.#source = from.#source;
    };
    moveBody = (from, to) => {
      to.#kind = from.#kind;
      to.#source = from.#source;
      if (from.#kind === STREAM) {
        const origin = originOf(from.#stream);
        if (origin !== undefined) {
          to.#kind = isUint8Array(origin) ? BYTES : LINK;
          to.#source = origin;
          consumeStream(from.#stream);
        } else {
          to.#stream = proxyStream(from.#stream);
        }
      }
      from.#used = true;
    };
    takeWire = (body, failed) => {
      const kind = body.#kind;
      if (kind === NULL) return null;
      if (kind === STREAM) {
        const stream = body.#stream;
        if (isLocked(stream) || isDisturbed(stream)) throw new TypeError(isDisturbed(stream) ? USED : 'The body is locked by a reader.');
        const origin = originOf(stream);
        if (origin === undefined) return { __proto__: null, length: lengthOf(stream), stream: () => sendStream(stream, failed) };
        consumeStream(stream);
        return isUint8Array(origin) ? origin : { __proto__: null, stream: () => relay(origin) };
      }
      if (body.#used) throw new TypeError(USED);
      body.#used = true;
      if (kind === LINK) {
        const source = body.#source;
        return { __proto__: null, stream: () => relay(source) };
      }
      return body.#source;
    };
    failable = (body) => {
      if (body.#kind === STREAM || body.#kind === NULL) return () => {};
      if (body.#kind !== LINK) {
        body.#source = LinkBody.of(body.#kind === TEXT ? utf8Encode(body.#source) : body.#source);
        body.#kind = LINK;
      }
      const source = body.#source;
      return (reason) => source.fail(reason);
    };
    cancelBody = (body, reason) => {
      if (body.#kind === STREAM && !isLocked(body.#stream)) promiseIgnore(cancelStream(body.#stream, reason));
      else dropBody(body);
    };
    dropBody = (body) => {
      if (body.#kind === LINK && !body.#used) {
        body.#used = true;
        body.#source.cancel();
      }
    };
  }
}
/** @type {(value: any) => boolean} */ var isBody;
/** @type {(body: any, kind: number, source: any) => void} */ var setBody;
/** It was read from, or is being. @type {(body: any) => boolean} */ var unusable;
/** @type {(body: any) => boolean} */ var hasBody;
/** `to` gets the same bytes as `from` (which is not unusable). @type {(from: any, to: any) => void} */ var cloneBody;
/** `to` gets the body, `from` is used up. @type {(from: any, to: any) => void} */ var moveBody;
/**
 * Uses the body up for sending: null, text, bytes, or {length?, stream()} where stream() opens a link stream and answers
 * {id, done}. @type {(body: any, failed?: (error: any) => void) => any}
 */
var takeWire;
/** Says that a body that was never read is not wanted. @type {(body: any) => void} */ var dropBody;
/** Prepares a body that just came to be cut off: gives the function that does it. @type {(body: any) => (reason: any) => void} */ var failable;
/** Nothing will be read of a body that was to be sent. @type {(body: any, reason: any) => void} */ var cancelBody;
export { cancelBody, failable, isBody, setBody, unusable, hasBody, cloneBody, moveBody, takeWire, dropBody };

/** Request and Response say where their Content-Type is. @type {(body: any) => string|null} */
let contentTypeOf = () => null;
/** @param {(body: any) => string|null} find */
export const setContentTypeOf = (find) => { contentTypeOf = find; };

/** A stream that gives what the other gives and locks it now. @param {any} stream */
function proxyStream(stream) {
  const reader = getReader(stream);
  return sourceStream({
    read: async () => {
      const step = await readerRead(reader);
      return step.done ? null : holder(chunkBytes(step.value));
    },
    cancel: (reason) => readerCancel(reader, reason),
  });
}

/** A stream of structured clones of another's chunks. @param {any} stream */
function copiedChunks(stream) {
  const reader = getReader(stream);
  return new ReadableStream(/** @type {any} */ ({
    __proto__: null, start: undefined, type: undefined,
    pull: async (/** @type {any} */ controller) => {
      const step = await readerRead(reader);
      if (step.done) defaultClose(controller);
      else defaultEnqueue(controller, structuredClone(step.value));
    },
    cancel: (/** @type {any} */ reason) => readerCancel(reader, reason),
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 0, size: undefined }));
}

/**
 * Takes what a guest gave as a body. @param {any} body the Request or Response @param {any} value not null
 * @returns {string|null} the Content-Type that it implies
 */
export function extractBody(body, value) {
  if (typeof value === 'string') {
    setBody(body, TEXT, value);
    return 'text/plain;charset=UTF-8';
  }
  if (isObject(value)) {
    if (isReadableStream(value)) {
      if (isDisturbed(value) || isLocked(value)) throw new TypeError('This ReadableStream is disturbed (has already been read from), and cannot be used as a body.');
      setBody(body, STREAM, value);
      return null;
    }
    if (isBufferSource(value)) {
      setBody(body, BYTES, copyBytes(value, 'body'));
      return null;
    }
    if (isBlob(value)) {
      setBody(body, BYTES, blobBytes(value));
      return value.type === '' ? null : value.type;
    }
    if (isURLSearchParams(value)) {
      setBody(body, TEXT, serializeSearchParams(value));
      return 'application/x-www-form-urlencoded;charset=UTF-8';
    }
    if (isFormData(value)) {
      const { bytes, type } = formDataBytes(value);
      setBody(body, BYTES, bytes);
      return type;
    }
  }
  setBody(body, TEXT, toUSVString(value));
  return 'text/plain;charset=UTF-8';
}

/** Gives a class the members of Body as its own. @param {any} Class */
export function mixBody(Class) {
  const keys = ReflectOwnKeys(Body.prototype);
  for (let i = 0; i < keys.length; i++) {
    if (keys[i] === 'constructor') continue;
    ObjectDefineProperty(Class.prototype, keys[i], ObjectAssign(nullObject(), ObjectGetOwnPropertyDescriptor(Body.prototype, keys[i])));
  }
  Object.setPrototypeOf(Class.prototype, Object.prototype);
}
