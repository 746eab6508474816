/**
 * Programs of several modules and what they log, in order. Each is also run by Node's own modules where that is possible (run.mjs), so that
 * what is expected here is what the language says.
 * @type {{name: string, files: Record<string, string>, log: any[], error?: string, main?: string, reference?: boolean}[]}
 */
export const orders = [
  {
    name: "imports run first, in source order, each once",
    files: {
      "main.js": `log("main"); import "./b.js"; import "./a.js"; import "./b.js"; log("end")`,
      "a.js": `import "./b.js"; log("a")`,
      "b.js": `log("b")`,
    },
    log: ["b", "a", "main", "end"],
  },
  {
    name: "live bindings: importers see later values, also through re-exports and renames",
    files: {
      "main.js": `import { n as one, inc } from "./mid.js"; import * as ns from "./mid.js"; log(one); inc(); log(one, ns.n, ns["again"]); inc(); log(\`\${one}\`)`,
      "mid.js": `export { n, n as again, inc } from "./leaf.js"`,
      "leaf.js": `export let n = 1; export function inc() { n += 1 }`,
    },
    log: [1, 2, 2, 2, "3"],
  },
  {
    name: "cycle: functions are there before evaluation, let and class are not",
    files: {
      "main.js": `import "./a.js"; log("main")`,
      "a.js": `import { b } from "./b.js"; export function fa() { return "fa" } export let la = 1; export class Ca {} export var va = 2; export default function () { return "d" } log("a", b)`,
      "b.js": `import d, { fa, la, Ca, va } from "./a.js"; log(fa(), d(), d.name, va); try { la } catch (e) { log(e.name) } try { new Ca() } catch (e) { log(e.name) }
        try { typeof la } catch (e) { log(e.name) } export const b = () => la`,
    },
    log: ["fa", "d", "default", undefined, "ReferenceError", "ReferenceError", "ReferenceError", "a", "function", "main"],
  },
  {
    name: "cycle through a namespace object",
    files: {
      "main.js": `import * as self from "./main.js"; export const x = 1; log(self.x, Object.keys(self)); export { self as me }; log(self.me === self)`,
    },
    log: [1, "me,x", true],
  },
  {
    name: "default exports: names and kinds",
    files: {
      "main.js": `import a from "./a.js"; import b from "./b.js"; import c from "./c.js"; import d from "./d.js"; import e from "./e.js"; import f from "./f.js"; import g from "./g.js"; import h from "./h.js"; import i from "./i.js"; import j from "./j.js"
        log(a.name, b.name, c.name, d.name, e.name, f.name, g, h.name, i.name, j.name)`,
      "a.js": `export default function () {}`,
      "b.js": `export default class {}`,
      "c.js": `export default () => {}`,
      "d.js": `export default (class {})`,
      "e.js": `export default function named() {}`,
      "f.js": `export default async function* () {}`,
      "g.js": `export default 1 + 1\n;[1].length`,
      "h.js": `export default (function () {})`,
      "i.js": `export default class { static name = "own" }`,
      "j.js": `const x = { default: () => {} }; export default x.default`,
    },
    log: ["default", "default", "default", "default", "named", "default", 2, "default", "own", "default"],
  },
  {
    name: "a default-exported function declaration is a live binding, an expression is not",
    files: {
      "main.js": `import f, { setF } from "./f.js"; import v, { setV } from "./v.js"; setF(); setV(); log(typeof f, v)`,
      "f.js": `export default function f() {} export function setF() { f = 1 }`,
      "v.js": `let v = 1; export default v; export function setV() { v = 2 }`,
    },
    log: ["number", 1],
  },
  {
    name: "export * leaves out default, own exports win, the same binding twice is no conflict",
    files: {
      "main.js": `import * as ns from "./hub.js"; log(Object.keys(ns).join(), ns.x, ns.y)`,
      "hub.js": `export * from "./a.js"; export * from "./b.js"; export const x = "hub"`,
      "a.js": `export const x = "a"; export { y } from "./c.js"; export default 1`,
      "b.js": `export const x = "b"; export { y } from "./c.js"`,
      "c.js": `export const y = "c"`,
    },
    log: ["x,y", "hub", "c"],
  },
  {
    name: "conflicting stars leave the name out of the namespace",
    files: {
      "main.js": `import * as ns from "./hub.js"; log(Object.keys(ns).join(), "x" in ns, ns.x)`,
      "hub.js": `export * from "./a.js"; export * from "./b.js"`,
      "a.js": `export const x = 1, a = 1`,
      "b.js": `export const x = 2, b = 2`,
    },
    log: ["a,b", false, undefined],
  },
  {
    name: "circular stars end",
    files: {
      "main.js": `import { x, y } from "./a.js"; import * as ns from "./b.js"; log(x, y, Object.keys(ns).join())`,
      "a.js": `export * from "./b.js"; export const x = 1`,
      "b.js": `export * from "./a.js"; export const y = 2`,
    },
    log: [1, 2, "x,y"],
  },
  {
    name: "export * as, string names, re-exported default",
    files: {
      "main.js": `import { sub, "a-b" as ab, d, default as own } from "./mid.js"; import * as ns from "./mid.js"; log(sub.n, ab, d, own, Object.keys(ns).join())`,
      "mid.js": `export * as sub from "./leaf.js"; export { n as "a-b", default as d } from "./leaf.js"; const x = 5; export { x as default }; export * as "s p" from "./leaf.js"`,
      "leaf.js": `export const n = 1; export default 2`,
    },
    log: [1, 1, 2, 5, "a-b,d,default,s p,sub"],
  },
  {
    name: "names in every position that an import may stand in",
    files: {
      "main.js": `import { x, f, o, tag, C, k } from "./leaf.js"
        log(x, { x }.x, { x: x }.x, [x][0], \`\${x}\`, -x, typeof x, x ? 1 : 2, (x, x), o.x, o[k], f(x), o.m(), tag\`t\`, new C().c, new C, f?.(x), void x)
        const { [k]: a, b = x, ...rest } = { x: 5 }; log(a, b)
        const g = (y = x, { z = x } = {}) => y + z; log(g(), ((x) => x)(7), (function x() { return typeof x })(), class x {}.name)
        { let x = "inner"; log(x) } for (const x of [8]) log(x); try { throw 9 } catch (x) { log(x) }
        x: for (;;) { break x } log({ x() { return 1 }, get f() { return 2 } }.x()); switch (1) { case 1: let f = 3; log(f) }
        log(this, (() => this)(), f\n(x)); if (x) f(x); else f(x)
        class D extends C { [k] = x; static s = x; #x = x; m() { return this.#x + super.m() } static { var o = 1; this.t = o } } log(new D().x, D.s, new D().m(), D.t)
        label: { const x = 1; if (x) break label } function h() { return x; { var x = 1 } } log(h())
        for (var i = x; i < x + 1; i++) log(i); for (const q in o) if (q === "x") log(q); log(x in { 1: 1 }, delete o.q, x ?? 2, x && x, (x))`,
      "leaf.js": `export const x = 1, k = "x", o = { x: 2, m() { return this === o } }; export function f(v) { return [this, v].join() } export function tag(s) { return s[0] + String(this) }
        export class C { c = 3; m() { return 10 } toString() { return "C" } toJSON() { return "C" } }`,
    },
    log: [1, 1, 1, 1, "1", -1, "number", 1, 1, 2, 2, ",1", true, "tundefined", 3, "C", ",1", undefined, 5, 1, 2, 7, "function", "x", "inner", 8, 9, 1, 3,
      undefined, undefined, ",1", 1, 1, 11, 1, undefined, 1, "x", true, true, 1, 1, 1],
  },
  {
    name: "statements that relied on a line break keep it",
    files: {
      "main.js": `import { f } from "./f.js"
let a = 1
f(a)
const b = a
f\`x\`
let c = () => {}
f(b)
var d = function () {}
f(3)
a++
f(4)
do log("do"); while (false) f(5)
if (a) log("if")
f(6)
export { a }
f(7)
const t = await 8
await f(t)
"str"
await f(9)`,
      "f.js": `export function f(v) { log(v) }`,
    },
    log: [1, ["x"], 1, 3, 4, "do", 5, "if", 6, 7, 8, 9],
  },
  {
    name: "imports cannot be assigned to",
    files: {
      "main.js": `import { x } from "./x.js"; import * as ns from "./x.js"; import d from "./x.js"
        for (const f of [() => { x = 1 }, () => { x++ }, () => { [x] = [1] }, () => { ({ x } = { x: 1 }) }, () => { ({ a: x } = { a: 1 }) }, () => { for (x of [1]); }, () => { d ??= 1; d = 2 },
          () => { ns = 1 }, () => { ns.x = 1 }, () => { ns.fresh = 1 }, () => { delete ns.x }, () => { Object.defineProperty(ns, "x", { value: 7 }) }])
          try { f(); log("none") } catch (e) { log(e.name) } log(x, delete ns.nothing, Reflect.set(ns, "x", 1), Reflect.deleteProperty(ns, "x"))`,
      "x.js": `export let x = 0; export default null`,
    },
    log: [..."TypeError ".repeat(12).trim().split(" "), 0, true, false, false],
  },
  {
    name: "namespace objects",
    files: {
      "main.js": `import * as ns from "./x.js"
        log(Object.getPrototypeOf(ns), ns[Symbol.toStringTag], String(Object.prototype.toString.call(ns)), Reflect.ownKeys(ns).length, Object.keys(ns).join(), Object.isExtensible(ns), Object.isSealed(ns), Object.isFrozen(ns))
        log(JSON.stringify(Object.getOwnPropertyDescriptor(ns, "b")), "b" in ns, "z" in ns, ns.z, Reflect.setPrototypeOf(ns, null), Reflect.setPrototypeOf(ns, {}), Object.getOwnPropertyDescriptor(ns, "z"))
        log(Reflect.defineProperty(ns, "b", { value: 2 }), Reflect.defineProperty(ns, "b", { value: 3 }), Reflect.defineProperty(ns, "b", { writable: false }), Reflect.defineProperty(ns, "z", { value: 1 }), Object.entries(ns).length, JSON.stringify({ ...ns }))
        log(JSON.stringify(Object.getOwnPropertyDescriptor(ns, Symbol.toStringTag)), Reflect.preventExtensions(ns))`,
      "x.js": `export const b = 2, a = 1; export { a as A, a as "a-", b as __proto__ }`,
    },
    log: [null, "Module", "[object Module]", 6, "A,__proto__,a,a-,b", false, true, false,
      '{"value":2,"writable":true,"enumerable":true,"configurable":false}', true, false, undefined, true, false, undefined,
      true, false, false, false, 5, '{"A":1,"__proto__":2,"a":1,"a-":1,"b":2}',
      '{"value":"Module","writable":false,"enumerable":false,"configurable":false}', true],
  },
  {
    name: "keys of a namespace in a temporal dead zone",
    files: {
      "main.js": `import * as self from "./main.js"; log(Reflect.ownKeys(self).length, "x" in self); try { self.x } catch (e) { log(e.name) } try { Object.keys(self) } catch (e) { log(e.name) } export let x = 1; log(self.x)`,
    },
    log: [2, true, "ReferenceError", "ReferenceError", 1],
  },
  {
    name: "a missing name is a SyntaxError, and nothing runs",
    files: { "main.js": `import "./a.js"; import { nope } from "./b.js"; log("main")`, "a.js": `log("a")`, "b.js": `export const x = 1` },
    log: [],
    error: "SyntaxError",
  },
  {
    name: "an ambiguous name is a SyntaxError",
    files: {
      "main.js": `import { x } from "./hub.js"; log(x)`,
      "hub.js": `export * from "./a.js"; export * from "./b.js"`,
      "a.js": `export const x = 1`,
      "b.js": `export const x = 2`,
    },
    log: [],
    error: "SyntaxError",
  },
  {
    name: "a re-export of nothing and a circle of re-exports are SyntaxErrors",
    files: { "main.js": `log("main"); import("./a.js").catch((e) => log(e.name)); await import("./c.js").catch((e) => log(e.name))`, "a.js": `export { x } from "./b.js"`, "b.js": `export { x } from "./a.js"`, "c.js": `export { y } from "./d.js"`, "d.js": `` },
    log: ["main", "SyntaxError", "SyntaxError"],
  },
  {
    name: "an error is kept: every later import throws the same one",
    files: {
      "main.js": `const errors = []; for (let i = 0; i < 2; i++) await import("./bad.js").catch((e) => errors.push(e)); await import("./user.js").catch((e) => errors.push(e)); log(errors[0] === errors[1], errors[1] === errors[2], errors[0].message)`,
      "bad.js": `log("bad"); throw new Error("x")`,
      "user.js": `import "./bad.js"; log("user")`,
    },
    log: ["bad", true, true, "x"],
  },
  {
    name: "the same for an error behind an await",
    files: {
      "main.js": `const errors = []; for (let i = 0; i < 2; i++) await import("./user.js").catch((e) => errors.push(e)); await import("./bad.js").catch((e) => errors.push(e)); log(errors[0] === errors[1], errors[1] === errors[2])`,
      "bad.js": `log("bad"); await 0; throw new Error("x")`,
      "user.js": `import "./bad.js"; log("user")`,
    },
    log: ["bad", true, true],
  },
  {
    name: "top-level await: siblings go on, parents wait",
    files: {
      "main.js": `import "./a.js"; import "./b.js"; log("main")`,
      "a.js": `log("a1"); await 0; log("a2"); await 0; log("a3")`,
      "b.js": `log("b")`,
    },
    log: ["a1", "b", "a2", "a3", "main"],
  },
  {
    name: "top-level await: two async siblings interleave",
    files: {
      "main.js": `import "./a.js"; import "./b.js"; import "./c.js"; log("main")`,
      "a.js": `log("a1"); await 0; log("a2")`,
      "b.js": `import "./a.js"; log("b1"); await 0; log("b2")`,
      "c.js": `log("c1"); await 0; log("c2"); await 0; log("c3")`,
    },
    log: ["a1", "c1", "a2", "c2", "b1", "c3", "b2", "main"],
  },
  {
    name: "top-level await in a cycle",
    files: {
      "main.js": `import "./a.js"; log("main")`,
      "a.js": `import "./b.js"; log("a")`,
      "b.js": `import "./a.js"; import "./c.js"; log("b1"); await 0; log("b2")`,
      "c.js": `import "./b.js"; log("c1"); await 0; log("c2")`,
    },
    log: ["c1", "c2", "b1", "b2", "a", "main"],
  },
  {
    name: "modules that wait for the same one run in the order of their start",
    files: {
      "main.js": `import "./p.js"; import "./q.js"; import "./r.js"; log("main")`,
      "p.js": `import "./slow.js"; log("p")`,
      "q.js": `import "./slow.js"; log("q1"); await 0; log("q2")`,
      "r.js": `import "./slow.js"; import "./q.js"; log("r")`,
      "slow.js": `log("s1"); await 0; log("s2")`,
    },
    log: ["s1", "s2", "p", "q1", "q2", "r", "main"],
  },
  {
    name: "await of thenables, rejections and in every position",
    files: {
      "main.js": `const t = await { then(ok) { ok("then") } }; log(t, [await 1, await 2].join(), { k: await 3 }.k, -await 4, typeof await 5, (await (async () => ({ f() { return this.v }, v: 6 }))()).f())
        try { await Promise.reject(new Error("no")) } catch (e) { log(e.message) } finally { log("finally") } const { a = await 7 } = {}; log(a, \`\${await 8}\`, await 0 || 9, (await
10))
        for (const x of await [11]) log(x); if (await true) log(12); else log("not"); export const e = await 13; class K { static k = 14; [await "m"]() { return 15 } } log(e, K.k, new K().m()); while (await false); switch (await 16) { case await 16: log(16) }
        label: for (let i = 0; await i < 2; i++) { if (await i === 1) break label; log("i" + i) }`,
    },
    log: ["then", "1,2", 3, -4, "number", 6, "no", "finally", 7, "8", 9, 10, 11, 12, 13, 14, 15, 16, "i0"],
  },
  {
    name: "for await at the top level",
    files: {
      "main.js": `async function* gen() { try { yield 1; yield 2; yield 3 } finally { log("closed") } }
        for await (const x of gen()) { if (x === 3) break; log(x) } for await (var v of [Promise.resolve(4), 5]) { var w = v; if (v === 4) continue; log(w) } log(v, w)
        try { for await (const [a, b = await 6] of [[1]]) { log(a, b); throw new Error("t") } } catch (e) { log(e.message) }
        let q; outer: for await (q of [7]) { for (;;) continue outer } log(q); export { w }; if (q) for await (const z of []) ; else log("else")`,
    },
    log: [1, 2, "closed", 5, 5, 5, 1, 6, "t", 7],
  },
  {
    name: "import() gives the namespace, evaluates once, after the present turn",
    files: {
      "main.js": `const p = import("./a.js"); log("sync"); const a = await p; log(a.x, a === await import("./a.js"), (await import("./" + "a.js")).default); const { x } = await import(\`./a.js\`); log(x)
        import({ toString() { throw new Error("ts") } }).catch((e) => log(e.message)); const s = await import(Symbol()).catch((e) => e.name); log(s)`,
      "a.js": `log("a"); export let x = 1; export default 2`,
    },
    log: ["sync", "a", 1, true, 2, 1, "ts", "TypeError"],
  },
  {
    name: "import() of a module that is being evaluated",
    files: {
      "main.js": `import "./a.js"; log("main"); export const m = 1`,
      "a.js": `import("./main.js").then((ns) => log("got", ns.m)); log("a")`,
    },
    log: ["a", "main", "got", 1],
  },
  {
    name: "import() and export named then",
    files: { "main.js": `log(await import("./t.js"))`, "t.js": `export function then(ok) { ok("thenable") }` },
    log: ["thenable"],
  },
  {
    name: "<!-- is no comment in a module",
    reference: false, // V8 refuses it
    files: { "main.js": `let a = -1, b = 3; log(a<!--b, b, "<!-- s", \`<!-- \${a<!--b} t\`, /<!--/.source) /* <!-- */ // <!--` },
    log: [true, 2, "<!-- s", "<!-- true t", "<!--"],
  },
  {
    name: "strict, without arguments and this",
    files: {
      "main.js": `log(this, typeof arguments, (() => typeof arguments)(), (function () { return arguments.length })(1, 2), (function () { return this })()); try { undeclared = 1 } catch (e) { log(e.name) } try { arguments } catch (e) { log(e.name) }`,
    },
    log: [undefined, "undefined", "undefined", 2, undefined, "ReferenceError", "ReferenceError"],
  },
  {
    name: "shapes of export declarations",
    files: {
      "main.js": `import * as ns from "./x.js"; log(Object.keys(ns).join(), ns.a, ns.c, ns.d, ns.rest.join(), ns.f(), ns.g().next().value, ns.C.name)`,
      "x.js": `export const { a, b: { c = 2 } = {} } = { a: 1 }, [d, , ...rest] = [3, 4, 5, 6]
export function f() { return "f" } export function* g() { yield "g" } export async function h() {}
export
class C {}
export var v, w = 1; let l; export { l, l as m, }
export {}`,
    },
    log: ["C,a,c,d,f,g,h,l,m,rest,v,w", 1, 2, 3, "5,6", "f", "g", "C"],
  },
];
