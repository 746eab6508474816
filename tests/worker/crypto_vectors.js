// WebCrypto against the values that standards publish.
const { subtle } = crypto;
const key = (format, data, algorithm, usages, extractable = true) => subtle.importKey(format, data, algorithm, extractable, usages);

test("digests (FIPS 180-4, RFC 1321)", async () => {
  const expected = {
    "MD5": "900150983cd24fb0d6963f7d28e17f72",
    "SHA-1": "a9993e364706816aba3e25717850c26c9cd0d89d",
    "sha-256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "SHA-384": "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
    "SHA-512": "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
  };
  for (const name in expected) equal(hex(await subtle.digest(name, bytes("abc"))), expected[name], name);
  equal(hex(await subtle.digest({ name: "SHA-256" }, new Uint8Array(0))), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
});

test("DigestStream", async () => {
  const stream = new crypto.DigestStream("SHA-256");
  const writer = stream.getWriter();
  await writer.write("a");
  await writer.write(bytes("b").buffer);
  await writer.write(new DataView(bytes("xcx").buffer, 1, 1));
  await writer.close();
  equal(hex(await stream.digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  equal(String(stream.bytesWritten), "3");
});

test("HMAC (RFC 4231, case 2)", async () => {
  const expected = {
    "SHA-256": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "SHA-512": "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
  };
  for (const hash in expected) {
    const k = await key("raw", bytes("Jefe"), { name: "HMAC", hash }, ["sign", "verify"]);
    const text = bytes("what do ya want for nothing?");
    equal(hex(await subtle.sign("HMAC", k, text)), expected[hash], hash);
    equal(await subtle.verify("HMAC", k, unhex(expected[hash]), text), true);
    equal(await subtle.verify("HMAC", k, unhex(expected[hash]).slice(1), text), false);
  }
});

const AES = unhex("2b7e151628aed2a6abf7158809cf4f3c"), BLOCK = unhex("6bc1bee22e409f96e93d7e117393172a");
test("AES-CBC and AES-CTR (SP 800-38A, F.2.1 and F.5.1)", async () => {
  const cbc = await key("raw", AES, "AES-CBC", ["encrypt", "decrypt"]);
  const iv = unhex("000102030405060708090a0b0c0d0e0f");
  const sealed = await subtle.encrypt({ name: "AES-CBC", iv }, cbc, BLOCK);
  equal(hex(sealed).slice(0, 32), "7649abac8119b246cee98e9b12e9197d");
  equal(hex(await subtle.decrypt({ name: "AES-CBC", iv }, cbc, sealed)), hex(BLOCK));
  const ctr = await key("raw", AES, "AES-CTR", ["encrypt", "decrypt"]);
  const counter = unhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  for (const length of [64, 128]) equal(hex(await subtle.encrypt({ name: "AES-CTR", counter, length }, ctr, BLOCK)), "874d6191b620e3261bef6864990db6ce");
});

test("AES-CTR wraps within its counter", async () => {
  const k = await key("raw", AES, "AES-CTR", ["encrypt"]);
  const stream = async (counter, length, blocks) => hex(await subtle.encrypt({ name: "AES-CTR", counter: unhex(counter), length }, k, new Uint8Array(16 * blocks)));
  const last = await stream("0102030405060708090a0b0c0d0e0fff", 8, 1), first = await stream("0102030405060708090a0b0c0d0e0f00", 8, 1);
  equal(await stream("0102030405060708090a0b0c0d0e0fff", 8, 2), last + first);
  equal(await stream("010203040506070f090a0b0c0d0e0fff", 4, 2), await stream("010203040506070f090a0b0c0d0e0fff", 4, 1) + await stream("010203040506070f090a0b0c0d0e0ff0", 4, 1));
  equal(await stream("ffffffffffffffffffffffffffffffff", 128, 2), await stream("ffffffffffffffffffffffffffffffff", 128, 1) + await stream("00000000000000000000000000000000", 128, 1));
  equal(await stream("00ffffffffffffffffffffffffffffff", 120, 2), await stream("00ffffffffffffffffffffffffffffff", 120, 1) + await stream("00000000000000000000000000000000", 120, 1));
});

test("AES-GCM (test case 4 of its authors)", async () => {
  const k = await key("raw", unhex("feffe9928665731c6d6a8f9467308308"), "AES-GCM", ["encrypt", "decrypt"]);
  const algorithm = { name: "AES-GCM", iv: unhex("cafebabefacedbaddecaf888"), additionalData: unhex("feedfacedeadbeeffeedfacedeadbeefabaddad2") };
  const text = unhex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
  const sealed = await subtle.encrypt(algorithm, k, text);
  equal(hex(sealed), "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47");
  equal(hex(await subtle.decrypt(algorithm, k, sealed)), hex(text));
  const short = await subtle.encrypt({ ...algorithm, tagLength: 96 }, k, text);
  equal(hex(short), hex(sealed).slice(0, -8));
});

test("AES-KW (RFC 3394, 4.1)", async () => {
  const wrapping = await key("raw", unhex("000102030405060708090a0b0c0d0e0f"), "AES-KW", ["wrapKey", "unwrapKey"]);
  const wrapped = await key("raw", unhex("00112233445566778899aabbccddeeff"), "AES-CBC", ["encrypt"]);
  const sealed = await subtle.wrapKey("raw", wrapped, wrapping, "AES-KW");
  equal(hex(sealed), "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5");
  const again = await subtle.unwrapKey("raw", sealed, wrapping, "AES-KW", "AES-CBC", true, ["encrypt"]);
  equal(hex(await subtle.exportKey("raw", again)), "00112233445566778899aabbccddeeff");
});

test("HKDF (RFC 5869, A.1)", async () => {
  const k = await key("raw", unhex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"), "HKDF", ["deriveBits", "deriveKey"], false);
  const algorithm = { name: "HKDF", hash: "SHA-256", salt: unhex("000102030405060708090a0b0c"), info: unhex("f0f1f2f3f4f5f6f7f8f9") };
  const okm = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
  equal(hex(await subtle.deriveBits(algorithm, k, 336)), okm);
  const derived = await subtle.deriveKey(algorithm, k, { name: "AES-GCM", length: 256 }, true, ["encrypt"]);
  equal(hex(await subtle.exportKey("raw", derived)), okm.slice(0, 64));
});

test("PBKDF2 (RFC 6070)", async () => {
  const k = await key("raw", bytes("password"), "PBKDF2", ["deriveBits"], false);
  const expected = { 1: "0c60c80f961f0e71f3a9b524af6012062fe037a6", 4096: "4b007901b765489abead49d926f721d065a429c1" };
  for (const iterations of [1, 4096]) {
    equal(hex(await subtle.deriveBits({ name: "PBKDF2", hash: "SHA-1", salt: bytes("salt"), iterations }, k, 160)), expected[iterations]);
  }
});

test("Ed25519 (RFC 8032, test 2)", async () => {
  const secret = unhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  const open = unhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
  const own = await key("pkcs8", unhex("302e020100300506032b657004220420" + hex(secret)), "Ed25519", ["sign"]);
  equal(hex(await subtle.sign("Ed25519", own, unhex("72"))), signature);
  const peer = await key("raw", open, "Ed25519", ["verify"]);
  equal(await subtle.verify("Ed25519", peer, unhex(signature), unhex("72")), true);
  equal(await subtle.verify("Ed25519", peer, unhex(signature), unhex("73")), false);
  const jwk = await subtle.exportKey("jwk", own);
  equal(hex(Uint8Array.fromBase64(jwk.x, { alphabet: "base64url" })), hex(open), "x");
  equal(jwk.crv, "Ed25519");
});

test("X25519 (RFC 7748, 5.2)", async () => {
  const own = await key("pkcs8", unhex("302e020100300506032b656e04220420a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"), "X25519", ["deriveBits"]);
  const peer = await key("raw", unhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"), "X25519", []);
  equal(hex(await subtle.deriveBits({ name: "X25519", public: peer }, own, null)), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
});

test("ECDSA (RFC 6979, A.2.5)", async () => {
  const x = "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6", y = "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299";
  const d = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721";
  const algorithm = { name: "ECDSA", namedCurve: "P-256" }, url = (text) => unhex(text).toBase64({ alphabet: "base64url", omitPadding: true });
  const peer = await key("raw", unhex("04" + x + y), algorithm, ["verify"]);
  const signature = unhex("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8");
  equal(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, peer, signature, bytes("sample")), true);
  equal(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, peer, signature, bytes("test")), false);
  const own = await key("jwk", { kty: "EC", crv: "P-256", x: url(x), y: url(y), d: url(d) }, algorithm, ["sign"]);
  const made = await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, own, bytes("sample"));
  equal(made.byteLength, 64);
  equal(await subtle.verify({ name: "ECDSA", hash: "SHA-256" }, peer, made, bytes("sample")), true);
  const compressed = await key("raw", unhex("03" + x), algorithm, ["verify"]);
  equal(hex(await subtle.exportKey("raw", compressed)), "04" + x + y);
});

test("RS256 (RFC 7515, A.2)", async () => {
  const jwk = { kty: "RSA", e: "AQAB", n: "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ" };
  const signature = Uint8Array.fromBase64("cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw", { alphabet: "base64url" });
  const peer = await key("jwk", jwk, { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, ["verify"]);
  const text = bytes("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ");
  equal(await subtle.verify("RSASSA-PKCS1-v1_5", peer, signature, text), true);
  equal(peer.algorithm.modulusLength, 2048);
});

test("RSA: keys made here sign, encrypt, and survive every format", async () => {
  const make = (name, usages) => subtle.generateKey({ name, modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256" }, true, usages);
  const pss = await make("RSA-PSS", ["sign", "verify"]);
  for (const saltLength of [0, 20, 94]) {
    const made = await subtle.sign({ name: "RSA-PSS", saltLength }, pss.privateKey, bytes("x"));
    equal(await subtle.verify({ name: "RSA-PSS", saltLength }, pss.publicKey, made, bytes("x")), true);
    equal(await subtle.verify({ name: "RSA-PSS", saltLength: saltLength ^ 1 }, pss.publicKey, made, bytes("x")), false);
  }
  const oaep = await make("RSA-OAEP", ["encrypt", "decrypt"]), label = bytes("l");
  const sealed = await subtle.encrypt({ name: "RSA-OAEP", label }, oaep.publicKey, bytes("secret"));
  for (const format of ["pkcs8", "jwk"]) {
    const again = await key(format, await subtle.exportKey(format, oaep.privateKey), { name: "RSA-OAEP", hash: "SHA-256" }, ["decrypt"]);
    equal(hex(await subtle.decrypt({ name: "RSA-OAEP", label }, again, sealed)), hex(bytes("secret")), format);
  }
});

test("ECDH agrees on every curve, and cuts to bits", async () => {
  for (const [namedCurve, size] of [["P-256", 32], ["P-384", 48], ["P-521", 66]]) {
    const a = await subtle.generateKey({ name: "ECDH", namedCurve }, true, ["deriveBits"]), b = await subtle.generateKey({ name: "ECDH", namedCurve }, true, ["deriveBits"]);
    const one = await subtle.deriveBits({ name: "ECDH", public: b.publicKey }, a.privateKey, null);
    equal(hex(one), hex(await subtle.deriveBits({ name: "ECDH", public: a.publicKey }, b.privateKey, null)), namedCurve);
    equal(one.byteLength, size);
    const cut = new Uint8Array(await subtle.deriveBits({ name: "ECDH", public: b.publicKey }, a.privateKey, 12));
    equal(cut[1], new Uint8Array(one)[1] & 0xf0);
  }
});

test("random values", () => {
  const seen = new Set();
  for (let i = 0; i < 1000; i++) seen.add(crypto.randomUUID());
  equal(seen.size, 1000);
  for (const one of seen) if (!/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(one)) throw new Error(one);
  const array = new BigUint64Array(1024);
  equal(crypto.getRandomValues(array) === array, true);
  equal(new Set(array).size, 1024);
});

test("timingSafeEqual", () => {
  equal(subtle.timingSafeEqual(bytes("abc"), bytes("abc").buffer), true);
  equal(subtle.timingSafeEqual(bytes("abc"), bytes("abd")), false);
  equal(subtle.timingSafeEqual(new Uint8Array(0), new Uint8Array(0)), true);
});
