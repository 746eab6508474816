// The smallest library: lets tests run JavaScript in a worker and see every event of the dispatch. Calls: `eval` (a CBOR text, or the map
// {source, cpuMs}) answers with the text of the result.
(function (natives) {
  "use strict";
  const { Uint8Array, String, Promise, Error, Object, JSON } = globalThis;
  const T = { natives, events: [], on: Object.create(null), started: 0 };

  function readText(bytes, at) {
    const info = bytes[at] & 31;
    let length = info, start = at + 1;
    if (info === 24) { length = bytes[at + 1]; start = at + 2; }
    if (info === 25) { length = bytes[at + 1] * 256 + bytes[at + 2]; start = at + 3; }
    if (info === 26) { length = ((bytes[at + 1] * 256 + bytes[at + 2]) * 256 + bytes[at + 3]) * 256 + bytes[at + 4]; start = at + 5; }
    return natives.utf8Decode(bytes, start, start + length, true);
  }
  function cborText(text) {
    const utf8 = new Uint8Array(natives.utf8Encode(text)), n = utf8.length;
    const out = new Uint8Array(5 + n);
    out.set([0x7a, n >>> 24, n >>> 16, n >>> 8, n]);
    out.set(utf8, 5);
    // In the shortest form, as the link demands.
    if (n < 24) { out[4] = 0x60 | n; return out.subarray(4); }
    if (n < 256) { out[3] = 0x78; return out.subarray(3); }
    if (n < 65536) { out[2] = 0x79; return out.subarray(2); }
    return out;
  }
  T.cborText = cborText;
  T.readText = readText;

  function record(name) {
    return (...args) => {
      T.events.push([name, ...args.map((a) => (a instanceof ArrayBuffer ? a.byteLength : a))]);
      if (T.on[name]) T.on[name](...args);
    };
  }
  const owing = new Map();
  const dispatch = {
    start() { T.started++; globalThis.T = T; },
    call(call, method, args) {
      if (method === "init") { natives.return(call, new Uint8Array([0xf6])); return; }
      if (method !== "eval" && !method.startsWith("eval:")) {
        natives.throw(call, "UNSUPPORTED", `no method ${method}`);
        return;
      }
      const request = natives.requestBegin(method === "eval" ? 0 : Number(method.slice(5)));
      owing.set(request, call);
      const done = (run) => { if (owing.delete(request)) { run(); } natives.requestEnd(request); };
      try {
        const value = natives.evaluate(readText(new Uint8Array(args), 0), "test", 1);
        Promise.resolve(value).then(
          (v) => done(() => natives.return(call, cborText(String(v)))),
          (e) => done(() => natives.throw(call, "INTERNAL", String(e))));
      } catch (e) {
        done(() => natives.throw(call, "INTERNAL", String(e)));
      }
    },
    fetch(call, method, url, headers, body, ws, peer) {
      if (T.on.fetch) { T.on.fetch(call, method, url, headers, body, ws, peer); return; }
      natives.respond(call, 200, "OK", "content-type\ntext/plain", "Hello, world!");
    },
    requestKilled(request, message) {
      const call = owing.get(request);
      if (owing.delete(request)) natives.throw(call, "LIMIT_EXCEEDED", message);
      T.events.push(["requestKilled", request, message]);
    },
    unhandledRejection(promise, reason) { T.events.push(["unhandledRejection", String(reason)]); },
  };
  for (const name of ["cancelled", "answer", "timer", "streamData", "streamEnd", "streamReset", "streamWritable", "channelMessage", "channelClosed"]) {
    dispatch[name] = record(name);
  }
  return dispatch;
})
