/** FormData, and its two wire forms: multipart/form-data and application/x-www-form-urlencoded (RFC 7578, the URL standard). */
import {
  ArrayPrototypePush, RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeReplaceAll, StringPrototypeSlice, StringPrototypeStartsWith,
  StringPrototypeToLowerCase, TypeError, Uint8Array, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset,
} from '../primordials.js';
import { natives } from '../natives.js';
import { blobBytes, fileOf, isBlob, isFile } from './blob.js';
import { concat, latin1Decode, utf8DecodeKeepMark, utf8Encode } from './bytes.js';
import { parseUrlencoded } from './url.js';
import { finishInterface, isObject, pairIterable, requireArguments, toUSVString } from './webidl.js';

export class FormData {
  /** @type {[string, any][]} */ #entries = [];
  /** @param {any} [form] */
  constructor(form = undefined) {
    if (form !== undefined) throw new TypeError('FormData: there are no forms to take entries from');
  }
  /** @param {any} name @param {any} value @param {any} [filename] */
  append(name, value, filename = undefined) {
    void this.#entries;
    requireArguments(arguments.length, 2, 'FormData.append');
    ArrayPrototypePush(this.#entries, entry(name, value, filename, arguments.length > 2, 'append'));
  }
  /** @param {any} name */
  delete(name) {
    void this.#entries;
    requireArguments(arguments.length, 1, 'FormData.delete');
    const key = toUSVString(name), list = this.#entries;
    let to = 0;
    for (let i = 0; i < list.length; i++) if (list[i][0] !== key) list[to++] = list[i];
    list.length = to;
  }
  /** @param {any} name */
  get(name) {
    void this.#entries;
    requireArguments(arguments.length, 1, 'FormData.get');
    const key = toUSVString(name), list = this.#entries;
    for (let i = 0; i < list.length; i++) if (list[i][0] === key) return list[i][1];
    return null;
  }
  /** @param {any} name */
  getAll(name) {
    void this.#entries;
    requireArguments(arguments.length, 1, 'FormData.getAll');
    const key = toUSVString(name), list = this.#entries;
    /** @type {any[]} */ const found = [];
    for (let i = 0; i < list.length; i++) if (list[i][0] === key) ArrayPrototypePush(found, list[i][1]);
    return found;
  }
  /** @param {any} name */
  has(name) {
    void this.#entries;
    requireArguments(arguments.length, 1, 'FormData.has');
    const key = toUSVString(name), list = this.#entries;
    for (let i = 0; i < list.length; i++) if (list[i][0] === key) return true;
    return false;
  }
  /** @param {any} name @param {any} value @param {any} [filename] */
  set(name, value, filename = undefined) {
    void this.#entries;
    requireArguments(arguments.length, 2, 'FormData.set');
    const fresh = entry(name, value, filename, arguments.length > 2, 'set');
    const list = this.#entries;
    let to = 0, placed = false;
    for (let i = 0; i < list.length; i++) {
      if (list[i][0] !== fresh[0]) list[to++] = list[i];
      else if (!placed) { list[to++] = fresh; placed = true; }
    }
    list.length = to;
    if (!placed) ArrayPrototypePush(list, fresh);
  }
  static {
    isFormData = (value) => isObject(value) && #entries in value;
    entriesOf = (form) => form.#entries;
  }
}
/** @type {(value: any) => boolean} */ var isFormData;
/** The live list. @type {(form: any) => [string, any][]} */ var entriesOf;
export { isFormData, entriesOf };
pairIterable(FormData, 'FormData', (self) => entriesOf(self));
finishInterface(FormData, 'FormData');

/** @param {any} name @param {any} value @param {any} filename @param {boolean} named @param {string} what @returns {[string, any]} */
function entry(name, value, filename, named, what) {
  const key = toUSVString(name);
  if (isBlob(value)) {
    if (!named || filename === undefined) return [key, isFile(value) ? value : fileOf(blobBytes(value), 'blob', value.type)];
    return [key, fileOf(blobBytes(value), toUSVString(filename), value.type, isFile(value) ? value.lastModified : undefined)];
  }
  if (named && filename !== undefined) throw new TypeError(`FormData.${what}: the value is not a Blob, yet a file name is given`);
  return [key, toUSVString(value)];
}

/** @param {string} text */
const lines = (text) => StringPrototypeReplaceAll(StringPrototypeReplaceAll(StringPrototypeReplaceAll(text, '\r\n', '\n'), '\r', '\n'), '\n', '\r\n');
/** @param {string} text */
const escapeName = (text) => StringPrototypeReplaceAll(StringPrototypeReplaceAll(StringPrototypeReplaceAll(text, '\n', '%0A'), '\r', '%0D'), '"', '%22');

/** @param {any} form @returns {{bytes: Uint8Array, type: string}} */
export function formDataBytes(form) {
  const noise = new Uint8Array(16);
  natives.random(noise);
  let boundary = '----formdata-';
  for (let i = 0; i < noise.length; i++) boundary += (noise[i] < 16 ? '0' : '') + hex(noise[i]);
  const list = entriesOf(form);
  /** @type {Uint8Array[]} */ const chunks = [];
  for (let i = 0; i < list.length; i++) {
    const name = escapeName(lines(list[i][0])), value = list[i][1];
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${name}"`;
    if (typeof value === 'string') {
      ArrayPrototypePush(chunks, utf8Encode(`${head}\r\n\r\n${lines(value)}\r\n`));
    } else {
      ArrayPrototypePush(chunks, utf8Encode(`${head}; filename="${escapeName(value.name)}"\r\nContent-Type: ${value.type || 'application/octet-stream'}\r\n\r\n`));
      ArrayPrototypePush(chunks, blobBytes(value));
      ArrayPrototypePush(chunks, utf8Encode('\r\n'));
    }
  }
  ArrayPrototypePush(chunks, utf8Encode(`--${boundary}--\r\n`));
  return { bytes: concat(chunks), type: `multipart/form-data; boundary=${boundary}` };
}
const DIGITS = '0123456789abcdef';
/** @param {number} byte */
const hex = (byte) => (byte < 16 ? DIGITS[byte] : DIGITS[byte >> 4] + DIGITS[byte & 15]);

/** @param {Uint8Array} bytes UNTRUSTED INPUT @param {any} mime of parseMime, or null @returns {any} */
export function parseFormData(bytes, mime) {
  if (mime !== null && mime.essence === 'multipart/form-data') {
    const boundary = mime.parameters.get('boundary');
    if (boundary === undefined || boundary === '') throw new TypeError('No boundary in the Content-Type of a multipart/form-data body');
    return parseMultipart(bytes, boundary);
  }
  if (mime !== null && mime.essence === 'application/x-www-form-urlencoded') {
    const form = new FormData();
    const pairs = parseUrlencoded(utf8DecodeKeepMark(bytes));
    for (let i = 0; i < pairs.length; i++) ArrayPrototypePush(entriesOf(form), [pairs[i][0], pairs[i][1]]);
    return form;
  }
  throw new TypeError('Unrecognized Content-Type header value. FormData can only parse multipart/form-data or application/x-www-form-urlencoded.');
}

const DISPOSITION = /^form-data[ \t]*;[ \t]*name="([^"]*)"(?:[ \t]*;[ \t]*filename="([^"]*)")?[ \t]*;?[ \t]*(?:filename\*=[^;]*)?$/i;
const LOOSE_NAME = /;[ \t]*name=(?:"([^"]*)"|([^";\s]+))/i;
const LOOSE_FILE = /;[ \t]*filename=(?:"((?:[^"\\]|\\.)*)"|([^";\s]+))/i;

