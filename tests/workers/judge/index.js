// Loads what a test posts as a Dynamic Worker, calls it, and says what came of it. The secrets below are what no guest may learn.
import { RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';

const SECRET = 'judge-secret-7f3a';
globalThis.judgeSecret = SECRET;
let sum = 0;

class Counter extends RpcTarget {
  #n = 0;
  own = SECRET;
  add(k) {
    this.#n += k;
    return this.#n;
  }
  #hidden() {
    return SECRET;
  }
  get total() {
    return this.#n;
  }
}

export class Vault extends WorkerEntrypoint {
  own = SECRET;
  add(a, b) {
    sum += a;
    return a + b;
  }
  counter() {
    return new Counter();
  }
  fail() {
    const e = new RangeError('no such drawer');
    e.secret = SECRET;
    throw e;
  }
  describe(value) {
    const seen = new Set();
    const say = v => {
      if (v === null || typeof v !== 'object') return typeof v === 'bigint' ? `${v}n` : typeof v;
      if (seen.has(v)) return 'again';
      seen.add(v);
      return [Object.prototype.toString.call(v), Object.getPrototypeOf(v) === Object.prototype, Object.keys(v).slice(0, 10).map(k => [k, say(v[k])])];
    };
    return JSON.stringify(say(value));
  }
  async callBack(f, ...args) {
    return await f(...args);
  }
  who() {
    return this.ctx.props.who;
  }
  #hidden() {
    return SECRET;
  }
}

export class Gateway extends WorkerEntrypoint {
  async fetch(request) {
    const headers = new Headers(request.headers);
    headers.set('x-tenant', this.ctx.props.who);
    return Response.json({ url: request.url, method: request.method, tenant: headers.get('x-tenant'), body: await request.text() });
  }
}

const held = new Map();

export default {
  async fetch(request, env, ctx) {
    const path = new URL(request.url).pathname;
    if (path === '/alive') return Response.json({ sum, polluted: {}.polluted ?? null, keys: Object.keys(Object.prototype) });
    const job = await request.json();
    try {
      const code = {
        compatibilityDate: '2026-01-01',
        compatibilityFlags: job.flags,
        mainModule: job.main ?? 'main.js',
        modules: job.modules,
        env: { VAULT: ctx.exports.Vault({ props: { who: job.who ?? 'guest' } }), DATA: { list: [1, 2, 3] } },
        limits: job.limits,
      };
      if (job.outbound === 'gateway') code.globalOutbound = ctx.exports.Gateway({ props: { who: job.who ?? 'guest' } });
      else if (job.outbound !== 'inherit') code.globalOutbound = null;
      const loader = job.other ? env.OTHER : env.LOADER;
      const worker = job.id ? loader.get(job.id, () => code) : loader.load(code);
      const entrypoint = worker.getEntrypoint(job.entrypoint, job.options);
      if (job.hold) held.set(job.hold, entrypoint);
      const target = job.use ? held.get(job.use) : entrypoint;
      if (job.fetch) {
        const r = await target.fetch(job.fetch, job.init);
        return Response.json({ status: r.status, result: await r.text() });
      }
      let result = await target[job.method ?? 'run'](...(job.args ?? []));
      if (job.look) result = new Function('value', job.look)(result);
      return Response.json({ result: result === undefined ? 'undefined' : result });
    } catch (e) {
      return Response.json({ error: e instanceof Error ? `${e.name}: ${e.message}` : `thrown: ${String(e)}`, stack: String(e?.stack ?? ''),
        keys: e && typeof e === 'object' ? Object.keys(e) : [] });
    }
  },
};
