/** Random graphs of modules with cycles, top-level awaits and errors. The same seed gives the same graph. */

/** @param {number} seed */
function dice(seed) {
  let state = seed * 2654435761 >>> 0 || 1;
  return (/** @type {number} */ sides) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % sides;
  };
}

/** @param {number} seed @returns {Record<string, string>} the main module is m0.js */
export function generate(seed) {
  const roll = dice(seed);
  const count = 2 + roll(7);
  /** @type {Record<string, string>} */
  const files = {};
  for (let i = 0; i < count; i++) {
    let text = "";
    for (let n = roll(4); n > 0; n--) {
      const to = roll(4) === 0 ? roll(count) : Math.min(count - 1, i + 1 + roll(3));
      text += `import "./m${to}.js"; `;
    }
    text += `log("${i}a"); `;
    for (let n = roll(3); n > 0; n--) text += `await ${["0", "null", "Promise.resolve()", "{ then(ok) { ok() } }"][roll(4)]}; log("${i}${"bcd"[n]}"); `;
    if (roll(12) === 0) text += `throw new Error("e${i}"); `;
    files[`m${i}.js`] = text;
  }
  return files;
}
