/**
 * The module compiler: see README.md. A pure function; it runs in a worker process of its own. UNTRUSTED INPUT: the source text.
 */
import { transform } from "sucrase";
import { compileCommonJs } from "./cjs.js";
import { CompileError, SourceError, locate } from "./error.js";
import { compileModule } from "./esm.js";
import { FORMAT, MAX_SOURCE } from "./format.js";

export { CompileError, FORMAT };

/**
 * @param {{name: string, type: "js" | "cjs" | "ts"}} module
 * @param {string} source
 * @returns {string} the text of a script whose value is the module's record
 */
export function compile({ name, type }, source) {
  if (source.length > MAX_SOURCE)
    throw new CompileError(name, 1, 1, `the module is larger than ${MAX_SOURCE / 1024 / 1024} MiB`);
  try {
    switch (type) {
      case "js": return compileModule(source);
      case "ts": return compileModule(stripTypes(name, source));
      case "cjs": return compileCommonJs(source);
    }
  } catch (error) {
    if (error instanceof SourceError) {
      const { line, column } = locate(source, error.position);
      throw new CompileError(name, line, column, error.message);
    }
    // The engine's stack is the bound on nesting.
    if (error instanceof RangeError || /^Not enough stack|^Maximum call stack/.test(/** @type {any} */ (error)?.message)) throw new CompileError(name, 1, 1, "the source is nested too deeply");
    throw error;
  }
  throw new TypeError(`${name}: a module of type "${type}" is not compiled`);
}

/** `namespace`s with values are dropped by sucrase without a word: found by the line that is gone. */
const NAMESPACE = /^[ \t]*(?:export[ \t]+)?(?:namespace|module)[ \t]+[\w$.]+[ \t]*\{/;

/** @param {string} name @param {string} source @param {string} code */
function refuseNamespaces(name, source, code) {
  if (!/\b(?:namespace|module)\b/.test(source)) return;
  const after = code.split("\n");
  source.split("\n").forEach((line, i) => {
    if (NAMESPACE.test(line) && !NAMESPACE.test(after[i] ?? ""))
      throw new CompileError(name, i + 1, 1, "TypeScript namespaces are not supported: use a module");
  });
}

/** TypeScript without its types; every line stays where it was. @param {string} name @param {string} source @returns {string} */
function stripTypes(name, source) {
  try {
    const { code } = transform(source, { transforms: ["typescript"], disableESTransforms: true, preserveDynamicImport: true });
    refuseNamespaces(name, source, code);
    return code;
  } catch (error) {
    if (error instanceof CompileError) throw error;
    const place = /\((\d+):(\d+)\)$/.exec(/** @type {any} */ (error)?.message ?? "");
    if (error instanceof RangeError || place === null) throw error;
    const message = /** @type {Error} */ (error).message.replace(/^Error transforming [^:]*: /, "").replace(/ ?\(\d+:\d+\)$/, "");
    throw new CompileError(name, Number(place[1]), Number(place[2]), message);
  }
}
