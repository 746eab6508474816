// What WebCrypto refuses, by the exact error; each with a legal twin beside it.
const { subtle } = crypto;
const key = (format, data, algorithm, usages, extractable = true) => subtle.importKey(format, data, algorithm, extractable, usages);
const aes = (name = "AES-GCM", usages = ["encrypt", "decrypt"], size = 16) => key("raw", new Uint8Array(size), name, usages);
const rsa = (over) => ({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), ...over });

test("random values have limits", async () => {
  await refused(() => crypto.getRandomValues(new Uint8Array(65537)), "QuotaExceededError: 65537 bytes are more than 65536");
  await refused(() => crypto.getRandomValues(new Float64Array(1)), "TypeMismatchError: The array does not hold integers");
  await refused(() => crypto.getRandomValues(new DataView(new ArrayBuffer(1))), "TypeMismatchError: The array does not hold integers");
  await refused(() => crypto.getRandomValues([1, 2]), "TypeError: Crypto.getRandomValues: the argument is not an ArrayBufferView");
  await refused(() => crypto.getRandomValues(), "TypeError: Crypto.getRandomValues: 1 argument required, but only 0 present");
  equal(crypto.getRandomValues(new Uint8Array(65536)).length, 65536);
});

test("nobody makes keys, or the objects themselves", async () => {
  await refused(() => new CryptoKey(), "TypeError: Illegal constructor: CryptoKey");
  await refused(() => new Crypto(), "TypeError: Illegal constructor: Crypto");
  await refused(() => new SubtleCrypto(), "TypeError: Illegal constructor: SubtleCrypto");
  const forged = Object.create(CryptoKey.prototype);
  await refused(() => subtle.exportKey("raw", forged), "TypeError: key is not a CryptoKey");
  for (const name of ["type", "usages", "algorithm", "extractable"]) {
    let threw = false;
    try {
      forged[name];
    } catch (error) {
      threw = error instanceof TypeError;
    }
    equal(threw, true, name);
  }
  await refused(() => subtle.digest.call({}, "SHA-1", new Uint8Array(1)).then(() => 0, (e) => { throw new e.constructor("x"); }), "TypeError: x");
});

test("what a program does to a key's description changes nothing", async () => {
  const k = await aes("AES-GCM", ["encrypt"]);
  k.algorithm.name = "AES-CBC";
  k.usages.push("decrypt");
  const iv = new Uint8Array(12);
  await refused(() => subtle.decrypt({ name: "AES-GCM", iv }, k, new Uint8Array(32)), "InvalidAccessError: the key is not for decrypt");
  equal((await subtle.encrypt({ name: "AES-GCM", iv }, k, new Uint8Array(1))).byteLength, 17);
});

test("a clone of a key is as restricted as the key", async () => {
  const k = structuredClone(await key("raw", new Uint8Array(16), "AES-GCM", ["encrypt"], false));
  equal(k instanceof CryptoKey, true);
  await refused(() => subtle.exportKey("raw", k), "InvalidAccessError: the key is not extractable");
  equal((await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, k, new Uint8Array(1))).byteLength, 17);
});

test("usages and extractability are kept", async () => {
  const k = await key("raw", new Uint8Array(16), "AES-GCM", ["encrypt"], false);
  await refused(() => subtle.exportKey("raw", k), "InvalidAccessError: the key is not extractable");
  await refused(() => subtle.sign("HMAC", k, new Uint8Array(1)), "InvalidAccessError: the key is of AES-GCM, not HMAC");
  await refused(() => subtle.exportKey("spki", k), "InvalidAccessError: the key is not extractable");
  await refused(async () => subtle.exportKey("spki", await aes()), "NotSupportedError: an AES key has no format spki");
  await refused(async () => subtle.exportKey("der", await aes()), "TypeError: der is not a key format");
  await refused(async () => subtle.exportKey("raw", await key("raw", new Uint8Array(1), "HKDF", ["deriveBits"], false)), "NotSupportedError: keys of HKDF are not exported");
  await refused(() => key("raw", new Uint8Array(1), "HKDF", ["deriveBits"], true), "SyntaxError: a key of HKDF cannot be extractable");
  await refused(() => aes("AES-GCM", []), "SyntaxError: the key would have no usages");
  await refused(() => aes("AES-GCM", ["sign"]), "SyntaxError: a key of this algorithm cannot be used to sign");
  await refused(() => aes("AES-GCM", ["everything"]), "TypeError: everything is not a key usage");
  await refused(() => aes("AES-GCM", 5), "TypeError: keyUsages is not iterable");
});

