// Tests in JavaScript, run in `cloister-worker --shell testing.js FILE`: TAP, one line a test, one after the other.
(() => {
  const tests = [];
  globalThis.test = (name, run) => { tests.push([name, run]); };
  globalThis.hex = (bytes) => (bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)).toHex();
  globalThis.unhex = (text) => Uint8Array.fromHex(text.replace(/\s/g, ""));
  globalThis.bytes = (text) => new TextEncoder().encode(text);
  const show = (value) => {
    try {
      return typeof value === "string" ? value : JSON.stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  globalThis.equal = (actual, expected, what = "value") => {
    if (!Object.is(actual, expected) && show(actual) !== show(expected)) throw new Error(`${what}: ${show(actual)} instead of ${show(expected)}`);
  };
  // What `run` throws, or its promise rejects with, as "Name: message".
  globalThis.refused = async (run, expected) => {
    let value;
    try {
      value = await run();
    } catch (error) {
      equal(`${error.name}: ${error.message}`, expected, "error");
      return;
    }
    throw new Error(`no error, but ${show(value)}; expected ${expected}`);
  };
  setTimeout(async () => {
    let failed = 0;
    for (const [i, [name, run]] of tests.entries()) {
      let fault = null;
      let timer;
      const limit = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("it does not end")), 60000); });
      try {
        await Promise.race([run(), limit]);
      } catch (error) {
        fault = error;
        failed++;
      }
      clearTimeout(timer);
      __shell.print(`${fault ? "not ok" : "ok"} ${i + 1} - ${name}`);
      if (fault) __shell.print(`# ${String(fault)}\n# ${String(fault.stack).replaceAll("\n", "\n# ")}`);
    }
    __shell.print(`1..${tests.length}`);
    __shell.exit(failed || tests.length === 0 ? 1 : 0);
  }, 0);
})();
