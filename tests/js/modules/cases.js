/** The tests that need no reference, and those of orders.js against this tree's compiler and linker. Any engine. */
import { CompileError, compile } from "../../../js/compiler/compile.js";
import { same, test, throws } from "../tap.js";
import { graphOf, runGraph, settled } from "./graph.js";
import { orders } from "./orders.js";

/** @param {any} value */
const plain = (value) => (typeof value === "function" ? "function" : Array.isArray(value) ? value.join() : value);

for (const { name, files, log, error, main = "main.js" } of orders)
  test(name, async () => {
    const got = await runGraph(files, main);
    if (error === undefined && got.error) throw got.error;
    same(got.error?.name, error, "error");
    same(got.log.map(plain), log.map(plain), "log");
  });

/** @param {string} source @param {string} message @param {any} [type] @param {string} [name] */
function refuses(source, message, type = "js", name = "dir/m.js") {
  let error;
  try {
    compile({ name, type }, source);
  } catch (e) {
    error = /** @type {any} */ (e);
  }
  if (!(error instanceof CompileError)) throw new Error(`wanted a CompileError, got ${error}`);
  same(error.message, message);
}

test("syntax errors name module, line and column", () => {
  refuses("let x = 1;\nlet y = ;\n", "dir/m.js:2:9: Unexpected token");
  refuses("let x; let x", "dir/m.js:1:12: Identifier 'x' has already been declared");
  refuses("import { a } from './a'; let a", "dir/m.js:1:30: Identifier 'a' has already been declared");
  refuses("export { nope }", "dir/m.js:1:10: Export 'nope' is not defined");
  refuses("export const a = 1; export { a }", "dir/m.js:1:30: Duplicate export 'a'");
  refuses("with (a) {}", "dir/m.js:1:1: 'with' in strict mode");
  refuses("return 1", "dir/m.js:1:1: 'return' outside of function");
  refuses("new.target", "dir/m.js:1:1: 'new.target' can only be used in functions and class static block");
  refuses("function f() { await 1 }", "dir/m.js:1:16: Cannot use keyword 'await' outside an async function");
  refuses("let x: number = 1", "dir/m.js:1:6: Unexpected token");
  refuses("let x: = 1", "a.ts:1:8: Unexpected token", "ts", "a.ts");
  refuses("let a\n\nnamespace N { export const x = 1 }", "a.ts:3:1: TypeScript namespaces are not supported: use a module", "ts", "a.ts");
});

test("what is not supported says so", () => {
  refuses("using x = a()", 'dir/m.js:1:1: "using" at the top level of a module is not supported: put it into a block or a function');
  refuses('import x from "x" with { lang: "en" }', 'dir/m.js:1:26: the import attribute "lang" is not supported (only "type" is)');
  refuses('import x from "x" with { type: "css" }', 'dir/m.js:1:26: the import type "css" is not supported (json, text, bytes and wasm are)');
  refuses("a: { for await (const x of y) { break a } }", 'dir/m.js:1:33: a top-level "for await" cannot be left for the label "a" outside of it');
  refuses("switch (1) { case 1: using x = y }", "dir/m.js:1:22: Using declaration cannot appear in the top level when source type is `script` or in the bare case statement");
});

test("hostile sources end in a clear error", () => {
  const nested = /^dir\/m\.js:\d+:\d+: the source is nested too deeply$/;
  for (const source of ["(".repeat(1e6), "[".repeat(1e6), "{".repeat(1e6), "!".repeat(1e6), "a=>".repeat(3e5), "`${".repeat(3e5), "if(a)".repeat(3e5), "a?".repeat(3e5), "x\n(".repeat(3e5), `${"(".repeat(1e5)}1${")".repeat(1e5)}`, "a".concat(".b()".repeat(3e5))])
    try {
      compile({ name: "dir/m.js", type: "js" }, source);
    } catch (e) {
      if (!(e instanceof CompileError)) throw new Error(`${source.slice(0, 8)}: ${e}`);
      if (!nested.test(e.message) && !/Unexpected token/.test(e.message)) throw new Error(`${source.slice(0, 8)}: ${e.message}`);
    }
  refuses(" ".repeat(10 * 1024 * 1024 + 1), "dir/m.js:1:1: the module is larger than 10 MiB");
  same(typeof compile({ name: "dir/m.js", type: "js" }, " ".repeat(10 * 1024 * 1024)), "string");
});

