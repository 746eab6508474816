// Boot: what the bundle's function does (js/natives.d.ts).

/** @param {Natives} natives @returns {Partial<Dispatch>} */
export default function boot(natives) {
  return {
    start() {},
  };
}
