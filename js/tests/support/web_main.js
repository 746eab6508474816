/** The Web API alone, for its tests. */
import { routes } from '../../src/link.js';
import { setNatives } from '../../src/natives.js';
import { installWeb } from '../../src/web/index.js';

export default function boot(natives) {
  setNatives(natives);
  const hooks = {};
  const web = installWeb(globalThis, hooks);
  natives.dispatch = { __proto__: null, ...routes };
  web.start();
  return { web, hooks };
}
