/**
 * ctx.container: the container of a Durable Object. start() returns at once; what comes after it waits for it. Whether the container runs is
 * known here without asking: from the answer of `object`, from start(), and from the answer to `monitor`, which comes when it ends.
 */
import {
  ArrayPrototypePush, Error, Number, ObjectKeys, RangeError, String, StringPrototypeIncludes, StringPrototypeStartsWith, SymbolToStringTag,
  MathFloor, TypeError, define, iterate, nullObject, promiseIgnore, promiseReject, promiseResolve, promiseThen, ObjectDefineProperty,
  ObjectFreeze, StringPrototypeCharCodeAt,
} from '../primordials.js';
import { call, callSync, streamReset } from '../link.js';
import { natives } from '../natives.js';
import { isReadableStream, pipeTo } from '../web/streams.js';
import { OutputSource, checkedSignal, dimension, inputStream, newProcess } from './container_process.js';

const TOKEN = nullObject();
const MAX_REFERENCE = 4096, MAX_LABELS = 10, MAX_LABEL_NAME = 16, MAX_LABEL_VALUE = 64;

/** @param {string} name @returns {never} */
function notYet(name) {
  throw new Error(`container.${name} is not implemented yet: it arrives with the containers' network.`);
}

/** @param {any} value @param {string} what @returns {any} */
function objectOf(value, what) {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') throw new TypeError(`${what} must be an object.`);
  return value;
}

/** @param {any} value @param {string} what @returns {string} */
function textOf(value, what) {
  const text = String(value);
  if (StringPrototypeIncludes(text, '\0')) throw new TypeError(`${what} cannot contain '\\0'.`);
  return text;
}

/** @param {any} env @returns {any} a map */
function environmentOf(env) {
  const map = nullObject();
  const names = ObjectKeys(objectOf(env, 'env'));
  for (let i = 0; i < names.length; i++) {
    const name = names[i], value = String(env[name]);
    if (StringPrototypeIncludes(name, '=')) throw new Error(`Environment variable names cannot contain '=': ${name}`);
    if (StringPrototypeIncludes(name, '\0')) throw new Error(`Environment variable names cannot contain '\\0': ${name}`);
    if (StringPrototypeIncludes(value, '\0')) throw new Error(`Environment variable values cannot contain '\\0': ${name}`);
    map[name] = value;
  }
  return map;
}

/** @param {any} list @param {string} what @returns {string[]} */
function textsOf(list, what) {
  const texts = /** @type {string[]} */ ([]);
  iterate(objectOf(list, what), (item) => { ArrayPrototypePush(texts, textOf(item, what)); });
  return texts;
}

/** @param {string} text */
const utf8Size = (text) => natives.utf8Encode(text).byteLength;

/** @param {any} labels */
function labelsOf(labels) {
  const names = ObjectKeys(objectOf(labels, 'labels')), result = nullObject();
  if (names.length > MAX_LABELS) throw new Error(`Cannot specify more than ${MAX_LABELS} container labels`);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], value = String(labels[name]);
    if (name === '') throw new Error('Label names cannot be empty');
    if (utf8Size(name) > MAX_LABEL_NAME) throw new Error(`Label names cannot exceed ${MAX_LABEL_NAME} bytes (index ${i})`);
    if (utf8Size(value) > MAX_LABEL_VALUE) throw new Error(`Label values cannot exceed ${MAX_LABEL_VALUE} bytes (index ${i})`);
    if (hasControl(name)) throw new Error(`Label names cannot contain control characters (index ${i})`);
    if (hasControl(value)) throw new Error(`Label values cannot contain control characters (index ${i})`);
    result[name] = value;
  }
  return result;
}

/** @param {string} text */
function hasControl(text) {
  for (let i = 0; i < text.length; i++) if (StringPrototypeCharCodeAt(text, i) < 32 || StringPrototypeCharCodeAt(text, i) === 127) return true;
  return false;
}

/** @param {any} instance */
function instanceOf(instance) {
  if (typeof instance === 'string') return instance;
  const { vcpu, memoryMib, diskMb } = objectOf(instance, 'instance');
  const cpus = Number(vcpu);
  if (!(cpus > 0 && cpus < 1e6)) throw new RangeError('Container resource vcpu must be a finite number greater than 0.');
  return { __proto__: null, vcpu: cpus, memoryMib: amount(memoryMib, 'memoryMib'), diskMb: amount(diskMb, 'diskMb') };
}

/** @param {any} value @param {string} name */
function amount(value, name) {
  const number = Number(value);
  if (!(number > 0 && number <= 9007199254740991)) throw new RangeError(`Container resource ${name} must be a finite number greater than 0.`);
  if (number % 1 !== 0) throw new RangeError(`Container resource ${name} must be an integer.`);
  return number;
}