/**
 * The next line that is a delimiter: two hyphens, the boundary, and then two more (the last one) or nothing but white space. Lines end in CRLF, or in LF as some
 * programs write them; what only begins like a delimiter is data. @param {string} text @param {string} delimiter @param {number} from where its line may begin
 * @returns {{start: number, next: number, last: boolean}|null} start: of the line end before it; next: what follows it
 */
function findDelimiter(text, delimiter, from) {
  for (let at = from; ; at++) {
    at = StringPrototypeIndexOf(text, delimiter, at);
    if (at < 0) return null;
    if (at > 0 && text[at - 1] !== '\n') continue;
    let next = at + delimiter.length;
    const last = StringPrototypeStartsWith(text, '--', next);
    while (!last && (text[next] === ' ' || text[next] === '\t')) next++;
    if (!last && text[next] === '\r') next++;
    if (!last && text[next] !== '\n') continue;
    return /** @type {any} */ ({ __proto__: null, start: at > 1 && text[at - 2] === '\r' ? at - 2 : at - 1, next: next + 1, last });
  }
}

/** @param {string} why @returns {never} */
function malformed(why) {
  throw new TypeError(`Malformed multipart/form-data body: ${why}`);
}

/**
 * The headers of a part. @param {string} text @param {number} at where they begin
 * @returns {{at: number, name: string, filename: string|null, type: string}} at: where its content begins
 */
