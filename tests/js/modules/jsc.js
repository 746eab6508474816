/** Entry for `cloister-worker --shell` (tests/js/run-jsc.mjs). */
import "./cases.js";
import { run } from "../tap.js";

const shell = /** @type {any} */ (globalThis).__shell;
run((line) => shell.print(line)).then((ok) => shell.exit(ok ? 0 : 1));
