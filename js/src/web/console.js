/** console: every call is one line group of the Worker's log. */
import { ArrayPrototypeJoin, ArrayPrototypePush, ArrayPrototypeSlice, Error, ObjectAssign, ObjectCreate, ObjectKeys, ReflectOwnKeys, SafeMap, StringPrototypeRepeat, StringPrototypeReplaceAll, SymbolToStringTag, ObjectDefineProperty, visibleStack } from '../primordials.js';
import { natives } from '../natives.js';
import { formatLog, inspect } from './inspect.js';
import { isObject } from './webidl.js';

const ERROR = 0, WARN = 1, INFO = 2, DEBUG = 3;

/** Told of each line before it is made text: the trace of a request (js/src/workers/events.js). @type {(level: number, values: ArrayLike<any>) => void} */
let listener = () => {};
/** @param {typeof listener} to */
export function setConsoleListener(to) {
  listener = to;
}

export function createConsole() {
  let indent = '';
  const counts = new SafeMap(), timers = new SafeMap();
  /** @param {number} level @param {ArrayLike<any>} args */
  const write = (level, args) => {
    listener(level, args);
    const text = formatLog(args);
    natives.log(level, indent === '' ? text : indent + StringPrototypeReplaceAll(text, '\n', `\n${indent}`));
  };
  /** @param {any} label */
  const name = (label) => (label === undefined ? 'default' : `${label}`);

  const console = ObjectAssign(ObjectCreate({}), {
    log: (/** @type {any[]} */ ...args) => write(INFO, args),
    info: (/** @type {any[]} */ ...args) => write(INFO, args),
    debug: (/** @type {any[]} */ ...args) => write(DEBUG, args),
    warn: (/** @type {any[]} */ ...args) => write(WARN, args),
    error: (/** @type {any[]} */ ...args) => write(ERROR, args),
    trace: (/** @type {any[]} */ ...args) => write(DEBUG, [`Trace${args.length > 0 ? ': ' : ''}${formatLog(args)}\n${visibleStack(new Error().stack)}`]),
    dir: (/** @type {any[]} */ ...args) => write(INFO, [inspect(args[0], 4)]),
    dirxml: (/** @type {any[]} */ ...args) => write(INFO, args),
    assert(/** @type {any} */ condition = false, /** @type {any[]} */ ...args) {
      if (condition) return;
      if (typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
      else args = ArrayPrototypeSlice(['Assertion failed', ...args]);
      write(ERROR, args);
    },
    count(/** @type {any} */ label = undefined) {
      const key = name(label), now = (counts.get(key) ?? 0) + 1;
      counts.set(key, now);
      write(INFO, [`${key}: ${now}`]);
    },
    countReset(/** @type {any} */ label = undefined) {
      const key = name(label);
      if (counts.has(key)) counts.set(key, 0);
      else write(WARN, [`Count for '${key}' does not exist`]);
    },
    group(/** @type {any[]} */ ...args) {
      if (args.length > 0) write(INFO, args);
      if (indent.length < 40) indent += '  ';
    },
    groupCollapsed(/** @type {any[]} */ ...args) {
      if (args.length > 0) write(INFO, args);
      if (indent.length < 40) indent += '  ';
    },
    groupEnd() { indent = StringPrototypeRepeat('  ', indent.length / 2 > 1 ? indent.length / 2 - 1 : 0); },
    time(/** @type {any} */ label = undefined) {
      const key = name(label);
      if (timers.has(key)) write(WARN, [`Timer '${key}' already exists`]);
      else timers.set(key, natives.monotonic());
    },
    timeLog(/** @type {any} */ label = undefined, /** @type {any[]} */ ...args) {
      const key = name(label), start = timers.get(key);
      if (start === undefined) write(WARN, [`Timer '${key}' does not exist`]);
      else write(INFO, [`${key}: ${natives.monotonic() - start}ms${args.length > 0 ? ` ${formatLog(args)}` : ''}`]);
    },
    timeEnd(/** @type {any} */ label = undefined) {
      const key = name(label), start = timers.get(key);
      if (start === undefined) write(WARN, [`Timer '${key}' does not exist`]);
      else write(INFO, [`${key}: ${natives.monotonic() - start}ms`]);
      timers.delete(key);
    },
    timeStamp() {},
    profile() {},
    profileEnd() {},
    clear() { indent = ''; },
    table(/** @type {any} */ data = undefined, /** @type {any} */ only = undefined) {
      if (!isObject(data)) { write(INFO, arguments.length === 0 ? [] : [data]); return; }
      write(INFO, [table(data, only)]);
    },
  });
  ObjectDefineProperty(console, SymbolToStringTag, /** @type {any} */ ({ __proto__: null, value: 'console', configurable: true }));
  return console;
}

/** @param {any} data @param {any} only */
function table(data, only) {
  const rows = ObjectKeys(data);
  /** @type {string[]} */ const columns = [];
  let values = false;
  for (let i = 0; i < rows.length; i++) {
    const row = data[rows[i]];
    if (!isObject(row)) { values = true; continue; }
    const keys = only ?? ReflectOwnKeys(row);
    for (let k = 0; k < keys.length; k++) {
      let known = typeof keys[k] !== 'string' || (keys[k] === 'length' && typeof row === 'object' && 'length' in row);
      for (let c = 0; c < columns.length && !known; c++) known = columns[c] === keys[k];
      if (!known) ArrayPrototypePush(columns, keys[k]);
    }
  }
  /** @type {string[][]} */ const cells = [];
  const head = ['(index)'];
  for (let c = 0; c < columns.length; c++) ArrayPrototypePush(head, columns[c]);
  if (values) ArrayPrototypePush(head, 'Values');
  ArrayPrototypePush(cells, head);
  for (let i = 0; i < rows.length; i++) {
    const row = data[rows[i]], line = [rows[i]];
    for (let c = 0; c < columns.length; c++) ArrayPrototypePush(line, isObject(row) && columns[c] in row ? inspect(row[columns[c]], 0) : '');
    if (values) ArrayPrototypePush(line, isObject(row) ? '' : inspect(row, 0));
    ArrayPrototypePush(cells, line);
  }
  /** @type {number[]} */ const widths = [];
  for (let c = 0; c < head.length; c++) {
    let width = 0;
    for (let r = 0; r < cells.length; r++) if (cells[r][c].length > width) width = cells[r][c].length;
    ArrayPrototypePush(widths, width);
  }
  const rule = (/** @type {string} */ left, /** @type {string} */ middle, /** @type {string} */ right) => {
    let text = left;
    for (let c = 0; c < widths.length; c++) text += `${c > 0 ? middle : ''}${StringPrototypeRepeat('─', widths[c] + 2)}`;
    return text + right;
  };
  /** @type {string[]} */ const lines = [rule('┌', '┬', '┐')];
  for (let r = 0; r < cells.length; r++) {
    let text = '│';
    for (let c = 0; c < widths.length; c++) text += ` ${cells[r][c]}${StringPrototypeRepeat(' ', widths[c] - cells[r][c].length)} │`;
    ArrayPrototypePush(lines, text);
    if (r === 0) ArrayPrototypePush(lines, rule('├', '┼', '┤'));
  }
  ArrayPrototypePush(lines, rule('└', '┴', '┘'));
  return ArrayPrototypeJoin(lines, '\n');
}
