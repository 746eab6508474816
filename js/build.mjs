// Bundles the library into the two scripts that worker processes evaluate.
//
//   node js/build.mjs OUTPUT-DIRECTORY [--depfile FILE --target NAME]
//
//   runtime.js   js/src/main.js       the Workers API
//   compiler.js  js/compiler/main.js  the compile service
//   esbuild      the bundler itself, a program of its own, which bundles applications at run time
//
// Each is one classic script whose value is a function (natives) -> dispatch (js/natives.d.ts); the entry
// module's default export is that function, and its module graph is evaluated when the function is called.
// The packages that it needs are installed here first when they are missing or older than package-lock.json.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { hardenStreams } from "./harden_streams.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const bundles = [
  { name: "runtime.js", entry: "src/main.js", inject: ["src/web/inject.js"] },
  { name: "compiler.js", entry: "compiler/main.js" },
];

function fail(message) {
  console.error(`js/build.mjs: ${message}`);
  process.exit(1);
}

function parseArguments(args) {
  const options = { out: null, depfile: null, target: null };
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "--depfile") options.depfile = args[++i];
    else if (args[i] === "--target") options.target = args[++i];
    else if (options.out === null && !args[i].startsWith("-")) options.out = args[i];
    else fail(`unknown argument ${args[i]}`);
  }
  if (options.out === null || (options.depfile === null) !== (options.target === null)) {
    fail("usage: build.mjs OUTPUT-DIRECTORY [--depfile FILE --target NAME]");
  }
  return options;
}

/** npm leaves node_modules/.package-lock.json behind when it is done. */
function installPackages() {
  const lock = path.join(here, "package-lock.json");
  const done = path.join(here, "node_modules", ".package-lock.json");
  if (existsSync(done) && statSync(done).mtimeMs >= statSync(lock).mtimeMs) return;
  const result = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], { cwd: here, stdio: ["ignore", "pipe", "inherit"] });
  if (result.error) fail(`cannot run npm: ${result.error.message}`);
  if (result.status !== 0) fail(`npm ci failed with status ${result.status}`);
}

async function bundle(esbuild, { name, entry, inject = [] }, out) {
  const result = await esbuild.build({
    absWorkingDir: here,
    entryPoints: [entry],
    inject,
    plugins: [hardenStreams],
    bundle: true,
    minifyWhitespace: true,
    minifySyntax: true,
    write: false,
    metafile: true,
    format: "iife",
    globalName: "bundle",
    platform: "neutral",
    mainFields: ["module", "main"],
    target: "es2023",
    charset: "ascii",
    legalComments: "eof",
    keepNames: false,
    logLevel: "warning",
    outfile: name,
  });
  // The engine keeps a script of ASCII alone in one byte a character. What is left of others is in comments.
  const code = result.outputFiles[0].text.replace(/[^\0-\x7f]/g, "?");
  const text = `(function (natives) {\n"use strict";\n${code}return bundle.default(natives);\n})\n`;
  const file = path.join(out, name);
  // Unchanged output keeps its time, so that nothing after it is rebuilt.
  if (!existsSync(file) || readFileSync(file, "utf8") !== text) {
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }
  return Object.keys(result.metafile.inputs).filter((input) => !input.includes(":")).map((input) => path.join(here, input));
}

/** The native program that npm's package esbuild comes with for this machine. */
function copyEsbuild(out) {
  const from = path.join(here, "node_modules", "@esbuild", `${process.platform}-${process.arch}`, "bin", "esbuild");
  const file = path.join(out, "esbuild");
  if (!existsSync(from)) fail(`there is no esbuild for ${process.platform}-${process.arch} (${from})`);
  if (existsSync(file) && statSync(file).mtimeMs >= statSync(from).mtimeMs) return;
  copyFileSync(from, `${file}.new`);
  chmodSync(`${file}.new`, 0o755);
  renameSync(`${file}.new`, file);
}

const options = parseArguments(process.argv.slice(2));
installPackages();
const esbuild = await import("esbuild");
mkdirSync(options.out, { recursive: true });
const inputs = new Set([fileURLToPath(import.meta.url), path.join(here, "harden_streams.mjs"), path.join(here, "package.json"), path.join(here, "package-lock.json")]);
copyEsbuild(options.out);
for (const item of bundles) {
  for (const input of await bundle(esbuild, item, options.out)) inputs.add(input);
}
if (options.depfile !== null) {
  const escaped = [...inputs].map((input) => input.replaceAll(" ", "\\ "));
  writeFileSync(options.depfile, `${options.target}: ${escaped.join(" ")}\n`);
}
