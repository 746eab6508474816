/** Acorn, and what a script would read differently. UNTRUSTED INPUT: `source` is anybody's text. */
import { parse } from "acorn";
import { SourceError } from "./error.js";

/**
 * @param {string} source
 * @param {"module" | "commonjs"} sourceType
 * @param {import("./edits.js").Edits} edits gets the changes that keep tokens what they are
 * @returns {any} the Program
 */
export function parseModule(source, sourceType, edits) {
  /** @type {((token: any) => void) | undefined} */
  let onToken;
  // In a module `a<!--b` compares; in a script, which is what comes out, it starts a comment.
  if (sourceType === "module" && source.includes("<!--"))
    onToken = ({ start, end }) => {
      if (end === start + 1 && source.startsWith("<!--", start)) edits.after(end, " ");
    };
  let program;
  try {
    program = parse(source, { ecmaVersion: "latest", sourceType, allowHashBang: true, onToken });
  } catch (error) {
    const at = /** @type {any} */ (error);
    if (!(error instanceof SyntaxError) || typeof at.pos !== "number") throw error;
    if (at.message.startsWith("Not enough stack")) throw new SourceError(at.pos, "the source is nested too deeply");
    throw new SourceError(at.pos, at.message.replace(/ \(\d+:\d+\)$/, ""));
  }
  if (source.startsWith("#!")) edits.replace(0, 2, "//");
  return program;
}
