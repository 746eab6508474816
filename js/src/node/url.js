/** node:url: the Web API's classes, and the older functions by the package `url`. */
import base from 'url';
import { host, missing, nodeError } from './host.js';

const legacy = /** @type {any} */ (base);
export const { URL, URLSearchParams } = host.web;
export const { parse, resolve, resolveObject, Url } = legacy;

/** @param {any} urlObject @param {any} [options] */
export function format(urlObject, options) {
  if (!(urlObject instanceof URL)) return legacy.format(urlObject);
  const { auth = true, fragment = true, search = true, unicode = false } = options ?? {};
  const copy = new URL(urlObject.href);
  if (!auth) copy.username = copy.password = '';
  if (!fragment) copy.hash = '';
  if (!search) copy.search = '';
  return unicode ? domainToUnicode() : copy.href;
}
/** @param {any} given */
export function fileURLToPath(given) {
  const url = typeof given === 'string' ? new URL(given) : given;
  if (url.protocol !== 'file:') throw nodeError(TypeError, 'ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file');
  if (url.hostname !== '') throw nodeError(TypeError, 'ERR_INVALID_FILE_URL_HOST', 'File URL host must be "localhost" or empty on linux');
  if (/%2f/i.test(url.pathname)) throw nodeError(TypeError, 'ERR_INVALID_FILE_URL_PATH', 'File URL path must not include encoded / characters');
  return decodeURIComponent(url.pathname);
}
/** @param {string} path */
export function pathToFileURL(path) {
  const url = new URL('file:///');
  url.pathname = (path.startsWith('/') ? path : `/${path}`).replace(/[%\\\n\r\t?#]/g, (c) => encodeURIComponent(c));
  return url;
}
/** @param {any} url */
export const urlToHttpOptions = (url) => ({
  __proto__: null, protocol: url.protocol, hostname: url.hostname.replace(/^\[|\]$/g, ''), hash: url.hash, search: url.search, pathname: url.pathname,
  path: `${url.pathname}${url.search}`, href: url.href, ...(url.port !== '' ? { port: Number(url.port) } : {}),
  ...(url.username || url.password ? { auth: `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` } : {}),
});
/** @param {string} domain */
export function domainToASCII(domain) {
  try {
    return new URL(`http://${domain}`).hostname;
  } catch {
    return '';
  }
}
export const domainToUnicode = missing('url.domainToUnicode');
export default { URL, URLSearchParams, Url, parse, format, resolve, resolveObject, fileURLToPath, pathToFileURL, urlToHttpOptions, domainToASCII, domainToUnicode };