test("algorithms", async () => {
  await refused(() => subtle.digest("SHA-3", new Uint8Array(1)), "NotSupportedError: Unrecognized algorithm name SHA-3");
  await refused(() => subtle.digest({}, new Uint8Array(1)), "TypeError: Algorithm: name is missing");
  await refused(() => subtle.digest("SHA-1", "text"), "TypeError: data is neither an ArrayBuffer nor a view of one");
  await refused(() => key("raw", new Uint8Array(1), { name: "HMAC", hash: "MD5" }, ["sign"]), "NotSupportedError: Unrecognized algorithm name MD5");
  await refused(() => key("raw", new Uint8Array(1), { name: "HMAC" }, ["sign"]), "TypeError: HMAC parameter hash is missing");
  await refused(async () => subtle.encrypt({ name: "AES-GCM" }, await aes(), new Uint8Array(1)), "TypeError: AES-GCM parameter iv is missing");
  await refused(() => subtle.generateKey({ name: "__proto__" }, true, []), "NotSupportedError: Unrecognized algorithm name __proto__");
  await refused(() => subtle.generateKey({ name: "constructor" }, true, []), "NotSupportedError: Unrecognized algorithm name constructor");
});

test("parameters of AES", async () => {
  const k = await aes(), iv = new Uint8Array(12), data = new Uint8Array(16);
  await refused(() => subtle.encrypt({ name: "AES-GCM", iv, tagLength: 33 }, k, data), "OperationError: tagLength must be 32, 64, 96, 104, 112, 120 or 128");
  await refused(() => subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(0) }, k, data), "OperationError: iv must have 1 to 65536 bytes");
  await refused(() => subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(1 << 17) }, k, data), "OperationError: iv must have 1 to 65536 bytes");
  await refused(() => subtle.decrypt({ name: "AES-GCM", iv }, k, new Uint8Array(15)), "OperationError: the data is shorter than the tag");
  await refused(() => subtle.decrypt({ name: "AES-GCM", iv }, k, new Uint8Array(32)), "OperationError: the operation failed");
  const cbc = await aes("AES-CBC"), ctr = await aes("AES-CTR");
  await refused(() => subtle.encrypt({ name: "AES-CBC", iv }, cbc, data), "OperationError: iv must have 16 bytes");
  await refused(() => subtle.decrypt({ name: "AES-CBC", iv: data }, cbc, new Uint8Array(16)), "OperationError: the operation failed");
  await refused(() => subtle.decrypt({ name: "AES-CBC", iv: data }, cbc, new Uint8Array(17)), "OperationError: the operation failed");
  await refused(() => subtle.encrypt({ name: "AES-CTR", counter: iv, length: 8 }, ctr, data), "OperationError: counter must have 16 bytes");
  for (const length of [0, 129]) await refused(() => subtle.encrypt({ name: "AES-CTR", counter: data, length }, ctr, data), "OperationError: length must be 1 to 128");
  await refused(() => subtle.encrypt({ name: "AES-CTR", counter: data, length: 256 }, ctr, data), "TypeError: AES-CTR parameter length is out of range");
  await refused(() => subtle.encrypt({ name: "AES-CTR", counter: data, length: 4 }, ctr, new Uint8Array(16 * 17)), "OperationError: the data is too long for the length of the counter");
  equal((await subtle.encrypt({ name: "AES-CTR", counter: data, length: 4 }, ctr, new Uint8Array(16 * 16))).byteLength, 256);
  await refused(() => aes("AES-CBC", ["encrypt"], 17), "DataError: an AES key has 128, 192 or 256 bits");
  await refused(() => subtle.generateKey({ name: "AES-CBC", length: 64 }, true, ["encrypt"]), "OperationError: length must be 128, 192 or 256");
  const kw = await aes("AES-KW", ["wrapKey", "unwrapKey"]);
  await refused(() => subtle.unwrapKey("raw", new Uint8Array(24), kw, "AES-KW", "AES-CBC", true, ["encrypt"]), "OperationError: the operation failed");
  await refused(() => subtle.unwrapKey("raw", new Uint8Array(23), kw, "AES-KW", "AES-CBC", true, ["encrypt"]), "OperationError: the data must be a multiple of 8 bytes, and at least two");
});

