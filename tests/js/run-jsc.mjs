// Bundles a test for the worker's engine and runs it there. Usage: node run-jsc.mjs ENTRY, with CLOISTER_WORKER the program.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(path.join(here, "../../js/package.json"))("esbuild");
const scratch = mkdtempSync(path.join(os.tmpdir(), "cloister-js-"));
try {
  const outfile = path.join(scratch, "test.js");
  await esbuild.build({ entryPoints: [path.resolve(process.argv[2])], bundle: true, outfile, format: "iife", target: "es2023", platform: "neutral", mainFields: ["module", "main"], charset: "utf8", logLevel: "warning" });
  const result = spawnSync(process.env.CLOISTER_WORKER, ["--shell", outfile], { stdio: "inherit" });
  process.exitCode = result.status ?? 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
