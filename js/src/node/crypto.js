/** node:crypto: hashes, HMAC, derivation, random values; the rest is the Web API's (webcrypto). */
import { Buffer } from './buffer.js';
import { host, missing, nodeError } from './host.js';

const { crypto, natives } = host;
const c = natives.crypto;
const { random, utf8Encode } = natives;

/** @type {Record<string, 0|1|2|3|4|5>} */
const HASHES = /** @type {any} */ ({
  __proto__: null, md5: 0, sha1: 1, sha224: 2, sha256: 3, sha384: 4, sha512: 5, 'sha-1': 1, 'sha-224': 2, 'sha-256': 3, 'sha-384': 4, 'sha-512': 5,
  'rsa-md5': 0, 'rsa-sha1': 1, 'rsa-sha224': 2, 'rsa-sha256': 3, 'rsa-sha384': 4, 'rsa-sha512': 5,
});

/** @param {any} name */
function hashId(name) {
  if (typeof name !== 'string') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "algorithm" argument must be of type string');
  const id = HASHES[name.toLowerCase()];
  if (id === undefined) throw nodeError(Error, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${name}`);
  return id;
}

/** A copy of the bytes of an argument. @param {any} data @param {string} what @param {any} [encoding] @returns {Uint8Array} */
function bytesOf(data, what, encoding) {
  if (typeof data === 'string') return encoding === undefined || encoding === 'utf8' || encoding === 'utf-8' ? new Uint8Array(utf8Encode(data)) : new Uint8Array(Buffer.from(data, encoding));
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  if (data instanceof ArrayBuffer) return new Uint8Array(data.slice(0));
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${what}" argument must be of type string or an instance of Buffer, TypedArray, or DataView`);
}
/** @param {Uint8Array} view */
const plain = (view) => (Object.getPrototypeOf(view) === Uint8Array.prototype ? view : new Uint8Array(view));
/** @param {ArrayBuffer} made @param {any} encoding */
const shown = (made, encoding) => (encoding === undefined || encoding === null || encoding === 'buffer' ? Buffer.from(made) : Buffer.from(made).toString(encoding));

