/**
 * A guest that spoils the language's own objects: its requests are served all the same, what the library does is not seen by its code, and
 * once it has put things back, nothing is left.
 */
import { equal, ok, test, wait } from './harness.js';
import { answers, arrive, routes, streams, web } from './web_link.js';

const { Object: O, Reflect: R } = globalThis;
const { defineProperty, getOwnPropertyDescriptor } = O;
const { apply, ownKeys } = R;
const hostileSetTimeout = setTimeout, NativePromise = Promise, then = Promise.prototype.then;

const rawList = () => Object.setPrototypeOf([], null);
/** What was caught of the library by replaced functions. @type {string[]} */
let caught = rawList();
/** @type {any} */
let replaced = rawList();

function replace(object, key, descriptor) {
  replaced[replaced.length] = [object, key, getOwnPropertyDescriptor(object, key)];
  defineProperty(object, key, descriptor);
}
function restore() {
  for (let i = replaced.length - 1; i >= 0; i--) {
    const object = replaced[i][0], key = replaced[i][1], old = replaced[i][2];
    if (old === undefined) delete object[key];
    else defineProperty(object, key, old);
  }
  replaced = rawList();
}
/** Every method of a prototype throws and tells. */
function spoil(prototype, name, except = []) {
  const keys = ownKeys(prototype);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i], old = getOwnPropertyDescriptor(prototype, key);
    let skip = key === 'constructor' || !old.configurable;
    for (let k = 0; k < except.length; k++) if (except[k] === key) skip = true;
    if (skip || typeof old.value !== 'function') continue;
    replace(prototype, key, { __proto__: null, value: function () { caught[caught.length] = `${name}.${typeof key === 'symbol' ? 'symbol' : key}`; throw new Error('spoiled'); }, writable: true, configurable: true });
  }
}
const evil = function Evil() { caught[caught.length] = 'a class'; throw new Error('spoiled'); };

const attacks = {
  __proto__: null,
  'Array.prototype': () => { spoil(Array.prototype, 'Array'); },
  'Array.prototype[0]': () => { for (let i = 0; i < 4; i++) replace(Array.prototype, i, { __proto__: null, set() { caught[caught.length] = 'an element'; }, get() { return undefined; }, configurable: true }); },
  'Map, Set, WeakMap': () => { spoil(Map.prototype, 'Map'); spoil(Set.prototype, 'Set'); spoil(WeakMap.prototype, 'WeakMap'); spoil(WeakSet.prototype, 'WeakSet'); },
  'String.prototype': () => { spoil(String.prototype, 'String'); },
  'RegExp.prototype': () => { spoil(RegExp.prototype, 'RegExp'); },
  'Function.prototype': () => { spoil(Function.prototype, 'Function'); },
  'typed arrays': () => { spoil(Object.getPrototypeOf(Uint8Array.prototype), 'TypedArray'); spoil(ArrayBuffer.prototype, 'ArrayBuffer', ['transfer']); spoil(DataView.prototype, 'DataView'); },
  'Promise.prototype.then': () => { replace(Promise.prototype, 'then', { __proto__: null, value: function () { caught[caught.length] = 'then'; throw new Error('spoiled'); }, writable: true, configurable: true }); replace(Promise, 'resolve', { __proto__: null, value: evil, writable: true, configurable: true }); },
  'Promise species': () => { replace(Promise, Symbol.species, { __proto__: null, get() { return undefined; /* then() of the language asks for it: that it is asked is no secret */ }, configurable: true }); },
  'Object.prototype.then': () => { replace(Object.prototype, 'then', { __proto__: null, get() { if (this !== null && typeof this === 'object' && 'bytes' in this) caught[caught.length] = 'then of bytes'; return undefined; }, configurable: true }); },
  'descriptor keys': () => { for (const key of ['get', 'set', 'value', 'writable', 'enumerable', 'configurable']) replace(Object.prototype, key, { __proto__: null, value: undefined, writable: true, configurable: true }); },
  'option names': () => { for (const key of ['signal', 'body', 'method', 'status', 'headers', 'bytes', 'stream', 'length', 'transfer', 'once', 'type', 'pull', 'cancel', 'highWaterMark']) replace(Object.prototype, key, { __proto__: null, get() { return undefined; }, set(value) { defineProperty(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true }); }, configurable: true }); },
  'Symbol.iterator': () => { replace(Array.prototype, Symbol.iterator, { __proto__: null, value: evil, writable: true, configurable: true }); replace(String.prototype, Symbol.iterator, { __proto__: null, value: evil, writable: true, configurable: true }); },
  'the statics': () => { for (const [object, key] of [[JSON, 'parse'], [JSON, 'stringify'], [Object, 'defineProperty'], [Object, 'keys'], [Object, 'assign'], [Reflect, 'apply'], [Reflect, 'ownKeys'], [Math, 'max'], [Number, 'isFinite']]) replace(object, key, { __proto__: null, value: evil, writable: true, configurable: true }); },
  'the globals': () => { for (const name of ['Headers', 'URL', 'URLSearchParams', 'Request', 'Response', 'ReadableStream', 'WritableStream', 'TransformStream', 'TextEncoder', 'TextDecoder', 'Blob', 'FormData', 'structuredClone', 'queueMicrotask', 'setTimeout', 'Promise', 'Map', 'Uint8Array', 'ArrayBuffer', 'Error', 'TypeError', 'Symbol', 'AbortController', 'DOMException', 'Event']) replace(globalThis, name, { __proto__: null, value: evil, writable: true, configurable: true }); },
  'our prototypes': () => { for (const Class of [Headers, Request, Response, ReadableStream, ReadableStreamDefaultReader, ReadableStreamDefaultController, ReadableByteStreamController, AbortSignal, EventTarget, Blob, URL]) spoil(Class.prototype, Class.name); },
};