function parsePartHead(text, at) {
  /** @type {string|null} */ let name = null;
  /** @type {string|null} */ let filename = null;
  let type = '';
  for (;;) {
    const end = StringPrototypeIndexOf(text, '\n', at);
    if (end < 0) malformed('a part has no end of its headers');
    const line = StringPrototypeSlice(text, at, end > at && text[end - 1] === '\r' ? end - 1 : end);
    at = end + 1;
    if (line === '') break;
    const colon = StringPrototypeIndexOf(line, ':');
    if (colon < 0) malformed('a header without a colon');
    const key = StringPrototypeToLowerCase(StringPrototypeSlice(line, 0, colon));
    const value = trimLine(StringPrototypeSlice(line, colon + 1));
    if (key === 'content-disposition') {
      const exact = RegExpPrototypeExec(DISPOSITION, value);
      if (exact !== null) {
        name = decodeName(exact[1]);
        if (exact[2] !== undefined) filename = decodeName(exact[2]);
      } else {
        if (!StringPrototypeStartsWith(StringPrototypeToLowerCase(value), 'form-data')) malformed('a part is not form-data');
        const loose = RegExpPrototypeExec(LOOSE_NAME, value);
        if (loose !== null) name = decodeName(loose[1] ?? loose[2]);
        const file = RegExpPrototypeExec(LOOSE_FILE, value);
        if (file !== null) filename = decodeName(file[1] ?? file[2]);
      }
    } else if (key === 'content-type') {
      type = value;
    }
  }
  if (name === null) malformed('a part has no name');
  return /** @type {any} */ ({ __proto__: null, at, name, filename, type });
}

/** @param {Uint8Array} bytes @param {string} boundary */
function parseMultipart(bytes, boundary) {
  const form = new FormData();
  // One character a byte, so that positions are the same in both.
  const text = latin1Decode(bytes);
  const delimiter = `--${boundary}`;
  // What comes before the first is a preamble, what follows the last an epilogue: nobody's.
  let found = findDelimiter(text, delimiter, 0);
  if (found === null) malformed('the boundary is not there');
  while (!found.last) {
    const { at, name, filename, type } = parsePartHead(text, found.next);
    // An empty part's closing delimiter may share the line end that ended its headers.
    found = findDelimiter(text, delimiter, at);
    if (found === null) malformed('the last boundary is missing');
    const body = new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + at, found.start > at ? found.start - at : 0);
    ArrayPrototypePush(entriesOf(form), /** @type {any} */ ([name, filename === null ? utf8DecodeKeepMark(body) : fileOf(new Uint8Array(body), filename, type || 'text/plain')]));
  }
  return form;
}
/** @param {string} text */
const trimLine = (text) => /** @type {any} */ (RegExpPrototypeExec(/^[ \t]*([^]*?)[ \t]*$/, text))[1];

/** @param {string} latin1 */
function decodeName(latin1) {
  const text = utf8DecodeKeepMark(new Uint8Array(natives.latin1Encode(latin1)));
  return StringPrototypeReplaceAll(StringPrototypeReplaceAll(StringPrototypeReplaceAll(text, '%0A', '\n'), '%0D', '\r'), '%22', '"');
}
