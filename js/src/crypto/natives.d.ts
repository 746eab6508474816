/**
 * What src/worker/native_crypto.c and native_zlib.c give to the library (`natives.crypto`, `natives.zlib`).
 *
 * Bytes go in as Uint8Array and come out as a fresh ArrayBuffer. Bytes are read in place, and the engine pins a buffer whose address
 * was asked for: `transfer()` of a pinned one copies instead of detaching. So bytes that belong to a program are copied
 * before they go in.
 *
 * Arguments of the wrong type are a TypeError. Failures are thrown as Error with a string `code`:
 *   "INVALID_ARGUMENT"   the bytes are no such key, or the key cannot do that      (WebCrypto: DataError)
 *   "UNSUPPORTED"        (NotSupportedError)
 *   "CORRUPT"            compressed data is malformed, cut short, or followed by something
 *   anything else        the operation failed                                      (OperationError)
 */

/** MD5 0, SHA-1 1, SHA-224 2, SHA-256 3, SHA-384 4, SHA-512 5 */
type HashId = 0 | 1 | 2 | 3 | 4 | 5;
/** secret 0, RSA 1, P-256 2, P-384 3, P-521 4, Ed25519 5, X25519 6 */
type KeyKind = 0 | 1 | 2 | 3 | 4 | 5 | 6;
/** raw 0, spki 1, pkcs8 2 */
type KeyFormat = 0 | 1 | 2;
/** RSASSA-PKCS1-v1_5 0, RSA-PSS 1, ECDSA 2 (r and s, as WebCrypto has it), Ed25519 3 */
type SignScheme = 0 | 1 | 2 | 3;

/** Opaque; what they hold is wiped and freed when they are collected. */
interface KeyHandle {}
interface DigestHandle {}
interface CompressionHandle {}

/** Bytes of a secret, or a handle that secret() made. */
type Secret = Uint8Array | KeyHandle;

interface CryptoNatives {
  hash(hash: HashId, data: Uint8Array): ArrayBuffer;
  hmac(hash: HashId, key: Secret, data: Uint8Array): ArrayBuffer;
  /** With a key: HMAC. */
  digestNew(hash: HashId, key?: Secret): DigestHandle;
  digestCopy(digest: DigestHandle): DigestHandle;
  digestUpdate(digest: DigestHandle, data: Uint8Array): void;
  /** Ends it: whatever is called with it later throws (code "WRONG_STATE"). */
  digestFinish(digest: DigestHandle): ArrayBuffer;
  /** In constant time for equal lengths. */
  equal(a: Secret, b: Secret): boolean;

  hkdf(hash: HashId, secret: Secret, salt: Uint8Array, info: Uint8Array, bytes: number): ArrayBuffer;
  /** At most 10,000,000 rounds over all blocks. */
  pbkdf2(hash: HashId, password: Secret, salt: Uint8Array, rounds: number, bytes: number): ArrayBuffer;
  scrypt(password: Secret, salt: Uint8Array, n: number, r: number, p: number, maxMemory: number, bytes: number): ArrayBuffer;

  aesCbc(encrypt: boolean, key: Secret, iv: Uint8Array, data: Uint8Array): ArrayBuffer;
  /** bits: how many of the counter's bits count. */
  aesCtr(key: Secret, counter: Uint8Array, bits: number, data: Uint8Array): ArrayBuffer;
  aesGcm(encrypt: boolean, key: Secret, iv: Uint8Array, additionalData: Uint8Array, tagBytes: number, data: Uint8Array): ArrayBuffer;
  aesKw(wrap: boolean, key: Secret, data: Uint8Array): ArrayBuffer;

  secret(bytes: Uint8Array): KeyHandle;
  /** raw: public keys of curves; spki: public keys; pkcs8: private keys. */
  keyImport(format: KeyFormat, kind: KeyKind, bytes: Uint8Array): KeyHandle;
  /** The numbers of a JSON Web Key. RSA: n e d p q dp dq qi. P-*: x y d. Ed25519, X25519: x d. Absent: undefined. */
  keyFromParts(kind: KeyKind, ...parts: (Uint8Array | undefined)[]): KeyHandle;
  /** bits and exponent: RSA alone. Gives a private key; keyPublic() gives the other half. */
  keyGenerate(kind: KeyKind, bits?: number, exponent?: number): KeyHandle;
  keyPublic(key: KeyHandle): KeyHandle;
  /** raw of a secret gives its bytes. */
  keyExport(format: KeyFormat, key: KeyHandle): ArrayBuffer;
  keyParts(key: KeyHandle): ArrayBuffer[];
  keyBits(key: KeyHandle): number;

  /** saltBytes: RSA-PSS. */
  sign(key: KeyHandle, scheme: SignScheme, hash: HashId, saltBytes: number, data: Uint8Array): ArrayBuffer;
  verify(key: KeyHandle, scheme: SignScheme, hash: HashId, saltBytes: number, signature: Uint8Array, data: Uint8Array): boolean;
  rsaOaep(encrypt: boolean, key: KeyHandle, hash: HashId, label: Uint8Array, data: Uint8Array): ArrayBuffer;
  /** ECDH and X25519: the shared secret. */
  agree(own: KeyHandle, peer: KeyHandle): ArrayBuffer;
}

interface ZlibNatives {
  /** format: gzip 0, deflate 1, deflate-raw 2; level 0 to 9. */
  open(compress: boolean, format: 0 | 1 | 2, level?: number): CompressionHandle;
  /** Copies. What was pushed before must be used up: pull() gave null. */
  push(stream: CompressionHandle, bytes: Uint8Array): void;
  /** At most 64 KiB; null: push more (or, with finish, the end). */
  pull(stream: CompressionHandle, finish: boolean): ArrayBuffer | null;
  close(stream: CompressionHandle): void;
}
