/** `node:module`: a Worker has the modules that it came with, and no others. */
import { host, missing, nodeError } from './host.js';

const NAMES = [
  'assert', 'assert/strict', 'async_hooks', 'buffer', 'child_process', 'cluster', 'console', 'constants', 'crypto', 'dgram', 'diagnostics_channel', 'dns',
  'dns/promises', 'domain', 'events', 'fs', 'fs/promises', 'http', 'http2', 'https', 'inspector', 'inspector/promises', 'module', 'net', 'os', 'path',
  'path/posix', 'path/win32', 'perf_hooks', 'process', 'punycode', 'querystring', 'readline', 'readline/promises', 'repl', 'stream', 'stream/consumers',
  'stream/promises', 'stream/web', 'string_decoder', 'sys', 'timers', 'timers/promises', 'tls', 'trace_events', 'tty', 'url', 'util', 'util/types', 'v8', 'vm',
  'wasi', 'worker_threads', 'zlib',
];
/** Those without the prefix are no modules. */
const PREFIXED = ['sea', 'sqlite', 'test', 'test/reporters'];

/** What Node.js itself has, whether it works in a Worker or not. */
export const builtinModules = Object.freeze([...NAMES, ...PREFIXED.map((name) => `node:${name}`)]);

/** @param {any} name */
export function isBuiltin(name) {
  const text = `${name}`;
  return text.startsWith('node:') ? NAMES.includes(text.slice(5)) || PREFIXED.includes(text.slice(5)) : NAMES.includes(text);
}

/** @param {any} from an absolute path, or the URL of one @returns {string} without the slash */
function pathOf(from) {
  const text = from instanceof URL ? from.href : from;
  if (typeof text !== 'string') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "filename" argument must be of type string or an instance of URL');
  if (text.startsWith('/')) return text.slice(1);
  if (!text.startsWith('file:')) throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument must be a file URL object, a file URL string, or an absolute path string. Received ${text}`);
  const { pathname, search, hash } = new URL(text);
  if (search !== '' || hash !== '') throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', 'The specifier must not have query string parameters or hash fragments.');
  const path = decodeURIComponent(pathname).slice(1);
  return path.startsWith('bundle/') ? path.slice(7) : path; // as import.meta.url has it
}

/** `require` as a module at this place has it. @param {any} from */
export const createRequire = (from) => host.requireFrom(pathOf(from));

export const register = missing('module.register'), registerHooks = missing('module.registerHooks'), syncBuiltinESMExports = () => {};
export default { builtinModules, isBuiltin, createRequire, register, registerHooks, syncBuiltinESMExports };
