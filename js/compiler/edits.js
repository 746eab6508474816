/**
 * A text and what is to be changed in it. Changes are collected in any order and applied at once, so positions always mean
 * the original text.
 */

const AFTER = 0; // closes what ended here
const OUTERMOST = 1;
const FIRST = 2; // opens what starts here, before anything else does
const BEFORE = 3;
const REPLACE = 4;

/** @typedef {{at: number, end: number, text: string, rank: number, order: number}} Edit */

export class Edits {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
    /** @type {Edit[]} */
    this.list = [];
  }

  /** @param {number} at @param {number} end @param {string} text @param {number} rank */
  #add(at, end, text, rank) {
    this.list.push({ at, end, text, rank, order: this.list.length });
  }

  /** Puts text in front of what starts at `at`; of several, the first one given is outermost. @param {number} at @param {string} text */
  before(at, text) {
    this.#add(at, at, text, BEFORE);
  }

  /** The same, in front of every `before` of that place. @param {number} at @param {string} text */
  first(at, text) {
    this.#add(at, at, text, FIRST);
  }

  /** The same, in front of every `first` of that place. @param {number} at @param {string} text */
  outermost(at, text) {
    this.#add(at, at, text, OUTERMOST);
  }

  /** Puts text behind what ends at `at`; of several, the first one given is innermost. @param {number} at @param {string} text */
  after(at, text) {
    this.#add(at, at, text, AFTER);
  }

  /** @param {number} start @param {number} end @param {string} text */
  replace(start, end, text) {
    this.#add(start, end, text, REPLACE);
  }

  /** Replaces, and keeps the line breaks behind the new text. @param {number} start @param {number} end @param {string} text */
  replaceLines(start, end, text) {
    const breaks = this.source.slice(start, end).match(/\r\n|[\n\r\u2028\u2029]/g);
    this.replace(start, end, breaks === null ? text : text + breaks.join(""));
  }

  /** @returns {string} */
  apply() {
    const list = this.list.sort((a, b) => a.at - b.at || a.rank - b.rank || a.order - b.order);
    const pieces = [];
    let at = 0;
    for (const edit of list) {
      if (edit.at < at) throw new Error(`overlapping edits at ${edit.at}`);
      pieces.push(this.source.slice(at, edit.at), edit.text);
      at = edit.end;
    }
    pieces.push(this.source.slice(at));
    return pieces.join("");
  }
}