test("a source cannot leave its function", async () => {
  for (const source of ["}})); globalThis.escaped = 1; ((", "}}), globalThis.escaped = 1, ({x() {", "*/ } //", "`", "\u2028}"]) {
    const got = await runGraph({ "main.js": source }).catch((error) => ({ error }));
    if (!(got.error instanceof CompileError)) throw new Error(`accepted: ${source}`);
  }
  same(/** @type {any} */ (globalThis).escaped, undefined);
});

test("names of the compiler's own are out of the source's way", async () => {
  const got = await runGraph({ "main.js": `import { f as $c0 } from "./f.js"; let $cd = 1, $c1_0 = 2; export default () => {}; log($c0(), $cd, $c1_0); function $ci() {} for (const $ch of [3]) log($ch); await 1`, "f.js": `export const f = () => 0` });
  same(got.log, [0, 1, 2, 3]);
});

test("lines stay where they were", () => {
  const source = `import {\n  a,\n  b\n} from\n"x"\n\nexport default\n  function () {}\nexport {\n  a }\nexport\nconst q = import.\nmeta\nmarker()\n`;
  const line = (/** @type {string} */ text) => text.slice(0, text.indexOf("marker")).split("\n").length;
  same(line(compile({ name: "m", type: "js" }, source)), line(source));
  const ts = `interface A {\n  b: string\n}\ntype C =\n  | 1\n  | 2\nenum E {\n X }\nfunction f<T>(\n  a: T,\n): asserts a {}\nmarker()`;
  same(line(compile({ name: "m", type: "ts" }, ts)), line(ts));
});

test("a first line #! is a comment", async () => {
  same((await runGraph({ "main.js": "#!/usr/bin/env node }})\nlog(1)" })).log, [1]);
});

test("TypeScript", async () => {
  const got = await runGraph({
    "main.ts": `import type { T } from "./none.ts"; import { type U, v, Unused } from "./v.ts"; export type { T }
      enum Colour { Red, Green = "g" } class P<X> { constructor(private readonly x: X, public y?: number) {} declare z: number; get(): X { return this.x! } }
      abstract class Q { abstract m(): void } const s = { a: 1 } satisfies object as any; function f(this: void, a: number, ...b: string[]): a is 1 { return <any>a } declare function g(): void;
      log(Colour.Red, Colour.Green, new P<number>(5).get(), s.a, f(2), v as unknown, typeof Q); let w!: number; export default <T,>(x: T): T => x`,
    "v.ts": `export const v: number = 3; export type U = 1; export class Unused {}`,
  }, "main.ts");
  if (got.error) throw got.error;
  same(got.log, [0, "g", 5, 1, 2, 3, "function"]);
});

test("using and await using", async () => {
  const got = await runGraph({
    "main.js": `const d = Symbol.dispose ?? Symbol.for("Symbol.dispose"), ad = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose"); const r = (n) => ({ n, [d]() { log("-" + n) } }), ar = (n) => ({ n, async [ad]() { await 0; log("-" + n) } })
      { using a = r("a"), b = r("b"); log(a.n, b.n) } function f() { "use strict"; using x = r("x"); return h(); function h() { return x.n } } log(f())
      for (using y of [r("y1"), r("y2")]) { if (y.n === "y2") break; log(y.n) } for (using z = r("z"); ;) { log(z.n); break }
      try { using e = { [d]() { throw new Error("dispose") } }; throw new Error("body") } catch (e) { log(e.name, e.error.message, e.suppressed.message) }
      try { using bad = {} } catch (e) { log(e.name) } { using nothing = null; log(nothing) }
      async function g() { await using p = ar("p"); using q = r("q"); log("g"); return 1 } log(await g()); { await using t = ar("t"); log(t.n) } for (await using u of [ar("u")]) log(u.n)
      const arrow = async () => { await using s = r("s"); }; await arrow(); class S { static { using k = r("k"); log("static") } } async function* ag() { await using m = ar("m"); yield 1 } for await (const v of ag()) log(v)
      l: for (using w of [r("w")]) { for (;;) continue l }`,
  });
  if (got.error) throw got.error;
  same(got.log, ["a", "b", "-b", "-a", "-x", "x", "y1", "-y1", "-y2", "z", "-z", "SuppressedError", "dispose", "body", "TypeError", null, "g", "-q", "-p", 1, "t", "-t", "u", "-u", "-s", "static", "-k", 1, "-m", "-w"]);
});