test("what takes too long or too much is refused before it begins", async () => {
  const k = await key("raw", new Uint8Array(1), "PBKDF2", ["deriveBits"], false), salt = new Uint8Array(8);
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 4294967295 }, k, 160), "OperationError: the iterations of PBKDF2 are out of range");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 10000001 }, k, 160), "OperationError: PBKDF2 runs at most 10000000 rounds in one call");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 5000001 }, k, 168), "OperationError: PBKDF2 runs at most 10000000 rounds in one call");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 0 }, k, 160), "OperationError: iterations must not be 0");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 1 }, k, 4294967288), "OperationError: length must be at most 8388608");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 1 }, k, 7), "OperationError: length must be a multiple of 8");
  await refused(() => subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt, iterations: 1 }, k, 0), "OperationError: length must not be 0");
  const hkdf = await key("raw", new Uint8Array(1), "HKDF", ["deriveBits"], false);
  await refused(() => subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info: salt }, hkdf, 255 * 256 + 8), "OperationError: HKDF derives at most 8160 bytes with this hash");
  equal((await subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info: salt }, hkdf, 255 * 256)).byteLength, 8160);
  for (const modulusLength of [0, 511, 513, 8200, 4294967295]) {
    await refused(() => subtle.generateKey(rsa({ modulusLength }), true, ["sign"]), "OperationError: modulusLength must be a multiple of 8 from 512 to 8192");
  }
  for (const publicExponent of [[], [1], [2], [0, 0, 4], new Array(64).fill(255)]) {
    await refused(() => subtle.generateKey(rsa({ publicExponent: new Uint8Array(publicExponent) }), true, ["sign"]), "OperationError: publicExponent must be odd, and 3 to 4294967295");
  }
  await refused(() => subtle.generateKey(rsa({ publicExponent: [1, 0, 1] }), true, ["sign"]), "TypeError: RSA-PSS parameter publicExponent is not a Uint8Array");
  await refused(() => subtle.generateKey({ name: "HMAC", hash: "SHA-1", length: 4294967295 }, true, ["sign"]), "OperationError: length must be 1 to 524288");
  await refused(() => key("raw", new Uint8Array(65537), { name: "HMAC", hash: "SHA-1" }, ["sign"]), "OperationError: a key of 65537 bytes is longer than 65536");
});

