// The tests of the compiler and the linker under Node, with Node's own modules as the reference for the programs of orders.js.
// Usage: node tests/js/modules/run.mjs
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { run, same, test } from "../tap.js";
import "./cases.js";
import { orders } from "./orders.js";
import { generate } from "./random.js";
import { runGraph } from "./graph.js";

const scratch = mkdtempSync(path.join(os.tmpdir(), "cloister-modules-"));
let graphs = 0;

/** The same graph by the engine's own modules: files of a directory of its own. */
async function reference(files, main) {
  const directory = path.join(scratch, String(graphs++));
  for (const [name, text] of Object.entries({ ...files, "package.json": '{"type": "module"}' })) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), text);
  }
  const log = [];
  let error;
  globalThis.log = (...values) => void log.push(...values);
  try {
    await import(pathToFileURL(path.join(directory, main)).href);
  } catch (e) {
    error = e;
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
  return { log, error };
}

for (const { name, files, log, error, main = "main.js", reference: comparable = true } of orders)
  if (comparable) test(`reference: ${name}`, async () => {
    const got = await reference(files, main);
    if (error === undefined && got.error) throw got.error;
    same(got.error?.name, error, "error");
    same(got.log.map(plain), log.map(plain), "log");
  });

test("random graphs run as Node runs them", async () => {
  for (let seed = 1; seed <= 400; seed++) {
    const files = generate(seed);
    const wanted = await reference(files, "m0.js"), got = await runGraph(files, "m0.js");
    same({ log: got.log, error: got.error?.message }, { log: wanted.log, error: wanted.error?.message }, `seed ${seed}: ${JSON.stringify(files, null, 1)}`);
  }
});

function plain(value) {
  return typeof value === "function" ? "function" : Array.isArray(value) ? value.join() : value;
}

process.exitCode = (await run(console.log)) ? 0 : 1;
rmSync(scratch, { recursive: true });
