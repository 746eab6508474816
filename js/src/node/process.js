/** node:process: what there is of a process in a Worker, and nothing more. */
import EventEmitter from './events.js';
import { bindContext } from './async_context.js';
import { host, missing, nodeError } from './host.js';

const { natives } = host;
const { monotonic, memory } = natives;
const process = new (/** @type {any} */ (EventEmitter))();

/** Values are text, as in the environment of a process. */
const env = new Proxy(Object.assign({}, host.env()), {
  set: (target, name, value) => Reflect.set(target, name, typeof name === 'symbol' ? value : `${value}`),
  defineProperty: (target, name, descriptor) => Reflect.defineProperty(target, name, 'value' in descriptor ? { ...descriptor, value: `${descriptor.value}` } : descriptor),
});

/** @param {[number, number]} [since] @returns {[number, number]} */
function hrtime(since) {
  const ms = monotonic();
  let seconds = Math.floor(ms / 1000), nanos = (ms % 1000) * 1000000;
  if (since !== undefined) {
    seconds -= since[0];
    nanos -= since[1];
    if (nanos < 0) {
      seconds--;
      nanos += 1000000000;
    }
  }
  return [seconds, nanos];
}
hrtime.bigint = () => BigInt(monotonic()) * 1000000n;

/** @param {any} warning @param {any} [options] */
function emitWarning(warning, options) {
  const type = warning instanceof Error ? warning.name : typeof options === 'string' ? options : options?.type ?? 'Warning';
  console.warn(`${type}: ${warning instanceof Error ? warning.message : warning}`);
}

const queue = globalThis.queueMicrotask;
Object.assign(process, {
  title: 'cloister',
  version: 'v22.19.0',
  versions: { node: '22.19.0' },
  release: { name: 'node' },
  platform: 'linux',
  arch: 'x64',
  pid: 1,
  ppid: 0,
  argv: ['cloister'],
  argv0: 'cloister',
  execArgv: [],
  execPath: '',
  exitCode: undefined,
  features: { inspector: false, debug: false, uv: false, ipv6: true, tls: true },
  config: { target_defaults: {}, variables: {} },
  env,
  hrtime,
  emitWarning,
  /** @param {any} callback @param {any[]} args */
  nextTick(callback, ...args) {
    if (typeof callback !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function');
    queue(bindContext(() => callback(...args)));
  },
  cwd: () => '/',
  uptime: () => monotonic() / 1000,
  memoryUsage: () => {
    const { heapBytes } = memory();
    return { rss: heapBytes, heapTotal: heapBytes, heapUsed: heapBytes, external: 0, arrayBuffers: 0 };
  },
  getuid: () => 0, geteuid: () => 0, getgid: () => 0, getegid: () => 0, getgroups: () => [0],
  umask: () => 0o22,
  getBuiltinModule: (/** @type {string} */ name) => {
    try {
      return host.module(name);
    } catch {
      return undefined;
    }
  },
});
for (const name of ['abort', 'binding', 'chdir', 'cpuUsage', 'dlopen', 'exit', 'kill', 'reallyExit', 'resourceUsage', 'setegid', 'seteuid', 'setgid', 'setuid', 'setUncaughtExceptionCaptureCallback']) {
  process[name] = missing(`process.${name}`);
}

export const { version, versions, platform, arch, pid, argv, nextTick, cwd, uptime, memoryUsage, exit, release, title, getBuiltinModule } = process;
export { env, hrtime, emitWarning };
/** @param {any[]} args */ export const on = (...args) => process.on(...args);
/** @param {any[]} args */ export const once = (...args) => process.once(...args);
/** @param {any[]} args */ export const off = (...args) => process.off(...args);
/** @param {any[]} args */ export const emit = (...args) => process.emit(...args);
export default process;