test("import.meta", async () => {
  const got = await runGraph({ "main.js": `import { url, main } from "./dir/a.js"; log(import.meta.url, import.meta.main, import.meta === import.meta, url, main, import.meta.resolve("./dir/a.js"), Object.getPrototypeOf(import.meta)); import.meta.x = 1; log(import.meta.x)`, "dir/a.js": `export const { url, main } = import.meta` });
  if (got.error) throw got.error;
  same(got.log, ["file:///bundle/main.js", true, true, "file:///bundle/dir/a.js", false, "file:///bundle/dir/a.js", null, 1]);
});

test("JSON, text, data and Wasm modules", async () => {
  const wasm = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
  const got = await runGraph({
    "main.js": `import j from "./j.json" with { type: "json" }; import j2 from "./j.json"; import t from "./t.txt"; import b from "bytes.bin"; import w from "./m.wasm"; import * as ns from "./j.json"
      log(j.a, j === j2, t, new Uint8Array(b).join(), b instanceof ArrayBuffer, w instanceof WebAssembly.Module, Object.keys(ns).join(), (await import("./j.json", { with: { type: "json" } })).default === j)
      for (const [s, type] of [["./t.txt", "json"], ["./main.js", "json"], ["./j.json", "text"]]) await import(s, { with: { type } }).catch((e) => log(e.message)); await import("./bad.json").catch((e) => log(e.name, e.message.startsWith("bad.json: ")))
      await import("./j.json", { with: { other: "x" } }).catch((e) => log(e.message)); await import("./j.json", 1).catch((e) => log(e.name)); await import("./bad.wasm").catch((e) => log(e.name))`,
    "j.json": '{"a": 1}', "t.txt": "hello", "bytes.bin": { type: "data", data: new Uint8Array([1, 2]) }, "m.wasm": { type: "wasm", data: wasm }, "bad.json": "{", "bad.wasm": { type: "wasm", data: new Uint8Array(3) },
  });
  if (got.error) throw got.error;
  same(got.log, [1, true, "hello", "1,2", true, true, "default", true, 'The module "./t.txt" is not of type "json".', 'The module "./main.js" is not of type "json".', 'The module "./j.json" is not of type "text".',
    "SyntaxError", true, 'The import attribute "other" is not supported (only "type" is)', "TypeError", "CompileError"]);
});

test("only what was handed in can be imported", async () => {
  const specifiers = ["nope", "./nope.js", "../main.js", "../../etc/passwd", "./a/../../x", "data:text/javascript,log(1)", "file:///etc/passwd", "blob:x", "http://example.com/x.js", "https://example.com/x.js", "node:fs", "fs", "cloudflare:nothing", "workerd:unsafe",
    "", ".", "..", "/", "/etc/passwd", "//main.js/..", "main", "./main", "toString", "__proto__", "constructor", "node:inspector/promises", "\0"];
  const files = { "main.js": `for (const s of ${JSON.stringify(specifiers)}) await import(s).then(() => log("got " + s), (e) => log(e.name + ": " + e.message))`, "a/b.js": "" };
  const got = await runGraph(files, "main.js", { builtins: { __proto__: null, "node:x": { a: 1 } } });
  if (got.error) throw got.error;
  same(got.log, specifiers.map((s) => `Error: No such module "${s}". imported from "main.js"`));
  const stat = await runGraph({ "main.js": `import "./dir/a.js"`, "dir/a.js": `import "../gone.js"` });
  same(stat.error.message, 'No such module "../gone.js". imported from "dir/a.js"');
  same((await runGraph({ "main.js": "" }, "other.js")).error.message, 'No such module "other.js".');
});

