/** MIME types by the MIME Sniffing standard: parsing, writing, and the extraction from a Content-Type header. */
import {
  ArrayPrototypePush, RegExpPrototypeExec, SafeMap, StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeToLowerCase,
} from '../primordials.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const QUOTABLE = /^[\t\x20-\x7e\x80-\xff]*$/;
const TRIM = /^[\t\n\r ]*([^]*?)[\t\n\r ]*$/;
const TRIM_END = /^([^]*?)[\t\n\r ]*$/;
/** @param {string} text */
const trim = (text) => /** @type {any} */ (RegExpPrototypeExec(TRIM, text))[1];

/**
 * @param {string} text @returns {{essence: string, parameters: Map<string, string>}|null} null: it is none
 */
export function parseMime(text) {
  text = trim(text);
  const slash = StringPrototypeIndexOf(text, '/');
  if (slash < 0) return null;
  const type = StringPrototypeSlice(text, 0, slash);
  let at = StringPrototypeIndexOf(text, ';', slash);
  if (at < 0) at = text.length;
  const subtype = /** @type {any} */ (RegExpPrototypeExec(TRIM_END, StringPrototypeSlice(text, slash + 1, at)))[1];
  if (RegExpPrototypeExec(TOKEN, type) === null || RegExpPrototypeExec(TOKEN, subtype) === null) return null;
  /** @type {Map<string, string>} */ const parameters = new SafeMap();
  while (at < text.length) {
    at++; // the semicolon
    while (at < text.length && (text[at] === ' ' || text[at] === '\t' || text[at] === '\n' || text[at] === '\r')) at++;
    let end = at;
    while (end < text.length && text[end] !== ';' && text[end] !== '=') end++;
    const name = StringPrototypeToLowerCase(StringPrototypeSlice(text, at, end));
    at = end;
    if (at >= text.length) break;
    if (text[at] === ';') continue;
    at++; // the equals sign
    let value = '';
    if (text[at] === '"') {
      at++;
      while (at < text.length && text[at] !== '"') {
        if (text[at] === '\\' && at + 1 < text.length) at++;
        value += text[at++];
      }
      while (at < text.length && text[at] !== ';') at++;
    } else {
      end = StringPrototypeIndexOf(text, ';', at);
      if (end < 0) end = text.length;
      value = /** @type {any} */ (RegExpPrototypeExec(TRIM_END, StringPrototypeSlice(text, at, end)))[1];
      at = end;
      if (value === '') continue;
    }
    if (RegExpPrototypeExec(TOKEN, name) !== null && RegExpPrototypeExec(QUOTABLE, value) !== null && !parameters.has(name)) parameters.set(name, value);
  }
  return { essence: StringPrototypeToLowerCase(`${type}/${subtype}`), parameters };
}

/** @param {{essence: string, parameters: Map<string, string>}} mime @returns {string} */
export function serializeMime(mime) {
  let text = mime.essence;
  mime.parameters.forEach((value, name) => {
    text += `;${name}=`;
    if (value !== '' && RegExpPrototypeExec(TOKEN, value) !== null) { text += value; return; }
    text += '"';
    for (let i = 0; i < value.length; i++) text += value[i] === '"' || value[i] === '\\' ? `\\${value[i]}` : value[i];
    text += '"';
  });
  return text;
}

/** Splits a combined header at its commas, not those within quotes. @param {string} text */
function splitValues(text) {
  /** @type {string[]} */ const parts = [];
  let start = 0, quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted && c === '\\') i++;
    else if (c === '"') quoted = !quoted;
    else if (c === ',' && !quoted) { ArrayPrototypePush(parts, trim(StringPrototypeSlice(text, start, i))); start = i + 1; }
  }
  ArrayPrototypePush(parts, trim(StringPrototypeSlice(text, start)));
  return parts;
}

/** "Extract a MIME type" of the Fetch standard. @param {string|null} header the combined Content-Type */
export function extractMime(header) {
  if (header === null) return null;
  /** @type {string|undefined} */ let charset;
  let essence = '';
  /** @type {ReturnType<typeof parseMime>} */ let mime = null;
  const values = splitValues(header);
  for (let i = 0; i < values.length; i++) {
    const one = parseMime(values[i]);
    if (one === null || one.essence === '*/*') continue;
    mime = one;
    if (one.essence !== essence) {
      charset = one.parameters.get('charset');
      essence = one.essence;
    } else if (!one.parameters.has('charset') && charset !== undefined) {
      one.parameters.set('charset', charset);
    }
  }
  return mime;
}