/** @param {any} value milliseconds, number or bigint @param {string} what @param {any} Kind */
function duration(value, what, Kind) {
  const ms = typeof value === 'bigint' ? Number(value) : +value;
  if (!(ms > 0 && ms <= 9007199254740991)) throw new Kind(`${what} must be greater than 0.`);
  return ms - (ms % 1) || 1;
}

/** @param {any} list */
function mountsOf(list) {
  const mounts = /** @type {any[]} */ ([]);
  iterate(objectOf(list, 'directorySnapshots'), (item) => {
    const { snapshot, mountPoint } = objectOf(item, 'A directory snapshot');
    const dir = mountPoint !== undefined ? mountPoint : snapshot?.dir;
    if (dir === undefined) throw new Error('Directory snapshot restore requires a mountPoint when no snapshot is given.');
    const target = textOf(dir, 'mountPoint');
    if (!StringPrototypeStartsWith(target, '/')) throw new TypeError(`Directory snapshot restore path must be absolute. Got: ${target}`);
    if (target === '/') throw new Error('Directory snapshot cannot be restored to root directory.');
    if (snapshot === undefined || snapshot === null) throw new Error('directorySnapshots without a snapshot (an empty directory) are not implemented.');
    ArrayPrototypePush(mounts, { __proto__: null, snapshot: textOf(snapshot.id, 'id'), target });
  });
  return mounts;
}

/** @param {any} options of start() @returns {any} arguments of `start` */
function startArguments(options) {
  const args = nullObject();
  if (options === undefined || options === null) {
    args.enableInternet = false;
    return args;
  }
  const { image, entrypoint, env, enableInternet, labels, hardTimeout, instance, containerSnapshot, directorySnapshots } = objectOf(options, 'The options of start()');
  args.enableInternet = !!enableInternet;
  if (args.enableInternet) throw new Error('container.start(): enableInternet: true is not implemented yet: containers have no network so far. Leave it out, or set it to false.');
  if (image !== undefined && containerSnapshot !== undefined) throw new TypeError('`image` and `containerSnapshot` are mutually exclusive.');
  if (image !== undefined) {
    args.image = String(image);
    if (args.image.length > MAX_REFERENCE) throw new TypeError(`Container image reference cannot exceed ${MAX_REFERENCE} bytes.`);
    for (let i = 0; i < args.image.length; i++) {
      const unit = StringPrototypeCharCodeAt(args.image, i);
      if (unit <= 32 || unit >= 127) throw new TypeError('Container image reference must contain only non-space printable ASCII characters.');
    }
  }
  if (containerSnapshot !== undefined) args.snapshot = textOf(objectOf(containerSnapshot, 'containerSnapshot').id, 'id');
  if (directorySnapshots !== undefined) args.mounts = mountsOf(directorySnapshots);
  if (entrypoint !== undefined) args.entrypoint = textsOf(entrypoint, 'entrypoint');
  if (env !== undefined) args.env = environmentOf(env);
  if (labels !== undefined) args.labels = labelsOf(labels);
  if (hardTimeout !== undefined) args.hardTimeout = duration(hardTimeout, 'Hard timeout', RangeError);
  if (instance !== undefined) args.instance = instanceOf(instance);
  return args;
}

/** @param {any} mode @param {string} kind @param {boolean} combined */
function outputMode(mode, kind, combined) {
  const text = mode === undefined ? 'pipe' : String(mode);
  if (text !== 'pipe' && text !== 'ignore' && !(combined && text === 'combined')) throw new TypeError(`Invalid ${kind} option: ${text}`);
  return text;
}

/** @param {any} pty @returns {any} null: none */
function ptyOf(pty) {
  if (pty === undefined || pty === false) return null;
  const size = nullObject();
  size.cols = 80;
  size.rows = 24;
  if (pty === true) return size;
  const { cols, rows } = objectOf(pty, 'pty');
  if (cols !== undefined) size.cols = dimension(cols, 'cols');
  if (rows !== undefined) size.rows = dimension(rows, 'rows');
  return size;
}

/** @param {any} cmd @param {any} options @returns {any} what exec() was asked for, checked */
function execPlan(cmd, options) {
  const argv = textsOf(cmd, 'cmd');
  if (argv.length === 0) throw new TypeError('exec() requires a non-empty command array.');
  const { stdin, stdout, stderr, cwd, env, user, signal, pty } = options === undefined || options === null ? nullObject() : objectOf(options, 'The options of exec()');
  const args = nullObject();
  args.cmd = argv;
  const size = ptyOf(pty);
  if (size !== null) args.pty = size;
  let input = stdin;
  if (size !== null && input === undefined) input = 'pipe';
  if (input !== undefined && input !== 'pipe' && !isReadableStream(input)) throw new TypeError('Invalid stdin option: expected a ReadableStream or "pipe".');
  const out = outputMode(stdout, 'stdout', false), err = size !== null && stderr === undefined ? 'combined' : outputMode(stderr, 'stderr', true);
  if (size !== null && err !== 'combined') throw new TypeError('stderr must be "combined" when PTY is enabled.');
  if (size !== null && out !== 'pipe') throw new TypeError('stdout must be "pipe" when PTY is enabled.');
  if (err === 'combined' && out === 'ignore') throw new TypeError('stderr: "combined" requires stdout: "pipe".');
  args.combined = err === 'combined';
  if (cwd !== undefined) args.cwd = textOf(cwd, 'cwd');
  if (user !== undefined) args.user = textOf(user, 'user');
  if (env !== undefined) args.env = environmentOf(env);
  return { __proto__: null, args, input, out, err, signal, isPty: size !== null };
}

