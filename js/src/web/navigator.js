/** navigator: libraries recognise the platform by its userAgent. */
import { finishInterface } from './webidl.js';
import { illegalConstructor } from './dom_exception.js';

const KEY = Symbol('navigator');
export class Navigator {
  #brand = 0;
  /** @param {any} key */
  constructor(key) { if (key !== KEY) illegalConstructor('Navigator'); }
  get userAgent() { void this.#brand; return 'Cloudflare-Workers'; }
  get hardwareConcurrency() { void this.#brand; return 1; }
  get language() { void this.#brand; return 'en'; }
  get languages() { void this.#brand; return ['en']; }
  get platform() { void this.#brand; return 'Linux'; }
}
finishInterface(Navigator, 'Navigator');
export const navigator = new Navigator(KEY);
