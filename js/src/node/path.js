/** node:path, of POSIX. */
import base from 'path-browserify';

const path = /** @type {any} */ (base);
path.toNamespacedPath ??= (/** @type {any} */ given) => given;
path.posix = path;
delete path.win32;
export const { basename, delimiter, dirname, extname, format, isAbsolute, join, normalize, parse, posix, relative, resolve, sep, toNamespacedPath } = path;
export default path;
