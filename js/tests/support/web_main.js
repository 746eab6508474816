/** The Web API and WebCrypto alone, for its tests: a bundle whose global object has `__web` besides. */
import { routes } from '../../src/link.js';
import { setNatives } from '../../src/natives.js';
import { installCrypto } from '../../src/crypto/crypto.js';
import { installWeb } from '../../src/web/index.js';

export default function boot(natives) {
  setNatives(natives);
  const hooks = {};
  const web = installWeb(globalThis, hooks);
  installCrypto(globalThis);
  Object.defineProperty(globalThis, '__web', { value: { web, hooks }, configurable: true });
  const dispatch = { ...routes, start: web.start, unhandledRejection: web.unhandledRejection };
  natives.dispatch = dispatch; // the tests' natives want to know
  return dispatch;
}
