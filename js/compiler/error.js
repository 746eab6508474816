/** What the author of a module did wrong: `name:line:column: message`. */
export class CompileError extends Error {
  /**
   * @param {string} module its name
   * @param {number} line from 1
   * @param {number} column from 1
   * @param {string} message one sentence
   */
  constructor(module, line, column, message) {
    super(`${module}:${line}:${column}: ${message}`);
    this.name = "CompileError";
  }
}

/** A fault at a place that is known as an offset only; `compile` makes a CompileError of it. */
export class SourceError extends Error {
  /** @param {number} position offset into the source @param {string} message */
  constructor(position, message) {
    super(message);
    this.position = position;
  }
}

/**
 * Line and column (both from 1) of an offset. Lines end where JavaScript says so.
 * @param {string} source @param {number} position
 */
export function locate(source, position) {
  let line = 1, start = 0;
  for (const match of source.slice(0, position).matchAll(/\r\n|[\n\r\u2028\u2029]/g)) {
    line += 1;
    start = match.index + match[0].length;
  }
  return { line, column: position - start + 1 };
}
