/** A few lines of test harness that run in any engine: collects tests, runs them one after the other, prints TAP. */

/** @type {[string, () => any][]} */
const tests = [];

/** @param {string} name @param {() => any} run may be async; throws when it fails */
export function test(name, run) {
  tests.push([name, run]);
}

/** @param {any} value @returns {string} */
export function show(value) {
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "symbol" || typeof value === "bigint" || value === undefined) return String(value);
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  return JSON.stringify(value, (_key, inner) => (inner === undefined ? "undefined" : typeof inner === "bigint" ? `${inner}n` : inner));
}

/** @param {any} got @param {any} wanted @param {string} [what] */
export function same(got, wanted, what = "value") {
  if (show(got) !== show(wanted)) throw new Error(`${what}: wanted ${show(wanted)}, got ${show(got)}`);
}

/** @param {() => any} run @param {string} name of the error @param {string | RegExp} message */
export function throws(run, name, message) {
  let error;
  try {
    run();
  } catch (e) {
    error = /** @type {any} */ (e);
  }
  if (error === undefined) throw new Error(`wanted ${name}, nothing was thrown`);
  if (error.name !== name) throw new Error(`wanted ${name}, got ${show(error)}`);
  if (typeof message === "string" ? error.message !== message : !message.test(error.message))
    throw new Error(`wanted the message ${message}, got ${error.message}`);
}

/** @param {(line: string) => void} print @returns {Promise<boolean>} */
export async function run(print) {
  print(`1..${tests.length}`);
  let failed = 0;
  for (let i = 0; i < tests.length; i++) {
    const [name, body] = tests[i];
    try {
      await body();
      print(`ok ${i + 1} - ${name}`);
    } catch (e) {
      failed += 1;
      const text = e instanceof Error ? `${e}\n${e.stack}` : String(e);
      print(text.split("\n").map((line) => `# ${line}`).join("\n"));
      print(`not ok ${i + 1} - ${name}`);
    }
  }
  return failed === 0;
}