test("specifiers", async () => {
  const got = await runGraph({
    "main.js": `import a from "./lib/a.js"; import b from "lib/a.js"; import c from "/lib/a.js"; import d from "bare"; import e from "./x/../lib/./a.js"; import f from "./lib//a.js"; log(a === b && b === c && c === e && e === f, d)`,
    "lib/a.js": `import up from "../up.js"; import side from "./side.js"; import near from "side.js"; log(up, side === near); export default {}`,
    "lib/side.js": `export default {}`, "up.js": `export default "up"`, "bare": { type: "js", data: `export default "bare"` },
  });
  if (got.error) throw got.error;
  same(got.log, ["up", true, true, "bare"]);
});

test("modules cannot take the place of the runtime's own", async () => {
  const got = await runGraph({ "main.js": `import x from "node:x"; import * as ns from "cloudflare:y"; log(x, Object.keys(ns).join(), ns.z)`, "node:x": { type: "js", data: "export default 'fake'" } }, "main.js", { builtins: { "node:x": { default: "real" }, "cloudflare:y": { z: 1, y: 2 } } });
  if (got.error) throw got.error;
  same(got.log, ["real", "y,z", 1]);
  throws(() => graphOf({ a: { type: "nonsense", data: "" } }) && createTwo(), "TypeError", 'There are two modules of the name "a".');
});

function createTwo() {
  const graph = /** @type {any} */ (graphOf({}));
  return new graph.constructor([{ name: "a", type: "text", data: "" }, { name: "a", type: "text", data: "" }], null, () => undefined, null);
}

test("exports of the runtime's modules are read live", async () => {
  const builtin = { now: 1 };
  const got = await runGraph({ "main.js": `import { now } from "cloudflare:c"; log(now); export const read = () => now` }, "main.js", { builtins: { "cloudflare:c": builtin } });
  builtin.now = 2;
  same([got.log[0], got.ns.read()], [1, 2]);
});

test("CommonJS", async () => {
  const got = await runGraph({
    "main.js": `import c, { named, late, f, missing } from "./c.cjs"; import * as ns from "./c.cjs"; import fn, { prop } from "./f.cjs"; import * as all from "./star.js"
      log(c.named, named, late, f(), missing, Object.keys(ns).join(), ns.default === c, typeof fn, prop, Object.keys(all).join(), (await import("./c.cjs")).named)`,
    "c.cjs": `log("c", typeof module, typeof require, __filename, __dirname, this === exports); exports.named = 1; exports.f = function () { return this === undefined || this === null }; Object.defineProperty(exports, "late", { enumerable: true, get: () => 2 }); const d = require("./sub/d.cjs"); exports.d = d.v`,
    "sub/d.cjs": `const c = require("../c.cjs"); log("d", c.named, c.d, require("../c.cjs") === c, require("../j.json").k, require("../t.txt"), require("node:x"), require("node:y").z, require.resolve("../c.cjs")); module.exports = { v: 3 }; try { require("./none") } catch (e) { log(e.message) }`,
    "f.cjs": `#!shebang\nmodule.exports = function () {}; module.exports.prop = 4; return; log("unreached")`,
    "star.js": `export * from "./c.cjs"; export const own = 1`, "j.json": '{"k": 5}', "t.txt": "text",
  }, "main.js", { builtins: { "node:x": { default: "x", other: 1 }, "node:y": { z: 6 } } });
  if (got.error) throw got.error;
  same(got.log, ["c", "object", "function", "/c.cjs", "/", true, "d", 1, undefined, true, 5, "text", "x", 6, "c.cjs", 'No such module "./none". imported from "sub/d.cjs"', 1, 1, 2, false, undefined,
    "d,default,f,late,missing,named", true, "function", 4, "d,f,late,missing,named,own", 1]);
});

test("CommonJS requires ES modules, unless they wait or are on their way", async () => {
  const got = await runGraph({
    "main.js": `import c from "./c.cjs"; log(c)`,
    "c.cjs": `log(require("./e.js").x, require("./e.js").default()); for (const s of ["./tla.js", "./main.js", "./bad.js", "./bad.js"]) try { require(s); log("none") } catch (e) { log(e.message) } module.exports = import("./e.js").then((ns) => log(ns.x)) && 1`,
    "e.js": `export const x = 1; export default () => 2`, "tla.js": `await 0`, "bad.js": `throw new Error("bad")`,
  });
  if (got.error) throw got.error;
  same(got.log, [1, 2, 'require("./tla.js") in "c.cjs": the module waits at its top level (await). Use import() instead.', 'require("./main.js") would need a module that is being evaluated (a cycle). Use import() instead.', "bad", "bad", 1, 1]);
});

