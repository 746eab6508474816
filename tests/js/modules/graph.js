/** Graphs of modules for tests: compiled by the compiler and linked by the linker of this tree, evaluated by the engine that runs this. */
import { compile } from "../../../js/compiler/compile.js";
import { createModuleGraph } from "../../../js/src/modules.js";

const natives = {
  __proto__: null,
  /** @param {string} source @param {string} name */
  evaluate: (source, name) => (0, eval)(`${source}\n//# sourceURL=${name}`),
  utf8Decode(/** @type {Uint8Array} */ bytes) {
    let text = "";
    for (const byte of bytes) {
      if (byte > 127) throw new TypeError("not ASCII");
      text += String.fromCharCode(byte);
    }
    return text;
  },
};

/** @typedef {Record<string, string | {type: string, data: any}>} Files the type of a text goes by its name */

/** @param {string} name */
const typeOf = (name) => (name.endsWith(".cjs") ? "cjs" : name.endsWith(".ts") ? "ts" : name.endsWith(".json") ? "json" : name.endsWith(".txt") ? "text" : "js");

const none = { getContext: () => undefined, setContext: () => {} };

/** @param {Files} files @param {{context?: any, builtins?: Record<string, any>}} [options] */
export function graphOf(files, { context = none, builtins = {} } = {}) {
  const records = Object.entries(files).map(([name, file]) => {
    const type = typeof file === "string" ? typeOf(name) : file.type;
    const data = typeof file === "string" ? file : file.data;
    if (type !== "js" && type !== "ts" && type !== "cjs") return { name, type, data };
    return { name, type: type === "ts" ? "js" : type, data: compile({ name, type }, data) };
  });
  return createModuleGraph(/** @type {any} */ (records), natives, (name) => builtins[name], context);
}

/**
 * Runs a graph. The modules call log(). @param {Files} files @param {string} main @param {any} [options]
 * @returns {Promise<{log: any[], ns: any, error: any}>}
 */
export async function runGraph(files, main = "main.js", options = {}) {
  /** @type {any[]} */
  const log = [];
  const outer = /** @type {any} */ (globalThis).log;
  /** @type {any} */ (globalThis).log = (/** @type {any[]} */ ...values) => void log.push(...values);
  try {
    const graph = graphOf(files, options);
    const ns = await graph.main(main);
    await settled();
    return { log, ns, error: undefined };
  } catch (error) {
    await settled();
    return { log, ns: undefined, error };
  } finally {
    /** @type {any} */ (globalThis).log = outer;
  }
}

/** Lets what was started come to its end: more turns than any test takes. */
export async function settled() {
  for (let i = 0; i < 60; i++) await undefined;
}