test("keys that are none", async () => {
  const ec = { name: "ECDSA", namedCurve: "P-256" };
  const { publicKey, privateKey } = await subtle.generateKey(ec, true, ["sign", "verify"]);
  const spki = new Uint8Array(await subtle.exportKey("spki", publicKey)), pkcs8 = new Uint8Array(await subtle.exportKey("pkcs8", privateKey));
  const raw = new Uint8Array(await subtle.exportKey("raw", publicKey)), jwk = await subtle.exportKey("jwk", privateKey);
  const spoiled = (bytes, at, value) => bytes.map((byte, i) => (i === (at < 0 ? bytes.length + at : at) ? value ?? byte ^ 1 : byte));
  await refused(() => key("spki", new Uint8Array(0), ec, ["verify"]), "DataError: not a SubjectPublicKeyInfo");
  await refused(() => key("spki", spki.slice(0, -1), ec, ["verify"]), "DataError: not a SubjectPublicKeyInfo");
  await refused(() => key("spki", new Uint8Array([...spki, 0]), ec, ["verify"]), "DataError: not a SubjectPublicKeyInfo");
  await refused(() => key("spki", spki, { ...ec, namedCurve: "P-384" }, ["verify"]), "DataError: the SubjectPublicKeyInfo is of another algorithm");
  await refused(() => key("spki", spki, "Ed25519", ["verify"]), "DataError: the SubjectPublicKeyInfo is of another algorithm");
  await refused(() => key("spki", spoiled(spki, -1), ec, ["verify"]), "DataError: not a point of the curve");
  await refused(() => key("spki", unhex("308000000000"), ec, ["verify"]), "DataError: not a SubjectPublicKeyInfo");
  await refused(() => key("spki", unhex("3084ffffffff"), ec, ["verify"]), "DataError: not a SubjectPublicKeyInfo");
  await refused(() => key("pkcs8", pkcs8.slice(1), ec, ["sign"]), "DataError: not a PrivateKeyInfo");
  await refused(() => key("pkcs8", spoiled(pkcs8, -1), ec, ["sign"]), "DataError: not a key of the curve");
  await refused(() => key("raw", spoiled(raw, 0, 6), ec, ["verify"]), "DataError: not a point of the curve");
  await refused(() => key("raw", new Uint8Array(1), ec, ["verify"]), "DataError: not a point of the curve");
  await refused(() => key("raw", new Uint8Array(200), ec, ["verify"]), "DataError: the key has the wrong length for its curve");
  await refused(() => key("raw", new Uint8Array(70000), ec, ["verify"]), "DataError: longer than any key");
  await refused(() => key("raw", raw, { ...ec, namedCurve: "P-1" }, ["verify"]), "DataError: Unrecognized namedCurve P-1");
  await refused(() => subtle.generateKey({ ...ec, namedCurve: "P-1" }, true, ["sign"]), "NotSupportedError: Unrecognized namedCurve P-1");
  await refused(() => key("jwk", { ...jwk, d: jwk.x }, ec, ["sign"]), "DataError: not a key of the curve");
  await refused(() => key("jwk", { ...jwk, d: "AA" }, ec, ["sign"]), "DataError: the private key has the wrong length");
  await refused(() => key("jwk", { ...jwk, d: "A".repeat(43) }, ec, ["sign"]), "DataError: not a key of the curve");
  await refused(() => key("jwk", { ...jwk, x: jwk.x + "=" }, ec, ["sign"]), "DataError: x of the key is not base64url");
  await refused(() => key("jwk", { ...jwk, y: undefined }, ec, ["sign"]), "DataError: y of the key is missing");
  await refused(() => key("jwk", { ...jwk, kty: "RSA" }, ec, ["sign"]), 'DataError: kty of the key is not "EC"');
  await refused(() => key("jwk", { ...jwk, crv: "P-384" }, ec, ["sign"]), 'DataError: crv of the key is not "P-256"');
  await refused(() => key("jwk", { ...jwk, alg: "ES384" }, ec, ["sign"]), "DataError: alg of the key is that of another algorithm");
  await refused(() => key("jwk", { ...jwk, use: "enc" }, ec, ["sign"]), 'DataError: use of the key is not "sig"');
  await refused(() => key("jwk", { ...jwk, key_ops: ["verify"] }, ec, ["sign"]), 'DataError: key_ops of the key does not hold "sign"');
  await refused(() => key("jwk", { ...jwk, key_ops: ["sign", "sign"] }, ec, ["sign"]), "DataError: key_ops of the key has a value twice");
  await refused(() => key("jwk", { ...jwk, ext: false }, ec, ["sign"]), "DataError: ext of the key is false");
  await refused(() => key("jwk", spki, ec, ["sign"]), "TypeError: keyData is not of the type that the format jwk has");
  await refused(() => key("raw", jwk, ec, ["verify"]), "TypeError: keyData is not of the type that the format raw has");
  for (const [format, data, usage] of [["spki", spki, "verify"], ["pkcs8", pkcs8, "sign"], ["raw", raw, "verify"], ["jwk", jwk, "sign"]]) {
    equal((await key(format, data, ec, [usage])).algorithm.namedCurve, "P-256", format);
  }
});

