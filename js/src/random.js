/**
 * Math.random() of each worker. The engine seeds its own when it makes the realm, which is before the fork: every worker would draw the
 * same numbers. This is the generator sfc32, seeded by the kernel in the child. Not for secrets, as Math.random() is not.
 */
import { MathRandom, ObjectDefineProperty, Uint32Array, Uint8Array } from './primordials.js';
import { natives } from './natives.js';

let a = 0, b = 0, c = 0, counter = 0, seeded = false;

/** @returns {number} 32 bits */
function next() {
  const sum = (((a + b) | 0) + counter) | 0;
  counter = (counter + 1) | 0;
  a = b ^ (b >>> 9);
  b = (c + (c << 3)) | 0;
  c = (((c << 21) | (c >>> 11)) + sum) | 0;
  return sum >>> 0;
}

const { random } = {
  random() {
    if (!seeded) return MathRandom();
    return ((next() >>> 5) * 0x4000000 + (next() >>> 6)) / 0x20000000000000;
  },
};

/** In the zygote. */
export function installRandom() {
  ObjectDefineProperty(Math, 'random', /** @type {any} */ ({ __proto__: null, value: random, writable: true, enumerable: false, configurable: true }));
}

/** In the child, before any code of the guest (the rehearsal's seed is none). */
export function seedRandom() {
  const words = new Uint32Array(4);
  natives.random(new Uint8Array(words.buffer));
  a = words[0] | 0;
  b = words[1] | 0;
  c = words[2] | 0;
  counter = words[3] | 0;
  for (let i = 0; i < 12; i++) next();
  seeded = true;
}
