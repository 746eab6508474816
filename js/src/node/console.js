const found = /** @type {any} */ (globalThis).console;
export const { assert, clear, count, countReset, debug, dir, dirxml, error, group, groupCollapsed, groupEnd, info, log, table, time, timeEnd, timeLog, trace, warn } = found;
export default found;