test("RSA keys whose numbers do not fit", async () => {
  const { privateKey } = await subtle.generateKey(rsa(), true, ["sign", "verify"]);
  const jwk = await subtle.exportKey("jwk", privateKey), algorithm = { name: "RSA-PSS", hash: "SHA-256" };
  for (const name of ["p", "q", "dp", "dq", "qi", "d"]) {
    const other = name === "p" ? jwk.q : jwk.p;
    await refused(() => key("jwk", { ...jwk, [name]: other }, algorithm, ["sign"]), "DataError: the numbers of the RSA key do not belong together");
    await refused(() => key("jwk", { ...jwk, [name]: "" }, algorithm, ["sign"]), "DataError: the numbers of the RSA key do not belong together");
  }
  await refused(() => key("jwk", { ...jwk, qi: undefined }, algorithm, ["sign"]), "DataError: the RSA key lacks one of its numbers");
  await refused(() => key("jwk", { kty: "RSA", n: "A".repeat(2000), e: "AQAB" }, algorithm, ["verify"]), "DataError: an RSA key of more than 8192 bits");
  await refused(() => key("jwk", { kty: "RSA", n: jwk.n, e: "Ag" }, algorithm, ["verify"]), "DataError: the modulus or the exponent of the RSA key is out of range");
  await refused(() => key("jwk", { kty: "RSA", n: "_w", e: "AQAB" }, algorithm, ["verify"]), "DataError: the modulus or the exponent of the RSA key is out of range");
  await refused(() => key("jwk", { ...jwk, oth: [] }, algorithm, ["sign"]), "NotSupportedError: an RSA key of more than two primes");
  const again = await key("jwk", jwk, algorithm, ["sign"]);
  await refused(() => subtle.sign({ name: "RSA-PSS", saltLength: 95 }, again, new Uint8Array(1)), "OperationError: the salt is too long for the key");
  await refused(() => subtle.sign({ name: "RSA-PSS", saltLength: 4294967295 }, again, new Uint8Array(1)), "OperationError: the salt is too long for the key");
  equal((await subtle.sign({ name: "RSA-PSS", saltLength: 94 }, again, new Uint8Array(1))).byteLength, 128);
});

test("signatures of any shape are only ever wrong", async () => {
  const ec = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-521" }, true, ["sign", "verify"]), ed = await subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  const pss = await subtle.generateKey(rsa(), true, ["sign", "verify"]);
  for (const size of [0, 1, 63, 64, 65, 127, 128, 131, 132, 133, 100000]) {
    for (const fill of [0, 255]) {
      const signature = new Uint8Array(size).fill(fill);
      equal(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, ec.publicKey, signature, new Uint8Array(1)), false);
      equal(await subtle.verify("Ed25519", ed.publicKey, signature, new Uint8Array(1)), false);
      equal(await subtle.verify({ name: "RSA-PSS", saltLength: 20 }, pss.publicKey, signature, new Uint8Array(1)), false);
      equal(await subtle.verify({ name: "RSA-PSS", saltLength: 4294967295 }, pss.publicKey, signature, new Uint8Array(1)), false);
    }
  }
});

test("points of small order prove nothing and agree on nothing", async () => {
  const low = new Uint8Array(32);
  low[0] = 1;
  const peer = await key("raw", low, "Ed25519", ["verify"]);
  equal(await subtle.verify("Ed25519", peer, new Uint8Array([...low, ...new Uint8Array(32)]), new Uint8Array(1)), false);
  const own = await subtle.generateKey("X25519", true, ["deriveBits"]);
  await refused(async () => subtle.deriveBits({ name: "X25519", public: await key("raw", new Uint8Array(32), "X25519", []) }, own.privateKey, 256), "OperationError: the keys cannot agree");
});

test("agreement wants two keys of one kind", async () => {
  const p256 = await subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]), p384 = await subtle.generateKey({ name: "ECDH", namedCurve: "P-384" }, true, ["deriveBits"]);
  const derive = (peer, own, bits = 8) => subtle.deriveBits({ name: "ECDH", public: peer }, own, bits);
  await refused(() => derive(p384.publicKey, p256.privateKey), "InvalidAccessError: the keys are of two curves");
  await refused(() => derive(p256.privateKey, p256.privateKey), "InvalidAccessError: public is not a public key");
  await refused(() => derive(p256.publicKey, p256.publicKey), "InvalidAccessError: the key is not for deriveBits");
  await refused(() => derive({}, p256.privateKey), "TypeError: ECDH parameter public is not a CryptoKey");
  await refused(() => derive(p256.publicKey, p256.privateKey, 264), "OperationError: length is more than the keys give");
  equal((await derive(p256.publicKey, p256.privateKey, 256)).byteLength, 32);
});

