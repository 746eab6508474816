// The compile service's boot.

/** @param {Natives} natives @returns {Partial<Dispatch>} */
export default function boot(natives) {
  return {
    start() {},
    call(call, method) {
      natives.throw(call, "ERROR_UNSUPPORTED", `the compiler cannot ${method} yet`);
    },
  };
}
