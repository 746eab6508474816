/**
 * The boot of a worker process of role `compiler` (js/natives.d.ts, src/link/worker_protocol.h): answers `init` and `compile`.
 */
import { openReceiving, openSending, routes, streamConsumed, streamEnd, streamReset, streamWrite } from "../src/link.js";
import { setNatives } from "../src/natives.js";
import { decodePlain, encodePlain } from "../src/rpc/cbor.js";
import { CompileError, compile } from "./compile.js";
import { MAX_SOURCE } from "./format.js";

/** What goes in an answer itself; more is a stream (worker_protocol.h, WORKER_INLINE_MAX). */
const INLINE_MAX = 512 * 1024;
/** UTF-8 takes up to three bytes for a character of JavaScript. */
const MAX_BYTES = 3 * MAX_SOURCE;

const SAMPLE = `import { WorkerEntrypoint, env as all } from "cloudflare:workers";
import other, * as names from "./other.js";
export * from "./more.js";
const table = new Map([["a", 1], ["b", { c: [2, /x+/g, ...names.list] }]]);
export class Code extends WorkerEntrypoint {
  #count = 0;
  static limit = 10;
  async evaluate(a, b = 2, ...rest) { for (const [k, v] of table) { if (v === a) this.#count++; else try { await other(k); } catch { continue; } } return a + b; }
  get count() { return this.#count; }
}
export const pick = ({ x, y: [z] }, f = (q) => q?.x ?? \`\${z}-\${x}\`) => { switch (x) { case 1: return f(z); default: return typeof all; } };
export default { async fetch(request, env, ctx) { let i = 0; while (i < 3) i += 1; return new Response("Hello", { status: 200 }); } };
`;

/** @param {any} natives @returns {any} the dispatch */
export default function boot(natives) {
  setNatives(natives);

  /** @param {number} call @param {string} code @param {string} message */
  const refuse = (call, code, message) => natives.throw(call, code, message);

  /** @param {number} call @param {Uint8Array} bytes */
  function answer(call, bytes) {
    if (bytes.length <= INLINE_MAX) {
      natives.return(call, encodePlain({ __proto__: null, data: bytes }));
      return;
    }
    // Everything is handed over at once; the native side buffers what has no credit.
    const stream = openSending({});
    natives.return(call, encodePlain({ __proto__: null, stream }));
    streamWrite(stream, bytes);
    streamEnd(stream);
  }

  /** @param {number} call @param {any} module @param {Uint8Array} bytes */
  function run(call, module, bytes) {
    let source;
    try {
      source = natives.utf8Decode(bytes, 0, bytes.length, true);
    } catch {
      refuse(call, "INVALID_ARGUMENT", `${module.name}:1:1: the module is not UTF-8 text`);
      return;
    }
    try {
      answer(call, new Uint8Array(natives.utf8Encode(compile(module, source))));
    } catch (error) {
      const known = error instanceof CompileError;
      refuse(call, known ? "INVALID_ARGUMENT" : "INTERNAL", known ? error.message : `${module.name}: ${error}`);
    }
  }

  /** @param {number} call @param {any} module @param {number} stream */
  function receive(call, module, stream) {
    /** @type {Uint8Array[]} */
    const chunks = [];
    let size = 0;
    openReceiving(stream, {
      data(bytes) {
        size += bytes.length;
        if (size > MAX_BYTES) {
          streamReset(stream, "too large");
          refuse(call, "INVALID_ARGUMENT", `${module.name}:1:1: the module is larger than ${MAX_SOURCE / 1024 / 1024} MiB`);
          return;
        }
        chunks.push(bytes);
        streamConsumed(stream, bytes.length);
      },
      end() {
        const all = new Uint8Array(size);
        let at = 0;
        for (const chunk of chunks) {
          all.set(chunk, at);
          at += chunk.length;
        }
        run(call, module, all);
      },
      reset(message) {
        refuse(call, "INVALID_ARGUMENT", `${module.name}:1:1: the module did not arrive: ${message}`);
      },
    });
  }

  return {
    ...routes,
    start() {},
    /** So that the first module meets code that the engine has seen run. @param {number} times */
    warmUp(times) {
      for (let i = 0; i < times; i++) compile({ name: "sample.ts", type: i % 2 === 0 ? "js" : "ts" }, SAMPLE);
    },
    /** @param {number} call @param {string} method @param {ArrayBuffer} args */
    call(call, method, args) {
      if (method === "init") {
        natives.return(call, encodePlain(null));
        return;
      }
      if (method !== "compile") {
        refuse(call, "UNSUPPORTED", `the compiler has no method "${method}"`);
        return;
      }
      const { name, type, data, stream } = decodePlain(new Uint8Array(args));
      const module = { name, type };
      if (typeof name !== "string" || !["js", "cjs", "ts"].includes(type)) refuse(call, "INVALID_ARGUMENT", "compile: name and type are wanted");
      else if (typeof stream === "number") receive(call, module, stream);
      else if (data instanceof Uint8Array) run(call, module, data);
      else refuse(call, "INVALID_ARGUMENT", "compile: data or stream is wanted");
    },
    /** @param {number} call @param {string} _method */
    fetch(call, _method) {
      refuse(call, "UNSUPPORTED", "the compiler answers no requests");
    },
    cancelled() {},
    /** @param {any} _promise @param {any} reason */
    unhandledRejection(_promise, reason) {
      natives.log(0, `unhandled rejection in the compiler: ${reason}`);
    },
    requestKilled() {},
  };
}
