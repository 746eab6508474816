// Signed and encrypted tokens with every family of keys that WebCrypto has.
import { CompactEncrypt, EncryptJWT, SignJWT, compactDecrypt, exportJWK, generateKeyPair, generateSecret, importJWK, jwtDecrypt, jwtVerify } from 'jose';

async function signed(alg) {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const token = await new SignJWT({ role: 'guest' }).setProtectedHeader({ alg }).setIssuer('cloister').setExpirationTime('1h').sign(privateKey);
  const again = await importJWK(await exportJWK(publicKey), alg);
  const { payload } = await jwtVerify(token, again, { issuer: 'cloister' });
  let refused = null;
  try {
    await jwtVerify(token.slice(0, -6) + (token.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA'), again);
  } catch (e) {
    refused = e.code;
  }
  return [payload.role, refused];
}

async function secret(alg) {
  const key = await generateSecret(alg);
  const token = await new SignJWT({ n: 1 }).setProtectedHeader({ alg }).sign(key);
  return (await jwtVerify(token, key)).payload.n;
}

async function encrypted(alg, enc) {
  if (alg === 'dir') {
    const key = await generateSecret(enc);
    const token = await new EncryptJWT({ n: 2 }).setProtectedHeader({ alg, enc }).encrypt(key);
    return (await jwtDecrypt(token, key)).payload.n;
  }
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const token = await new CompactEncrypt(new TextEncoder().encode('hidden')).setProtectedHeader({ alg, enc }).encrypt(publicKey);
  return new TextDecoder().decode((await compactDecrypt(token, privateKey)).plaintext);
}

export default {
  async fetch() {
    const out = {};
    for (const alg of ['RS256', 'PS384', 'ES256', 'ES384', 'ES512', 'Ed25519']) out[alg] = await signed(alg);
    for (const alg of ['HS256', 'HS512']) out[alg] = await secret(alg);
    for (const [alg, enc] of [['dir', 'A256GCM'], ['dir', 'A128CBC-HS256'], ['RSA-OAEP-256', 'A256GCM'], ['ECDH-ES', 'A128GCM'], ['ECDH-ES+A256KW', 'A256CBC-HS512']])
      out[`${alg} ${enc}`] = await encrypted(alg, enc);
    return Response.json(out);
  },
};