class Digest {
  #handle; #finished = false;
  /** @param {any} handle */
  constructor(handle) { this.#handle = handle; }
  /** @param {any} data @param {any} [encoding] */
  update(data, encoding) {
    if (this.#finished) throw nodeError(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    c.digestUpdate(this.#handle, plain(bytesOf(data, 'data', encoding)));
    return this;
  }
  /** @param {any} [encoding] */
  digest(encoding) {
    if (this.#finished) throw nodeError(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    this.#finished = true;
    return shown(c.digestFinish(this.#handle), encoding);
  }
  copy() {
    if (this.#finished) throw nodeError(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    return Reflect.construct(Digest, [c.digestCopy(this.#handle)], /** @type {any} */ (this.constructor));
  }
}
// In Node.js they are streams, too.
for (const name of ['on', 'once', 'write', 'end', 'pipe']) {
  Object.defineProperty(Digest.prototype, name, { value: missing(`${name}() of a Hash or an Hmac (they are no streams here)`), writable: true, configurable: true });
}
export class Hash extends Digest {}
export class Hmac extends Digest {}
/** @param {string} algorithm */
export const createHash = (algorithm) => Reflect.construct(Digest, [c.digestNew(hashId(algorithm))], Hash);
/** @param {string} algorithm @param {any} key */
export const createHmac = (algorithm, key) => Reflect.construct(Digest, [c.digestNew(hashId(algorithm), plain(bytesOf(key, 'key')))], Hmac);
/** @param {string} algorithm @param {any} data @param {any} [encoding] */
export const hash = (algorithm, data, encoding = 'hex') => shown(c.hash(hashId(algorithm), plain(bytesOf(data, 'data'))), encoding);
export const getHashes = () => ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];
export const getCiphers = () => [];
export const getCurves = () => [];

/** @param {any} size @param {string} what @param {number} max */
function checkSize(size, what, max = 0x7fffffff) {
  if (typeof size !== 'number') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${what}" argument must be of type number`);
  if (!Number.isInteger(size) || size < 0 || size > max) throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', `The value of "${what}" is out of range. It must be >= 0 && <= ${max}. Received ${size}`);
}
/** @param {any} callback @param {() => any} run */
function later(callback, run) {
  if (typeof callback !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function');
  /** @type {any[]} */ let answer;
  try {
    answer = [null, run()];
  } catch (error) {
    answer = [error];
  }
  host.web.timers.setTimeout(callback, 0, ...answer);
}

/** @param {number} size @param {any} [callback] */
export function randomBytes(size, callback) {
  checkSize(size, 'size');
  const make = () => {
    const bytes = new Uint8Array(size);
    random(bytes);
    return Buffer.from(bytes.buffer);
  };
  return callback === undefined ? make() : later(callback, make);
}
export { randomBytes as pseudoRandomBytes };
/** @param {any} buffer @param {number} [offset] @param {number} [size] */
export function randomFillSync(buffer, offset = 0, size) {
  const view = ArrayBuffer.isView(buffer) ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength) : new Uint8Array(buffer);
  checkSize(offset, 'offset', view.length);
  const count = size === undefined ? view.length - offset : size;
  checkSize(count, 'size', view.length - offset);
  view.set(randomBytes(count), offset);
  return buffer;
}
/** @param {any} buffer @param {any[]} args */
export function randomFill(buffer, ...args) {
  const callback = args.pop();
  later(callback, () => randomFillSync(buffer, ...args));
}
/** @param {number} low @param {any} [high] @param {any} [callback] */
export function randomInt(low, high, callback) {
  let min = low, max = high, done = callback;
  if (max === undefined || typeof max === 'function') [min, max, done] = [0, low, high];
  for (const [name, value] of [['min', min], ['max', max]]) {
    if (!Number.isSafeInteger(value)) throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be a safe integer`);
  }
  const range = max - min;
  if (!(range > 0)) throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', `The value of "max" is out of range. It must be greater than the value of "min" (${min}). Received ${max}`);
  if (!(range <= 0xffffffffffff)) throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', 'The value of "max - min" is out of range. It must be <= 281474976710655');
  const draw = () => {
    const limit = 0x1000000000000 - (0x1000000000000 % range); // above it some values would come more often
    for (;;) {
      const number = randomBytes(6).readUIntBE(0, 6);
      if (number < limit) return min + (number % range);
    }
  };
  return done === undefined ? draw() : later(done, draw);
}
export const randomUUID = () => host.randomUUID();
/** @param {any} array */
export const getRandomValues = (array) => crypto.getRandomValues(array);
export const webcrypto = crypto;
export const { subtle } = crypto;

/** @param {any} a @param {any} b */
export function timingSafeEqual(a, b) {
  const first = bytesOf(typeof a === 'string' ? null : a, 'buf1'), second = bytesOf(typeof b === 'string' ? null : b, 'buf2');
  if (first.length !== second.length) throw nodeError(RangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
  return c.equal(plain(first), plain(second));
}

/** What the natives refuse, as Node.js says it. @param {() => any} run */
function derive(run) {
  try {
    return run();
  } catch (error) {
    if (/** @type {any} */ (error).code === 'LIMIT_EXCEEDED') throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', /** @type {any} */ (error).message);
    throw error;
  }
}
/** @param {any} password @param {any} salt @param {number} iterations @param {number} size @param {string} digest */
export function pbkdf2Sync(password, salt, iterations, size, digest) {
  checkSize(iterations, 'iterations');
  if (iterations === 0) throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', 'The value of "iterations" is out of range. It must be >= 1');
  checkSize(size, 'keylen', 1 << 20);
  return derive(() => Buffer.from(c.pbkdf2(hashId(digest), plain(bytesOf(password, 'password')), plain(bytesOf(salt, 'salt')), iterations, size)));
}
/** @param {any} password @param {any} salt @param {number} iterations @param {number} size @param {string} digest @param {any} callback */
export const pbkdf2 = (password, salt, iterations, size, digest, callback) => later(callback, () => pbkdf2Sync(password, salt, iterations, size, digest));
/** @param {string} digest @param {any} secret @param {any} salt @param {any} info @param {number} size */
export function hkdfSync(digest, secret, salt, info, size) {
  checkSize(size, 'keylen', 1 << 20);
  return derive(() => c.hkdf(hashId(digest), plain(bytesOf(secret, 'ikm')), plain(bytesOf(salt, 'salt')), plain(bytesOf(info, 'info')), size));
}
/** @param {string} digest @param {any} secret @param {any} salt @param {any} info @param {number} size @param {any} callback */
export const hkdf = (digest, secret, salt, info, size, callback) => later(callback, () => hkdfSync(digest, secret, salt, info, size));
/** @param {any} password @param {any} salt @param {number} size @param {any} [options] */
export function scryptSync(password, salt, size, options = {}) {
  checkSize(size, 'keylen', 1 << 20);
  const n = options.N ?? options.cost ?? 16384, r = options.r ?? options.blockSize ?? 8, p = options.p ?? options.parallelization ?? 1;
  const memory = options.maxmem ?? 32 << 20;
  for (const [name, value] of [['N', n], ['r', r], ['p', p], ['maxmem', memory]]) checkSize(value, name);
  return derive(() => Buffer.from(c.scrypt(plain(bytesOf(password, 'password')), plain(bytesOf(salt, 'salt')), n, r, p, memory, size)));
}
/** @param {any} password @param {any} salt @param {number} size @param {any} options @param {any} [callback] */
export const scrypt = (password, salt, size, options, callback) => (typeof options === 'function'
  ? later(options, () => scryptSync(password, salt, size)) : later(callback, () => scryptSync(password, salt, size, options)));

export const createCipheriv = missing('crypto.createCipheriv');
export const createDecipheriv = missing('crypto.createDecipheriv');
export const createDiffieHellman = missing('crypto.createDiffieHellman');
export const createECDH = missing('crypto.createECDH');
export const createPrivateKey = missing('crypto.createPrivateKey');
export const createPublicKey = missing('crypto.createPublicKey');
export const createSecretKey = missing('crypto.createSecretKey');
export const createSign = missing('crypto.createSign');
export const createVerify = missing('crypto.createVerify');
export const diffieHellman = missing('crypto.diffieHellman');
export const generateKey = missing('crypto.generateKey');
export const generateKeyPair = missing('crypto.generateKeyPair');
export const generateKeyPairSync = missing('crypto.generateKeyPairSync');
export const generateKeySync = missing('crypto.generateKeySync');
export const privateDecrypt = missing('crypto.privateDecrypt');
export const privateEncrypt = missing('crypto.privateEncrypt');
export const publicDecrypt = missing('crypto.publicDecrypt');
export const publicEncrypt = missing('crypto.publicEncrypt');
export const sign = missing('crypto.sign');
export const verify = missing('crypto.verify');
export const constants = {};

export default {
  Hash, Hmac, constants, createCipheriv, createDecipheriv, createDiffieHellman, createECDH, createHash, createHmac, createPrivateKey, createPublicKey,
  createSecretKey, createSign, createVerify, diffieHellman, generateKey, generateKeyPair, generateKeyPairSync, generateKeySync, getCiphers, getCurves,
  getHashes, getRandomValues, hash, hkdf, hkdfSync, pbkdf2, pbkdf2Sync, privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt, randomBytes,
  randomFill, randomFillSync, randomInt, randomUUID, scrypt, scryptSync, sign, subtle, timingSafeEqual, verify, webcrypto,
};
