/** node:querystring. */

/** @param {any} value */
const primitive = (value) => {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? `${value}` : '';
  if (typeof value === 'bigint' || typeof value === 'boolean') return `${value}`;
  return '';
};
/** @param {any} text */
export const escape = (text) => encodeURIComponent(typeof text === 'string' ? text : typeof text === 'object' ? String(text) : `${text}`).replace(/%(2[01789A]|7E)/g, (code) => decodeURIComponent(code)).replace(/[^A-Za-z0-9\-_.!~*'()%]/g, encodeURIComponent);
/** @param {string} text */
export function unescape(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return unescapeBuffer(text).toString();
  }
}
/** @param {string} text */
export function unescapeBuffer(text) {
  const bytes = [...new TextEncoder().encode(text)];
  const out = [];
  for (let i = 0; i < bytes.length; i++) {
    const code = bytes[i] === 0x25 ? Number.parseInt(String.fromCharCode(bytes[i + 1], bytes[i + 2]), 16) : Number.NaN;
    if (bytes[i] === 0x25 && i + 2 < bytes.length && /^[0-9a-f]{2}$/i.test(String.fromCharCode(bytes[i + 1], bytes[i + 2]))) {
      out.push(code);
      i += 2;
    } else {
      out.push(bytes[i]);
    }
  }
  return /** @type {any} */ (globalThis).Buffer.from(out);
}

/** @param {any} object @param {string} [separator] @param {string} [equals] @param {{encodeURIComponent?: (text: string) => string}} [options] */
export function stringify(object, separator = '&', equals = '=', options) {
  if (object === null || typeof object !== 'object') return '';
  const encode = options?.encodeURIComponent ?? querystring.escape;
  const parts = [];
  for (const key of Object.keys(object)) {
    const value = object[key], head = encode(primitive(key)) + equals;
    if (Array.isArray(value)) for (const item of value) parts.push(head + encode(primitive(item)));
    else parts.push(head + encode(primitive(value)));
  }
  return parts.join(separator);
}

/** @param {any} text @param {string} [separator] @param {string} [equals] @param {{maxKeys?: number, decodeURIComponent?: (text: string) => string}} [options] */
export function parse(text, separator = '&', equals = '=', options) {
  const result = Object.create(null);
  if (typeof text !== 'string' || text.length === 0) return result;
  const decode = options?.decodeURIComponent ?? querystring.unescape;
  const max = options?.maxKeys ?? 1000;
  /** @param {string} part */
  const decoded = (part) => {
    const spaced = part.replace(/\+/g, ' ');
    try {
      return decode(spaced);
    } catch {
      return unescape(spaced);
    }
  };
  let count = 0;
  for (const pair of text.split(separator || '&')) {
    if (pair === '') continue;
    if (max > 0 && ++count > max) break;
    const at = pair.indexOf(equals || '=');
    const key = decoded(at < 0 ? pair : pair.slice(0, at)), value = at < 0 ? '' : decoded(pair.slice(at + (equals || '=').length));
    if (!(key in result)) result[key] = value;
    else if (Array.isArray(result[key])) result[key].push(value);
    else result[key] = [result[key], value];
  }
  return result;
}
export { stringify as encode, parse as decode };
const querystring = { escape, unescape, unescapeBuffer, stringify, parse, encode: stringify, decode: parse };
export default querystring;
