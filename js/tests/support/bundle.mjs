/** Bundles an entry as js/build.mjs does and evaluates it in a fresh realm that has, like the engine, nothing but the language. */
import vm from 'node:vm';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import { hardenStreams } from '../../harden_streams.mjs';

const js = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** @param {string} entry below js/ @returns {Promise<string>} a script whose value is a function of natives */
export async function bundleText(entry) {
  const result = await esbuild.build({
    absWorkingDir: js, entryPoints: [entry], inject: ['src/web/inject.js'], plugins: [hardenStreams], bundle: true, write: false, format: 'iife', globalName: 'bundle',
    platform: 'neutral', mainFields: ['module', 'main'], target: 'es2023', charset: 'utf8', logLevel: 'warning',
  });
  return `(function (natives) {\n"use strict";\n${result.outputFiles[0].text}return bundle.default(natives);\n})\n`;
}

/** @param {string} text @param {any} natives @returns {{global: any, context: vm.Context, value: any}} */
export function evaluateBundle(text, natives) {
  const context = vm.createContext({}, { microtaskMode: undefined });
  const global = vm.runInContext('globalThis', context);
  for (const name of ['SharedArrayBuffer', 'Atomics', 'WebAssembly']) delete global[name];
  // What the engine has and Node.js 20 has not.
  vm.runInContext(`(function (detach) {
    if (ArrayBuffer.prototype.transfer === undefined) {
      ArrayBuffer.prototype.transfer = function transfer() { const copy = this.slice(0); detach(this); return copy; };
      Object.defineProperty(ArrayBuffer.prototype, 'detached', { get() { try { new Uint8Array(this); return false; } catch { return true; } }, configurable: true });
    }
  })`, context)((buffer) => { structuredClone(buffer, { transfer: [buffer] }); });
  const value = vm.runInContext(text, context, { filename: 'bundle.js' })(natives);
  return { global, context, value };
}
