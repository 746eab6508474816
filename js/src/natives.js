/**
 * The C side's functions (js/natives.d.ts), for modules that would otherwise have to be handed them one by one. main.js sets them
 * before anything else happens; nothing may use them while modules are being evaluated. Guest code reaches neither this module nor
 * the object.
 * @type {any}
 */
export let natives = null;

/** @param {any} value */
export function setNatives(value) {
  natives = value;
}
