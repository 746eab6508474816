// Bundles one test file and runs it: node run.mjs WORKER FILE [BUNDLE-DIRECTORY]
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const [worker, file] = process.argv.slice(2);
if (worker === undefined || file === undefined) {
  console.error("usage: run.mjs WORKER FILE");
  process.exit(2);
}
const js = path.join(path.dirname(fileURLToPath(import.meta.url)), "..", "..", "js");
const esbuild = createRequire(path.join(js, "package.json"))("esbuild");
const { hardenStreams } = await import(path.join(js, "harden_streams.mjs"));
const directory = mkdtempSync(path.join(os.tmpdir(), "cloister-js-test-"));
try {
  const outfile = path.join(directory, path.basename(file));
  // The worker's own library is there already; what the bundle brings must not take that one's classes for the engine's.
  const banner = { js: "delete globalThis.TextEncoder; delete globalThis.TextDecoder;" };
  await esbuild.build({
    absWorkingDir: js, entryPoints: [path.resolve(file)], bundle: true, outfile, banner, format: "iife", platform: "neutral", mainFields: ["module", "main"],
    target: "es2023", charset: "utf8", inject: ["src/web/inject.js"], plugins: [hardenStreams], nodePaths: [path.join(js, "node_modules")], logLevel: "warning",
  });
  const result = spawnSync(worker, ["--shell", outfile], { stdio: "inherit" });
  if (result.error) throw result.error;
  process.exitCode = result.status ?? 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
