/** Requests, responses, bodies on the link, WebSockets: what the conformance tests of the standards do not see. */
import { equal, ok, rejects, test, wait } from './harness.js';
import { answers, arrive, credit, hooks, natives, routes, streams, web } from './web_link.js';

const bytesOf = (id) => Array.from(streams[id].bytes);
const answer = () => answers[answers.length - 1];
/** @param {() => any} body @returns {string} the name of the error */
const thrown = (body) => { try { body(); return 'nothing'; } catch (error) { return error.name; } };

test('a text answer makes no stream and no list of headers', () => {
  const before = Object.keys(streams).length;
  web.respond(1, new Response('hi'), false);
  equal(answer().body, 'hi');
  equal(answer().headers, 'content-type\ntext/plain;charset=UTF-8');
  equal(answer().status, 200);
  equal(Object.keys(streams).length, before);
});
test('headers of an incoming request are immutable', () => {
  const request = web.requestFromWire('GET', 'http://a.test/x?y', 'host\na.test\ncookie\na=1', null);
  equal(request.headers.get('Cookie'), 'a=1');
  equal(thrown(() => request.headers.set('a', 'b')), 'TypeError');
  const copy = new Request(request);
  copy.headers.set('a', 'b');
  equal(copy.headers.get('a'), 'b');
  equal(request.headers.get('a'), null);
});
test('a body on the link is collected without a stream, and its credit goes back', async () => {
  const request = web.requestFromWire('POST', 'http://a.test/', 'content-type\napplication/json', 7);
  const json = request.json();
  arrive(7, '{"a":');
  arrive(7, '[1]}');
  await wait(0);
  routes.streamEnd(7);
  equal(JSON.stringify(await json), '{"a":[1]}');
  equal(streams[7].consumed, 9);
  ok(request.bodyUsed);
  await rejects(request.text(), { name: 'TypeError', message: 'Body has already been used. It can only be used once. Use tee() first if you need to read it twice.' });
});
test('a body that is cut off rejects', async () => {
  const request = web.requestFromWire('POST', 'http://a.test/', '', 8);
  const text = request.text();
  arrive(8, 'abc');
  routes.streamReset(8, 'the client left');
  await rejects(text, { name: 'TypeError', message: 'the client left' });
});
test('a body read by hand is taken chunk by chunk', async () => {
  const request = web.requestFromWire('POST', 'http://a.test/', '', 9);
  const reader = request.body.getReader({ mode: 'byob' });
  const first = reader.read(new Uint8Array(2));
  await wait(0); // the link is opened when somebody pulls
  arrive(9, 'hello');
  equal(String((await first).value), '104,101');
  equal(String((await reader.read(new Uint8Array(8))).value), '108,108,111');
  routes.streamEnd(9);
  equal((await reader.read(new Uint8Array(1))).done, true);
});
test('a proxied body goes through without a stream of ours', async () => {
  const request = web.requestFromWire('POST', 'http://a.test/', '', 10);
  web.respond(2, new Response(request.body, { headers: { 'x-a': '1' } }), false);
  const out = answer().body;
  equal(typeof out, 'number');
  await wait(0);
  arrive(10, 'abc');
  await wait(0);
  routes.streamEnd(10);
  await wait(0);
  equal(streams[out].sent, 'abc');
  ok(streams[out].ended);
});
test('a streamed answer waits for room', async () => {
  let pulls = 0;
  const stream = new ReadableStream({ pull(controller) { pulls++; controller.enqueue(new Uint8Array([65])); } }, { highWaterMark: 0 });
  credit.waiting = 1;
  web.respond(3, new Response(stream), false);
  await wait(5);
  equal(pulls, 1);
  const id = answer().body;
  routes.streamWritable(id);
  await wait(5);
  equal(pulls, 2);
  credit.waiting = 0;
  routes.streamReset(id, 'gone');
  await wait(5);
  equal(streams[id].sent, 'AA');
});
test('the client going away cancels the stream', async () => {
  let reason;
  const stream = new ReadableStream({ cancel(why) { reason = why; } });
  web.respond(4, new Response(stream), false);
  await wait(1);
  routes.streamReset(answer().body, 'the client left');
  await wait(1);
  equal(reason.message, 'the client left');
});
test('an error of the stream cuts the answer off', async () => {
  const stream = new ReadableStream({ pull(controller) { controller.error(new RangeError('no more')); } });
  web.respond(5, new Response(stream), false);
  await wait(1);
  equal(streams[answer().body].reset, 'RangeError: no more');
});
test('a chunk that is no bytes cuts the answer off', async () => {
  const stream = new ReadableStream({ start(controller) { controller.enqueue('text'); } });
  web.respond(6, new Response(stream), false);
  await wait(1);
  equal(streams[answer().body].reset, 'TypeError: A chunk of a body is not bytes (a Uint8Array): encode text with TextEncoder or pipe it through a TextEncoderStream');
});
test('FixedLengthStream says its length and holds to it', async () => {
  const { readable, writable } = new FixedLengthStream(3);
  web.respond(7, new Response(readable), false);
  equal(answer().headers, 'content-length\n3');
  const writer = writable.getWriter();
  await writer.write(new Uint8Array([65, 66]));
  await rejects(writer.write(new Uint8Array([67, 68])), { name: 'TypeError', message: 'Attempt to write too many bytes through a FixedLengthStream.' });
});
test('an identity stream takes what it can at once, and refuses what it cannot', async () => {
  const told = (promise) => Promise.race([promise.then((value) => `${value?.value ?? value}`, (error) => `${error.name}: ${error.message}`), wait(50).then(() => 'silence')]);
  const bytes = (...list) => new Uint8Array(list);
  const source = () => new ReadableStream({ start(c) { c.enqueue(bytes(1, 2)); c.enqueue(bytes(3)); c.close(); } });
  equal(String(new Uint8Array(await new Response(source().pipeThrough(new IdentityTransformStream()).pipeThrough(new FixedLengthStream(3))).arrayBuffer())), '1,2,3');
  const open = (stream = new IdentityTransformStream()) => ({ writer: stream.writable.getWriter(), readable: stream.readable, stream });
  let { writer, readable, stream } = open();
  ok(stream instanceof TransformStream);
  equal(writer.desiredSize, 1);
  equal(await told(writer.write(bytes())), 'undefined');
  const writing = writer.write(bytes(1, 2, 3, 4, 5));
  equal(await told(writing), 'silence');
  const reader = readable.getReader({ mode: 'byob' });
  equal(await told(reader.read(new Uint8Array(2))), '1,2');
  equal(await told(writing), 'silence');
  equal(await told(reader.readAtLeast(3, new Uint8Array(8))), '3,4,5');
  equal(await told(writing), 'undefined');
  const waiting = reader.read(new Uint8Array(4)), rest = reader.readAtLeast(4, new Uint16Array(4));
  await writer.write(bytes(6));
  equal(await told(waiting), '6');
  await writer.write(bytes(1, 0));
  equal(await told(rest), 'silence');
  await writer.write(bytes(2, 0));
  equal(await told(rest), '1,2');
  const last = reader.read(new Uint8Array(1));
  equal(await told(writer.close()), 'undefined');
  equal((await last).done, true);
  ({ writer, readable } = open());
  const chunk = 'TypeError: This stream carries bytes: a chunk must be an ArrayBuffer or a view of one';
  equal(await told(writer.write('text')), chunk);
  equal(await told(readable.getReader().read()), chunk);
  ({ writer, readable } = open(new FixedLengthStream(2)));
  const short = 'TypeError: FixedLengthStream did not see all expected bytes before close().';
  equal(await told(writer.close()), short);
  equal(await told(readable.getReader().read()), short);
  ({ writer, readable } = open(new FixedLengthStream(2n)));
  equal(await told(writer.write(bytes(1, 2, 3))), 'TypeError: Attempt to write too many bytes through a FixedLengthStream.');
  ({ writer, readable } = open(new IdentityTransformStream({ highWaterMark: 4 })));
  const pending = writer.write(bytes(1, 2, 3));
  equal(writer.desiredSize, 1);
  await readable.cancel(new Error('enough'));
  equal(await told(pending), 'Error: enough');
  equal(await told(writer.closed), 'Error: enough');
  equal(new FixedLengthStream(2, { highWaterMark: 9 }).writable.getWriter().desiredSize, 2);
});
test('a used body cannot be sent', async () => {
  const response = new Response('x');
  await response.text();
  equal(thrown(() => web.respond(8, response, false)), 'TypeError');
  equal(thrown(() => web.respond(8, Response.error(), false)), 'TypeError');
});
test('several cookies stay apart', () => {
  const headers = new Headers();
  headers.append('Set-Cookie', 'seat=12; Path=/; Expires=Wed, 09 Jun 2032 10:18:14 GMT');
  headers.append('set-cookie', 'lang=eo; HttpOnly');
  headers.append('X-A', '1');
  headers.append('x-a', '2');
  const again = new Response(null, new Response('', { headers }));
  equal(headers.getSetCookie().length, 2);
  equal([...headers].filter(([name]) => name === 'set-cookie').length, 2);
  equal(again.headers.getSetCookie().length, 2);
  equal(again.headers.getAll('Set-Cookie').length, 2);
  equal(thrown(() => headers.getAll('x-a')), 'TypeError');
  equal(headers.get('x-a'), '1, 2');
  web.respond(9, new Response('', { headers }), false);
  equal(answer().headers.split('set-cookie').length, 3);
});
test('form encoding', () => {
  const url = new URL('https://shop.test/find?path=a/b&tag=x y&sum=1+1&bs=c\\d&pad=ab==');
  equal(new URLSearchParams(url.searchParams).toString(), 'path=a%2Fb&tag=x+y&sum=1+1&bs=c%5Cd&pad=ab%3D%3D');
  equal(new URLSearchParams({ [Symbol.iterator]: undefined, [Symbol('x')]: 'y', a: 'b' }).toString(), 'a=b');
  equal(url.href, 'https://shop.test/find?path=a/b&tag=x%20y&sum=1+1&bs=c\\d&pad=ab==');
  equal(url.searchParams.size, 5);
});
test('addresses on the quick path are those of the state machine', () => {
  for (const [input, href] of [['http://a.test', 'http://a.test/'], ['http://a.test:80/x', 'http://a.test/x'], ['https://a.test/a/../b', 'https://a.test/b'], ['http://a.test/%2e/b', 'http://a.test/b'],
    ['http://A.test/', 'http://a.test/'], ['http://a.test:0080/', 'http://a.test/'], ['http://a.test:65536/', null], ['http://1.2.3/', 'http://1.2.0.3/'], ['http://a.test?x', 'http://a.test/?x'],
    ["http://a.test/?a'b", 'http://a.test/?a%27b'], ['http://a.test/#`', 'http://a.test/#%60'], ['http://a.test/.', 'http://a.test/'], ['http://a.test/a..b/c.d', 'http://a.test/a..b/c.d']]) {
    equal(URL.parse(input)?.href ?? null, href, input);
  }
  const url = new URL('http://a.test/x?y=1#z');
  url.port = '81'; url.searchParams.append('k', 'v w'); url.hash = ''; url.pathname = '/p q'; url.username = 'u';
  equal(url.href, 'http://u@a.test:81/p%20q?y=1&k=v+w');
});
test('multipart: there and back', async () => {
  const form = new FormData();
  form.append('a"b', 'one\r\ntwo');
  form.append('file', new File([new Uint8Array([0, 255, 13, 10])], 'n"a\nme.bin', { type: 'application/x-thing' }));
  const back = await new Response(form).formData();
  equal(back.get('a"b'), 'one\r\ntwo');
  const file = back.get('file');
  equal(file.name, 'n"a\nme.bin');
  equal(file.type, 'application/x-thing');
  equal(String(new Uint8Array(await file.arrayBuffer())), '0,255,13,10');
});
test('multipart: bodies as others write them', async () => {
  const parse = async (text) => [...(await new Response(text, { headers: { 'content-type': 'multipart/form-data; boundary=B' } }).formData())].map(([name, value]) => `${name}=${value}`).join();
  const head = (name) => `Content-Disposition: form-data; name="${name}"`;
  equal(await parse(`--B\n${head('a')}\n\none\n--B\n${head('b')}\n\ntwo\r\n--B--`), 'a=one,b=two');
  equal(await parse(`--B\r\n${head('a')}\n\r\none\r\n--B\n${head('b')}\r\n\n\n--B--\n`), 'a=one,b=');
  equal(await parse(`not for us\r\n--BB\r\n--B \t\r\n${head('a')}\r\n\r\none\r\n--B--  \r\nnor --B\r\n${head('c')}\r\n\r\nthis\r\n--B--`), 'a=one');
  // What only begins like a delimiter, or is not at the beginning of a line, is data.
  equal(await parse(`--B\r\n${head('a')}\r\n\r\n--BB\r\n--B x\r\n --B\r\n--B\r.\r\n--B--`), 'a=--BB\r\n--B x\r\n --B\r\n--B\r.');
  equal(await parse(`--B\r\n${head('a')}\r\n\r\n--B\r\n${head('b')}\r\n\r\n\r\r\n--B--`), 'a=,b=\r');
});
test('multipart: malformed bodies are refused', async () => {
  const parse = (text, type = 'multipart/form-data; boundary=B') => new Response(text, { headers: { 'content-type': type } }).formData();
  equal([...(await parse('--B--'))].length, 0);
  equal((await parse('--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--B--')).get('a'), 'x');
  for (const [text, why] of [['', 'the boundary is not there'], ['--B', 'the boundary is not there'], ['x--B--', 'the boundary is not there'], ['--BB--', 'the boundary is not there'], ['--B\r--', 'the boundary is not there'], ['--B\r\n', 'a part has no end of its headers'], ['--B\r\n\r\nx\r\n--B--', 'a part has no name'],
    ['--B\r\nContent-Disposition: form-data; name="a"\r\n\r\nx', 'the last boundary is missing'], ['--B\r\nContent-Disposition: form-data; name="a"\r\n\rx\r\n--B--', 'a header without a colon'],
    ['--B\nContent-Disposition: form-data; name="a"\n\nx--B--', 'the last boundary is missing'], ['--B\r\nnothing\r\n\r\n', 'a header without a colon'], ['--B\r\nContent-Disposition: attachment; name="a"\r\n\r\nx\r\n--B--', 'a part is not form-data']]) {
    await rejects(parse(text), { name: 'TypeError', message: `Malformed multipart/form-data body: ${why}` });
  }
  await rejects(parse('', 'multipart/form-data'), { name: 'TypeError', message: 'No boundary in the Content-Type of a multipart/form-data body' });
  await rejects(parse('', 'text/plain'), { name: 'TypeError', message: 'Unrecognized Content-Type header value. FormData can only parse multipart/form-data or application/x-www-form-urlencoded.' });
});
test('codes allowed in close()', () => {
  const fresh = () => { const pair = new WebSocketPair(); pair[0].accept(); pair[1].accept(); return pair[0]; };
  for (const [code, wanted] of [[999, 'InvalidAccessError'], [1000, 'nothing'], [1001, 'nothing'], [1004, 'InvalidAccessError'], [1005, 'InvalidAccessError'], [1006, 'InvalidAccessError'], [1015, 'InvalidAccessError'],
    [3000, 'nothing'], [4999, 'nothing'], [5000, 'InvalidAccessError']]) equal(thrown(() => fresh().close(code, 'x')), wanted, `${code}`);
  equal(thrown(() => fresh().close(1000, 'é'.repeat(62))), 'SyntaxError');
  equal(thrown(() => fresh().close(1000, 'é'.repeat(61))), 'nothing');
});
test('a pair tells in order, and both ends close', async () => {
  const [a, b] = Object.values(new WebSocketPair());
  const log = [];
  b.addEventListener('message', ({ data }) => { log.push(`b${data}`); b.send(`re${data}`); });
  a.onmessage = ({ data }) => log.push(`a${data}`);
  equal(thrown(() => a.send('x')), 'TypeError');
  a.accept();
  a.send('1');
  a.send('2');
  b.accept();
  const closed = new Promise((resolve) => { a.onclose = ({ code, reason, wasClean }) => resolve(`${code} ${reason} ${wasClean}`); });
  await wait(5);
  b.close(3001, 'bye');
  equal(await closed, '3001 bye true');
  await wait(5);
  equal(log.join(), 'b1,b2,are1,are2');
  equal(`${a.readyState}${b.readyState}`, '33');
  equal(thrown(() => b.send('x')), 'TypeError');
});

