// Bundles node_bundle_main.js, a library for the shell in which the flag nodejs_compat is on. Usage: node node_bundle.mjs OUTPUT DEPFILE
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url)), js = path.join(here, "../../js");
const esbuild = createRequire(path.join(js, "package.json"))("esbuild"); // js/build.mjs has installed it
const [output, depfile] = process.argv.slice(2);
const result = await esbuild.build({
  absWorkingDir: js, entryPoints: [path.join(here, "node_bundle_main.js")], inject: [path.join(js, "src/web/inject.js")], bundle: true, write: false,
  metafile: true, format: "iife", globalName: "bundle", platform: "neutral", mainFields: ["module", "main"], target: "es2023", charset: "utf8",
  logLevel: "warning", nodePaths: [path.join(js, "node_modules")],
});
writeFileSync(output, `(function (natives) {\n"use strict";\n${result.outputFiles[0].text}return bundle.default(natives);\n})\n`);
const inputs = Object.keys(result.metafile.inputs).map((input) => path.join(js, input).replaceAll(" ", "\\ "));
writeFileSync(depfile, `${output}: ${inputs.join(" ")}\n`);
