/**
 * From what an import says to the name of a module. Only what was handed in exists: no URL is fetched, no file is looked for, and
 * nothing is guessed (no extensions, no index files).
 */
import { ArrayPrototypeJoin, Error, StringPrototypeLastIndexOf, StringPrototypeSlice, StringPrototypeSplit, StringPrototypeStartsWith } from '../primordials.js';
import { newList } from './list.js';

/** @param {string} specifier @param {string} importer "" for the daemon */
export function noSuchModule(specifier, importer) {
  return new Error(importer === '' ? `No such module "${specifier}".` : `No such module "${specifier}". imported from "${importer}"`);
}

/** Whether the runtime itself answers for the name, so that no module may take it. @param {string} specifier */
export const isBuiltin = (specifier) =>
  StringPrototypeStartsWith(specifier, 'node:') || StringPrototypeStartsWith(specifier, 'cloudflare:') || StringPrototypeStartsWith(specifier, 'workerd:');

/** @param {string} name @returns {string} with its slash, or "" */
export const directoryOf = (name) => StringPrototypeSlice(name, 0, StringPrototypeLastIndexOf(name, '/') + 1);

/**
 * A path without `.` and `..`. @param {string} path @returns {string | null} null: it leads outside
 */
function normalize(path) {
  const parts = StringPrototypeSplit(path, '/');
  const kept = newList();
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i];
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (kept.length === 0) return null;
      kept.length -= 1;
    } else {
      kept[kept.length] = part;
    }
  }
  return ArrayPrototypeJoin(kept, '/');
}

/**
 * The names under which a module may be found, best first.
 * @param {string} specifier @param {string} importer name of the importing module @returns {string[]}
 */
export function candidates(specifier, importer) {
  const found = newList();
  if (StringPrototypeStartsWith(specifier, './') || StringPrototypeStartsWith(specifier, '../')) {
    const path = normalize(directoryOf(importer) + specifier);
    if (path !== null) {
      found[0] = path;
      // Names may be given as "./a.js" too.
      found[1] = `./${path}`;
    }
    return found;
  }
  found[0] = specifier;
  if (StringPrototypeStartsWith(specifier, '/')) {
    const path = normalize(specifier);
    if (path !== null) found[1] = path;
  } else if (directoryOf(importer) !== '') {
    const path = normalize(directoryOf(importer) + specifier);
    if (path !== null) found[1] = path;
  }
  return found;
}
