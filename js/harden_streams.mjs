// A plugin for esbuild: web-streams-polyfill calls methods of the language's own objects, which guest code may have replaced by the time
// that they run. Its calls are rewritten to the saved ones (js/src/primordials.js). The package is minified, so the rules are about its
// text; each must apply, or the bundle is not made: then the package's version has changed, and the rules want another look.
import { readFile } from "node:fs/promises";

const RULES = [
  [/_elements:\[\]/g, "_elements:$list()"],
  [/(\w+)\._elements\.push\((\w+)\)/g, "($1._elements[$1._elements.length]=$2)"],
  [/Object\.prototype\.hasOwnProperty\.call\(/g, "$has("],
  [/Function\.prototype\.apply\.call\(/g, "$apply("],
  [/return (\w+)\.call\(e,t,r\)/g, "return $then(e,t,r)"],
  [/Promise\.resolve\.bind\((\w+)\)/g, "$resolve"],
  [/Promise\.reject\.bind\((\w+)\)/g, "$reject"],
  [/Object\.create\(/g, "$create("],
  [/Math\.min\(/g, "$min("],
  [/Math\.floor\(/g, "$floor("],
  [/Math\.ceil\(/g, "$ceil("],
  [/return e\.slice\(\)/g, "return $copyList(e)"],
  [/if\(e\.slice\)return e\.slice\(t,r\)/g, "return $sliceBuffer(e,t,r)"],
  [/new Uint8Array\((\w+)\)\.set\(/g, "$set(new Uint8Array($1),"],
  [/e=>e\.transfer\(\)/g, "e=>$transfer(e)"],
  [/\w+ instanceof (?:Readable|Writable|Transform|ByteLength|Count)\w+/g, "true"], // after a test of a property that only its constructor makes
];
const HEAD = `import {
  ArrayBufferPrototypeSlice as $sliceBuffer, ArrayBufferPrototypeTransfer as $transfer, ArrayPrototypeSlice as $slice, MathCeil as $ceil, MathFloor as $floor,
  MathMin as $min, ObjectCreate as $create, ObjectPrototypeHasOwnProperty as $has, ObjectSetPrototypeOf as $setPrototype, PromisePrototypeThen as $then,
  ReflectApply as $apply, TypedArrayPrototypeSet as $set, promiseReject as $reject, promiseResolve as $resolve,
  ArrayBuffer, Promise, RangeError, TypeError, Uint8Array,
} from "PRIMORDIALS";
const $list = () => $setPrototype([], null), $copyList = (e) => $slice(e);
`;

export const hardenStreams = {
  name: "harden-streams",
  setup(build) {
    build.onLoad({ filter: /[\\/]web-streams-polyfill[\\/]dist[\\/]ponyfill\.mjs$/ }, async ({ path }) => {
      let text = await readFile(path, "utf8");
      for (const [pattern, by] of RULES) {
        const changed = text.replace(pattern, by);
        if (changed === text) throw new Error(`js/harden_streams.mjs: nothing in web-streams-polyfill fits ${pattern}`);
        text = changed;
      }
      const primordials = new URL("src/primordials.js", import.meta.url).pathname;
      return { contents: HEAD.replace("PRIMORDIALS", primordials) + text, loader: "js" };
    });
  },
};
