// The program that bench/workers/run drives, the same for Cloister and for workerd.

let unique = 0;

/** @param {string} mark makes the source new, so that no cache of compiled code knows it */
const code = mark => ({
  compatibilityDate: '2026-01-01',
  mainModule: 'main.js',
  modules: {
    'main.js': `// ${mark}
      import { WorkerEntrypoint } from 'cloudflare:workers';
      export class Code extends WorkerEntrypoint {
        evaluate(a, b) { return a + b; }
      }`,
  },
  globalOutbound: null,
});

const fib = n => (n < 2 ? n : fib(n - 1) + fib(n - 2));

const cpu = {
  fib: () => fib(30),
  sort() {
    let x = 1;
    const a = Array.from({ length: 200000 }, () => (x = (x * 1103515245 + 12345) % 2147483648));
    return a.sort((p, q) => p - q)[1000];
  },
  json() {
    const o = Array.from({ length: 2000 }, (_, i) => ({ id: i, name: `item ${i}`, tags: ['a', 'b'], price: i / 7 }));
    let n = 0;
    for (let i = 0; i < 20; i++) n += JSON.parse(JSON.stringify(o)).length;
    return n;
  },
  regexp() {
    const text = 'The 1st of May 2031, the 22nd of June 2032; '.repeat(2000);
    let n = 0;
    for (const m of text.matchAll(/(\d+)(st|nd|rd|th) of (\w+) (\d{4})/g)) n += m[4].length;
    return n;
  },
};

const held = [];

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const n = Number(url.searchParams.get('n') ?? 1);
    switch (url.pathname) {
      case '/hello':
        return new Response('Hello, world!');
      case '/echo':
        return Response.json(await request.json());
      case '/load':
        for (let i = 0; i < n; i++) await env.LOADER.load(code('same')).getEntrypoint('Code').evaluate(i, 1);
        return new Response('ok');
      case '/load-new':
        for (let i = 0; i < n; i++) await env.LOADER.load(code(`${Date.now()} ${unique++}`)).getEntrypoint('Code').evaluate(i, 1);
        return new Response('ok');
      case '/rpc': {
        const entrypoint = env.LOADER.get('warm', () => code('same')).getEntrypoint('Code');
        for (let i = 0; i < n; i++) await entrypoint.evaluate(i, 1);
        return new Response('ok');
      }
      case '/hold':
        for (let i = 0; i < n; i++) {
          const entrypoint = env.LOADER.get(`held ${held.length}`, () => code('same')).getEntrypoint('Code');
          await entrypoint.evaluate(i, 1);
          held.push(entrypoint);
        }
        return new Response('ok');
      default: {
        const work = cpu[url.pathname.slice('/cpu/'.length)];
        return work ? new Response(String(work())) : new Response('no such benchmark', { status: 404 });
      }
    }
  },
};