test("bytes are taken when the call is made", async () => {
  const k = await aes("AES-CBC"), iv = new Uint8Array(16), data = new Uint8Array(16);
  const expected = hex(await subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(16) }, k, new Uint8Array(16)));
  const later = subtle.encrypt({ name: "AES-CBC", iv }, k, data);
  iv.fill(1);
  data.fill(1);
  equal(hex(await later), expected);
  const moved = new Uint8Array(16), answer = subtle.encrypt({ name: "AES-CBC", get iv() { structuredClone(moved.buffer, { transfer: [moved.buffer] }); return new Uint8Array(16); } }, k, moved);
  equal(hex(await answer), expected);
  equal(moved.byteLength, 0);
  // Bytes that change meanwhile cannot be had: there is no shared memory.
  await refused(async () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
    "TypeError: Shared memories of WebAssembly are not supported: a memory must not be 'shared'.");
});

test("what unwraps to rubbish is refused", async () => {
  const k = await aes("AES-CBC", ["encrypt", "wrapKey", "unwrapKey"]), algorithm = { name: "AES-CBC", iv: new Uint8Array(16) };
  const unwrap = async (text) => subtle.unwrapKey("jwk", await subtle.encrypt(algorithm, k, bytes(text)), k, algorithm, "AES-CBC", true, ["encrypt"]);
  for (const text of ["", "{", "null", "[]", '{"k":"AAAAAAAAAAAAAAAAAAAAAA"}']) await refused(() => unwrap(text), "DataError: what was unwrapped is not a JSON Web Key");
  await refused(() => unwrap('{"kty":"oct","k":"AA"}'), "DataError: an AES key has 128, 192 or 256 bits");
  await refused(() => unwrap("7"), "TypeError: keyData is not an object");
  equal((await unwrap('{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAA"}')).algorithm.length, 128);
});

test("the prototypes of the language may be spoiled", async () => {
  const saved = [];
  const spoil = (on, name) => { saved[saved.length] = [on, name, Object.getOwnPropertyDescriptor(on, name)]; on[name] = () => { throw new Error("reached"); }; };
  spoil(Array.prototype, "push");
  spoil(Array.prototype, "includes");
  spoil(Array.prototype, Symbol.iterator);
  spoil(String.prototype, "slice");
  spoil(String.prototype, "toUpperCase");
  spoil(Uint8Array.prototype, "toBase64");
  let made;
  try {
    made = subtle.generateKey({ name: "hmac", hash: "sha-256" }, true, { [Symbol.iterator]: () => { let i = 0; return { next: () => (i++ ? { done: true } : { done: false, value: "sign" }) }; } });
  } finally {
    for (let i = 0; i < saved.length; i++) Object.defineProperty(saved[i][0], saved[i][1], saved[i][2]);
  }
  const k = await made;
  equal(k.algorithm.hash.name, "SHA-256");
  equal((await subtle.exportKey("jwk", k)).alg, "HS256");
});

test("DigestStream and timingSafeEqual", async () => {
  await refused(() => new crypto.DigestStream("CRC"), "NotSupportedError: Unrecognized algorithm name CRC");
  const stream = new crypto.DigestStream("MD5"), writer = stream.getWriter();
  writer.closed.catch(() => {});
  await refused(() => writer.write(5), "TypeError: DigestStream takes ArrayBuffers, views of them, and strings");
  await refused(() => stream.digest, "TypeError: DigestStream takes ArrayBuffers, views of them, and strings");
  const aborted = new crypto.DigestStream("MD5");
  await aborted.abort(new RangeError("no more"));
  await refused(() => aborted.digest, "RangeError: no more");
  await refused(() => subtle.timingSafeEqual(new Uint8Array(1), new Uint8Array(2)), "TypeError: Input buffers must have the same byte length");
  await refused(() => subtle.timingSafeEqual("a", "a"), "TypeError: a is neither an ArrayBuffer nor a view of one");
});
