/** Lists that no change of Array.prototype reaches: index and length only. */
import { ObjectSetPrototypeOf } from '../primordials.js';

/** @returns {any[]} */
export const newList = () => ObjectSetPrototypeOf([], null);

/** @template T @param {T[]} list @param {T} value @returns {boolean} */
export function includes(list, value) {
  for (let i = 0; i < list.length; i++) if (list[i] === value) return true;
  return false;
}