/** The daemon's error as the program shall see it. @param {any} error @returns {never} */
function rethrow(error) {
  throw error.code === 'INVALID_ARGUMENT' ? new TypeError(error.message) : new Error(error.message);
}

export class Container {
  #capability; #images; #running;
  /** Settled when the start is done, or has failed. @type {Promise<any>} */ #started = promiseResolve();
  /** @type {Promise<any>|null} */ #monitor = null;
  /** Which run it is: what comes late from one before changes nothing. */
  #run = 0;
  /** @type {any} */ #destroyReason = undefined;

  /** @param {any} token @param {number} capability @param {any} images name to reference @param {boolean} running */
  constructor(token, capability, images, running) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#capability = capability;
    this.#images = images;
    this.#running = running;
    if (running) this.#watch();
  }

  get running() { return this.#running; }
  get images() { return this.#images; }

  /** @param {any} [options] */
  start(options) {
    if (this.#running) throw new Error('start() cannot be called on a container that is already running.');
    const args = startArguments(options);
    this.#running = true;
    this.#destroyReason = undefined;
    const run = ++this.#run;
    this.#started = call(this.#capability, 'start', args);
    promiseThen(this.#started, () => undefined, () => { if (this.#run === run) this.#running = false; });
    this.#watch();
  }

  /** The answer to `monitor` comes when the run ends. */
  #watch() {
    const run = this.#run;
    const monitor = promiseThen(this.#started, () => call(this.#capability, 'monitor'));
    this.#monitor = monitor;
    const ended = () => { if (this.#run === run) this.#running = false; };
    promiseThen(monitor, ended, ended);
  }

  /** @param {string} name @param {string} method @param {any} args @returns {Promise<any>} */
  #ask(name, method, args) {
    if (!this.#running) return promiseReject(new Error(`${name}() cannot be called on a container that is not running.`));
    return promiseThen(this.#started, () => promiseThen(call(this.#capability, method, args), undefined, rethrow), rethrow);
  }

  /** @returns {Promise<void>} */
  monitor() {
    const monitor = this.#monitor;
    if (monitor === null) return promiseReject(new Error('monitor() cannot be called on a container that is not running.'));
    return promiseThen(monitor, (end) => {
      if (this.#destroyReason !== undefined) throw this.#destroyReason;
      const code = end.code;
      if (code === 0) return undefined;
      const error = new Error(`Container exited with unexpected exit code: ${code}`);
      define(error, 'exitCode', code);
      throw error;
    }, (error) => {
      if (this.#destroyReason !== undefined) throw this.#destroyReason;
      rethrow(error);
    });
  }

  /** @param {string[]} cmd @param {any} [options] @returns {Promise<any>} */
  async exec(cmd, options) {
    if (!this.#running) throw new Error('exec() cannot be called on a container that is not running.');
    const plan = execPlan(cmd, options);
    const { args, signal } = plan;
    if (signal !== undefined) signal.throwIfAborted();
    try {
      await this.#started;
    } catch (error) {
      rethrow(error);
    }
    const out = plan.out === 'pipe' ? new OutputSource() : null;
    const err = plan.err === 'pipe' ? new OutputSource() : null;
    const input = plan.input === undefined ? null : inputStream();
    if (out !== null) args.stdout = out.id;
    if (err !== null) args.stderr = err.id;
    if (input !== null) args.stdin = input.id;
    let answer;
    try {
      answer = await call(this.#capability, 'exec', args);
    } catch (error) {
      out?.cancel();
      err?.cancel();
      if (input !== null) streamReset(input.id, 'not started');
      rethrow(error);
    }
    const process = newProcess(answer, { stdin: plan.input === 'pipe' ? /** @type {any} */ (input).stream : null, out, err, isPty: plan.isPty });
    if (input !== null && plan.input !== 'pipe') promiseIgnore(pipeTo(plan.input, input.stream));
    if (signal !== undefined) {
      const kill = () => process.kill(9);
      if (signal.aborted) kill();
      else signal.addEventListener('abort', kill, { __proto__: null, once: true });
    }
    return process;
  }

  /** @param {any} [error] */
  destroy(error) {
    if (!this.#running) return promiseResolve();
    if (error !== undefined) this.#destroyReason = error;
    const monitor = /** @type {Promise<any>} */ (this.#monitor);
    promiseIgnore(call(this.#capability, 'destroy', { __proto__: null, reason: error === undefined ? 'destroy()' : String(error?.message ?? error) }));
    const ended = () => undefined;
    return promiseThen(monitor, ended, ended);
  }

  /** @param {number} signal */
  signal(signal) {
    const number = checkedSignal(signal);
    if (!this.#running) throw new Error('signal() cannot be called on a container that is not running.');
    promiseIgnore(this.#ask('signal', 'signal', { __proto__: null, signal: number }));
  }

  /** @param {number|bigint} durationMs */
  setInactivityTimeout(durationMs) {
    try {
      const ms = duration(durationMs, 'setInactivityTimeout(): durationMs', TypeError);
      return promiseThen(this.#ask('setInactivityTimeout', 'setInactivityTimeout', { __proto__: null, ms }), () => undefined);
    } catch (error) {
      return promiseReject(error);
    }
  }

  /** @param {any} labels */
  setLabels(labels) {
    try {
      return promiseThen(this.#ask('setLabels', 'setLabels', { __proto__: null, labels: labelsOf(labels) }), () => undefined);
    } catch (error) {
      return promiseReject(error);
    }
  }

  /** @returns {Promise<{labels: Record<string, string>, image: string}|null>} */
  inspect() {
    if (!this.#running) return promiseResolve(null);
    return promiseThen(this.#ask('inspect', 'inspect', nullObject()), plainCopy);
  }

  /** @param {any} [options] */
  snapshotContainer(options = {}) {
    try {
      const { name } = objectOf(options, 'The options of snapshotContainer()');
      return promiseThen(this.#ask('snapshotContainer', 'snapshot', { __proto__: null, name: name === undefined ? undefined : textOf(name, 'name') }), plainCopy);
    } catch (error) {
      return promiseReject(error);
    }
  }

  /** @param {any} options */
  snapshotDirectory(options) {
    try {
      const { dir, name } = objectOf(options, 'The options of snapshotDirectory()');
      const path = textOf(dir, 'dir');
      if (!StringPrototypeStartsWith(path, '/')) throw new TypeError("snapshotDirectory() requires an absolute directory path (starting with '/').");
      return promiseThen(this.#ask('snapshotDirectory', 'snapshotDirectory', { __proto__: null, dir: path, name: name === undefined ? undefined : textOf(name, 'name') }), plainCopy);
    } catch (error) {
      return promiseReject(error);
    }
  }

  /** A port of the container, which cannot be reached yet: to whoever tries, it does not listen. @param {number} port */
  getTcpPort(port) {
    if (typeof port !== 'number' || !(port >= 1 && port <= 65535) || MathFloor(port) !== port) throw new TypeError('getTcpPort() takes a port: 1 to 65535.');
    // @cloudflare/containers starts a container whose port answers so, when nothing of it is needed.
    const error = () => new Error(`container.getTcpPort(${port}): the container is not listening: ports are reached by the containers' network, which is not implemented yet.`);
    return {
      fetch() { return promiseReject(error()); },
      connect() { throw error(); },
    };
  }
  /** @param {string} addr @param {any} binding @returns {Promise<void>} */
  async interceptOutboundHttp(addr, binding) { notYet('interceptOutboundHttp()'); }
  /** @param {any} binding @returns {Promise<void>} */
  async interceptAllOutboundHttp(binding) { notYet('interceptAllOutboundHttp()'); }
  /** @param {string} addr @param {any} binding @returns {Promise<void>} */
  async interceptOutboundHttps(addr, binding) { notYet('interceptOutboundHttps()'); }
  /** @param {string} addr @param {any} binding @returns {Promise<void>} */
  async interceptOutboundTcp(addr, binding) { notYet('interceptOutboundTcp()'); }
}
define(Container.prototype, SymbolToStringTag, 'Container');

/** A map of the link as an object of the program. @param {any} value @returns {any} */
function plainCopy(value) {
  if (typeof value !== 'object' || value === null) return value;
  const copy = {};
  const names = ObjectKeys(value);
  for (let i = 0; i < names.length; i++) {
    ObjectDefineProperty(copy, names[i], /** @type {any} */ ({ __proto__: null, value: plainCopy(value[names[i]]), writable: true, enumerable: true, configurable: true }));
  }
  return copy;
}

/** @param {number} capability @param {any} images name to reference, or null @returns {Container} */
export function newContainer(capability, images) {
  const { running } = callSync(capability, 'state');
  return new Container(TOKEN, capability, ObjectFreeze(plainCopy(images ?? nullObject())), running);
}