/** A frame of the wire. @param {number} kind @param {string|number[]} payload */
function frame(kind, payload) {
  const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
  return new Uint8Array([kind, bytes.length & 255, bytes.length >> 8, 0, 0, ...bytes]);
}
function upgraded() {
  const [client, server] = Object.values(new WebSocketPair());
  server.accept();
  let over = false;
  web.respond(20, new Response(null, { status: 101, webSocket: client }), true, () => { over = true; });
  const [inSid, outSid] = answer().ws;
  return { client, server, inSid, outSid, over: () => over };
}
test('a 101 couples a WebSocket to the link', async () => {
  const { client, server, inSid, outSid, over } = upgraded();
  equal(answer().status, 101);
  equal(thrown(() => client.accept()), 'TypeError');
  const got = [];
  server.onmessage = ({ data }) => got.push(typeof data === 'string' ? data : String(new Uint8Array(data)));
  server.onclose = ({ code, reason }) => got.push(`${code} ${reason}`);
  const bytes = [...frame(1, 'hé'), ...frame(2, [1, 2])];
  arrive(inSid, new Uint8Array(bytes.slice(0, 3)));
  arrive(inSid, new Uint8Array(bytes.slice(3, 9)));
  arrive(inSid, new Uint8Array(bytes.slice(9)));
  await wait(2);
  equal(got.join('|'), 'hé|1,2');
  equal(streams[inSid].consumed, bytes.length);
  server.send('out');
  server.send(new Uint8Array([7]));
  equal(bytesOf(outSid).join(), String([...frame(1, 'out'), ...frame(2, [7])]));
  arrive(inSid, frame(8, [0xb9, 0x0b, 66]));
  routes.streamEnd(inSid);
  await wait(2);
  equal(got[2], '3001 B');
  ok(streams[outSid].ended, 'the close was answered');
  equal(bytesOf(outSid).slice(-7).join(), String([...frame(8, [0xb9, 0x0b])]));
  ok(over());
});
test('a 101 without an upgrade asked for is refused', () => {
  const [client] = Object.values(new WebSocketPair());
  equal(thrown(() => web.respond(21, new Response(null, { status: 101, webSocket: client }), false)), 'TypeError');
  equal(thrown(() => new Response(null, { status: 101 })), 'RangeError');
});
test('a far side that vanishes is 1006, never sent on', async () => {
  const { server, inSid, outSid } = upgraded();
  const seen = [];
  server.onclose = ({ code, wasClean }) => { seen.push(`${code} ${wasClean}`); };
  routes.streamReset(inSid, 'connection reset');
  await wait(2);
  equal(seen.join(), '1006 false');
  equal(streams[outSid].bytes.length, 0);
  equal(thrown(() => server.send('x')), 'nothing');
});
test('malformed frames end the socket', async () => {
  for (const bytes of [[3, 0, 0, 0, 0], [1, 0, 0, 0, 255], [8, 126, 0, 0, 0]]) {
    const { server, inSid } = upgraded();
    const codes = [];
    server.onclose = ({ code }) => codes.push(code);
    arrive(inSid, new Uint8Array(bytes));
    await wait(2);
    equal(codes.join(), '1006');
    equal(streams[inSid].reset, 'A malformed WebSocket message');
  }
});
test('fetch: aborting rejects, and cuts the body off', async () => {
  hooks.fetch = async (request) => web.responseFromWire(200, '', '', 30, request.url);
  const controller = new AbortController();
  const response = await fetch('http://a.test/', { signal: controller.signal });
  const text = response.text();
  arrive(30, 'abc');
  await wait(0);
  controller.abort();
  await rejects(text, { name: 'AbortError', message: 'The operation was aborted' });
  ok(streams[30].reset !== null);
  await rejects(fetch('http://a.test/', { signal: controller.signal }), { name: 'AbortError', message: 'The operation was aborted' });
  await rejects(fetch('/relative'), { name: 'TypeError', message: 'Invalid URL: /relative' });
  await rejects(fetch('http://user:pass@a.test/'), { name: 'TypeError', message: "A request's URL must not have a user name or password: http://user:pass@a.test/" });
});
test('an abort that comes before anybody asked for the signal is remembered', () => {
  const request = web.requestFromWire('GET', 'http://a.test/', '', null);
  web.abortRequest(request);
  ok(request.signal.aborted);
  equal(request.signal.reason.name, 'AbortError');
});
test('a transferred ArrayBuffer is detached', () => {
  const buffer = new ArrayBuffer(8);
  const { view, copy } = structuredClone({ view: new Uint8Array(buffer, 2, 3), copy: buffer }, { transfer: [buffer] });
  equal(buffer.byteLength, 0);
  equal(view.buffer, copy);
  equal(`${view.byteOffset} ${view.length}`, '2 3');
  equal(thrown(() => structuredClone(() => 1)), 'DataCloneError');
  equal(thrown(() => structuredClone(new Response(''))), 'DataCloneError');
});
test('there is no cache, and it says so', async () => {
  await rejects(caches.default.match('http://a.test/'), { name: 'Error', message: "Cache.match() is not implemented: this platform has no Cache API. Keep what you need in a Durable Object's storage." });
  await rejects(caches.open('x'), { name: 'Error', message: "caches.open() is not implemented: this platform has no Cache API. Keep what you need in a Durable Object's storage." });
});
test('no code is compiled from the network', () => {
  equal(typeof WebAssembly.compileStreaming, 'undefined');
  equal(typeof WebAssembly.instantiateStreaming, 'undefined');
});
test('there is no shared memory', () => {
  equal(typeof SharedArrayBuffer, 'undefined');
  equal(typeof Atomics, 'undefined');
});
test('a listener that throws is logged, and the others run', () => {
  const lines = [];
  const { log } = natives;
  natives.log = (level, text) => lines.push([level, text.split('\n')[0]]);
  const target = new EventTarget();
  let ran = 0;
  target.addEventListener('x', () => { throw new Error('bad'); });
  target.addEventListener('x', () => { ran++; });
  target.dispatchEvent(new Event('x'));
  natives.log = log;
  equal(ran, 1);
  equal(lines.join(), '0,Uncaught Error: bad');
});