test("a CommonJS module that throws is an error of its importers", async () => {
  const got = await runGraph({ "main.js": `log(await import("./a.js").catch((e) => e.message), await import("./c.cjs").catch((e) => e.message))`, "a.js": `import "./c.cjs"`, "c.cjs": `log("once"); throw new Error("c")` });
  same(got.log, ["once", "c", "c"]);
});

test("asynchronous context survives awaits", async () => {
  /** @type {any} */
  let current = "outer";
  const context = { getContext: () => current, setContext: (/** @type {any} */ value) => void (current = value) };
  const files = {
    "main.js": `export async function f() { const seen = [get()]; await other(); seen.push(get()); try { await bad() } catch { seen.push(get()) } finally { seen.push(get()) } for await (const x of gen()) seen.push(get()); seen.push(get());
      const arrow = async () => (await other(), get()); seen.push(await arrow()); seen.push(get()); l: for await (const x of [1, 2]) { await other(); continue l } seen.push(get()); await using u = { async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() { await other(); log(get()) } }; return seen }
      async function bad() { await other(); throw 1 } async function* gen() { yield 1; log(get()); await other(); log(get()); yield 2 }
      run("tla"); await other(); log(get()); try { await bad() } catch { log(get()) } for await (const q of [0, 1]) log(get())`,
  };
  Object.assign(globalThis, {
    get: () => current,
    run: (/** @type {any} */ value) => void (current = value),
    other: () => new Promise((resolve) => resolve(undefined)).then(() => { current = "other"; }),
  });
  const got = await runGraph(files, "main.js", { context });
  if (got.error) throw got.error;
  same(got.log, ["tla", "tla", "tla", "tla"]);
  current = "A";
  /** @type {any[]} */
  const log = [];
  /** @type {any} */ (globalThis).log = (/** @type {any} */ value) => void log.push(value);
  const a = got.ns.f();
  current = "B";
  const b = got.ns.f();
  same([...new Set(await a)], ["A"]);
  same([...new Set(await b)], ["B"]);
  await settled();
  same(log.length, 6);
  same([...new Set(log)].sort(), ["A", "B"]);
});

test("changed prototypes do not reach the linker", async () => {
  const source = `
    const places = [[Array.prototype, "push"], [Array.prototype, "forEach"], [Array.prototype, "sort"], [Array.prototype, Symbol.iterator], [Array.prototype, "map"], [Map.prototype, "get"], [Map.prototype, "set"], [Map.prototype, "has"],
      [Promise.prototype, "then"], [Object.getPrototypeOf(function* () {}).prototype, "next"], [Object.getPrototypeOf(function* () {}).prototype, "throw"]], descriptors = [];
    for (let i = 0; i < places.length; i++) { const o = places[i][0], k = places[i][1]; descriptors[i] = Object.getOwnPropertyDescriptor(o, k); Object.defineProperty(o, k, { configurable: true, value() { throw new Error("reached " + String(k)) } }) }
    Object.defineProperty(Object.prototype, "0", { configurable: true, set() { throw new Error("reached 0") } }); Object.defineProperty(Object.prototype, "get", { configurable: true, get() { throw new Error("reached get") } })
    let ns, error; try { ns = await import("./late.js") } catch (e) { error = e } delete Object.prototype[0]; delete Object.prototype.get; for (let i = 0; i < places.length; i++) Object.defineProperty(places[i][0], places[i][1], descriptors[i]);
    log(error === undefined ? Object.keys(ns).join() + ns.x : String(error))`;
  const got = await runGraph({ "main.js": source, "late.js": `import { y } from "./y.js"; import c from "./c.cjs"; export let x = y + c; await 0; export * from "./y.js"`, "y.js": "export const y = 1", "c.cjs": "module.exports = 2" });
  if (got.error) throw got.error;
  same(got.log, ["x,y3"]);
});