let nextStream = 500;
/** What a Worker does, with the functions that a guest would have kept from before the attack. */
const kept = { Response, Request, Headers, ReadableStream, URL, Uint8Array };
const { text: requestText } = Request.prototype, getBody = getOwnPropertyDescriptor(Request.prototype, 'body').get, getHeaders = getOwnPropertyDescriptor(Request.prototype, 'headers').get;
const headersGet = Headers.prototype.get;
const enqueue = ReadableByteStreamController.prototype.enqueue, close = ReadableByteStreamController.prototype.close;

const twoBytes = () => { const bytes = new kept.Uint8Array(2); bytes[0] = 65; bytes[1] = 66; return bytes; };

/** Serves four requests; gives functions that look at the outcome, so that nothing is asked of a spoiled object. */
function serve() {
  const first = answers.length;
  /** @type {any} */ const seen = { __proto__: null };
  web.respond(1, new kept.Response('hi'), false);

  const request = web.requestFromWire('POST', 'http://a.test/x', 'content-type\ntext/plain\nx-a\n1', nextStream);
  seen.header = apply(headersGet, apply(getHeaders, request, []), ['X-A']);
  apply(then, apply(requestText, request, []), [(text) => { seen.text = text; }, (error) => { seen.textError = error; }]);
  arrive(nextStream, 'some ');
  arrive(nextStream, 'bytes');
  routes.streamEnd(nextStream++);

  const proxied = web.requestFromWire('POST', 'http://a.test/y', '', nextStream);
  web.respond(2, new kept.Response(apply(getBody, proxied, []), { __proto__: null, status: 201, headers: { __proto__: null, 'x-b': '2' } }), false);
  const incoming = nextStream++;

  let pulls = 0;
  const stream = new kept.ReadableStream({ __proto__: null, type: 'bytes', pull(controller) {
    if (pulls++ === 0) apply(enqueue, controller, [twoBytes()]);
    else apply(close, controller, []);
  } });
  web.respond(3, new kept.Response(stream), false);
  return { first, seen, incoming };
}
function check({ first, seen }, what) {
  const [hello, proxied, streamed] = [answers[first], answers[first + 1], answers[first + 2]];
  equal(hello.body, 'hi', what);
  equal(hello.headers, 'content-type\ntext/plain;charset=UTF-8', what);
  equal(seen.textError, undefined, what);
  equal(seen.text, 'some bytes', what);
  equal(seen.header, '1', what);
  equal(proxied.status, 201, what);
  equal(proxied.headers, 'x-b\n2', what);
  equal(streams[proxied.body].sent, 'through', what);
  ok(streams[proxied.body].ended, what);
  equal(streams[streamed.body].sent, 'AB', what);
  ok(streams[streamed.body].ended, what);
}
/** Some turns of the loop, without a promise of the guest's making. */
const turns = (n, done) => { hostileSetTimeout(() => { if (n === 0) done(); else turns(n - 1, done); }, 1); };

for (const name of ownKeys(attacks)) {
  test(`served in spite of: ${name}`, async () => {
    caught = rawList();
    let outcome, failure;
    await new NativePromise((resolve) => hostileSetTimeout(() => { // when the harness waits
      attacks[name]();
      try {
        outcome = serve();
      } catch (error) {
        failure = error;
      }
      turns(2, () => {
        if (outcome !== undefined) {
          arrive(outcome.incoming, 'through');
          routes.streamEnd(outcome.incoming);
        }
        turns(3, () => { restore(); resolve(); });
      });
    }, 0));
    if (failure !== undefined) throw failure;
    check(outcome, name);
    equal(Array.prototype.join.call(caught), '', 'seen by the guest:');
    // The next request is served as if nothing had been.
    const next = serve();
    await wait(2);
    arrive(next.incoming, 'through');
    routes.streamEnd(next.incoming);
    await wait(5);
    check(next, `after ${name}`);
  });
}
