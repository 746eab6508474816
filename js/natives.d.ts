/**
 * What the C side (src/worker) gives to the JavaScript library, and what it calls. Nothing of this is reachable for guest code:
 * the library's bundle is one function that takes `natives` and returns `dispatch`, called once in the zygote, before any
 * fork. Whatever is per worker (time, random, link) works only after the fork.
 *
 * Conventions: bytes go in as Uint8Array (copied at once; a detached or shared one is a TypeError) and come out as a fresh
 * ArrayBuffer. Failures are thrown as TypeError, RangeError, or Error with a string `code`. No native calls back into
 * JavaScript, except where "calls" is said.
 */
interface Natives {
  // --- text and numbers
  utf8Encode(text: string): ArrayBuffer;                       // lone surrogates become U+FFFD
  utf8EncodeInto(text: string, to: Uint8Array): number;        // bytes written; -1: does not fit
  utf8Decode(bytes: Uint8Array, start: number, end: number, fatal: boolean): string; // TypeError when fatal and malformed
  latin1Decode(bytes: Uint8Array, start: number, end: number): string;
  latin1Encode(text: string): ArrayBuffer;                     // RangeError when a code unit is above 255
  base64Encode(bytes: Uint8Array): string;
  base64Decode(text: string): ArrayBuffer;                     // forgiving-base64; TypeError on failure
  random(to: Uint8Array): void;                                // getrandom(2)
  now(): number;                                               // ms since the epoch, whole
  monotonic(): number;                                         // ms since the fork, whole
  // --- life
  timer(id: number, ms: number): void;                         // dispatch.timer(id) after ms; one shot
  timerClear(id: number): void;
  log(level: 0 | 1 | 2 | 3, text: string): void;               // error warn info debug: LOG frame (cut at 16 KiB, rate-limited)
  evaluate(source: string, name: string, firstLine: number): any; // as a classic script, in the global scope
  wasmCompile?(bytes: Uint8Array): any;                        // unused today: WebAssembly.Module is the engine's own
  gc?(): void;                                                 // test builds only
  isProxy(value: any): boolean;                                // which nothing in the language tells
  memory(): { heapBytes: number };
  makeRoom?(bytes: number): void;                              // before so much is allocated: garbage goes when there may be much
  exit(reason: string): void;                                  // ends the process with that reason in the log: fatal errors of the library
  // --- requests: whom CPU time and pending work belong to (see "Accounting" below)
  requestBegin(cpuMs: number): number;                         // a new request is current until the present entry ends; its id
  requestEnter(id: number): void;                              // makes an existing one current for the rest of this entry (0: nobody's)
  requestEnd(id: number): void;
  requestCurrent(): number;
  requestCell: Uint32Array;                                    // its only number is requestCurrent(), for whoever asks often
  // --- link calls
  call(capability: number, method: string, args: Uint8Array): number;      // call id; dispatch.answer() follows
  callSync(capability: number, method: string, args: Uint8Array): ArrayBuffer; // waits; throws what was thrown there. Other events wait.
  cancel(call: number): void;
  drop(capability: number): void;
  return(call: number, value: Uint8Array): void;               // answers dispatch.call()
  throw(call: number, code: string, message: string): void;
  /** Answers dispatch.fetch(). body: nothing, text, bytes, or the number of a stream opened for sending (a number). */
  respond(call: number, status: number, statusText: string, headers: string, body: null | string | Uint8Array | number, ws?: [number, number]): void;
  // --- streams of the link
  streamNew(): number;                                         // a fresh number
  streamSend(id: number): void;                                // opens for sending
  streamReceive(id: number): void;                             // opens for receiving
  streamWrite(id: number, bytes: Uint8Array): number;          // takes everything, buffers what has no credit; returns bytes buffered
                                                               // (0: room for more; else wait for dispatch.streamWritable)
  streamEnd(id: number): void;                                 // after what was written
  streamReset(id: number, message: string): void;              // either direction
  streamConsumed(id: number, bytes: number): void;             // gives credit back
  // --- channels: a stream each way, in whole messages
  channelOpen(inSid: number, outSid: number): number;          // opens both; id of the channel
  /** The message may come in two pieces. Queued without bound up to 64 MiB, then RangeError. */
  channelSend(channel: number, message: Uint8Array, tail?: Uint8Array): void;
  channelClose(channel: number, message: string): void;
  // --- crypto (src/worker/native_crypto.c) and compression (native_zlib.c): see js/src/crypto/natives.d.ts
  crypto: CryptoNatives;
  zlib: ZlibNatives;
}

/** What C calls. Every call is one entry: microtasks are drained before it returns to C. None may throw. */
interface Dispatch {
  start(): void;                                               // in the child, first: reseed, set the clock
  /** In the zygote, before start() and any fork: exercises what a first request uses, so many times (it may go on in microtasks), then (0) leaves
   *  nothing of that which code could observe. Throws when it did not work. */
  warmUp?(times: number): void;
  call(call: number, method: string, args: ArrayBuffer): void; // a method of capability 0 other than fetch
  fetch(call: number, method: string, url: string, headers: string, body: null | number | ArrayBuffer, ws: boolean, peer: string): void;
  cancelled(call: number): void;
  answer(call: number, code: string | null, message: string, value: ArrayBuffer | undefined): void;
  timer(id: number): void;
  streamData(id: number, bytes: ArrayBuffer): void;
  streamEnd(id: number): void;
  streamReset(id: number, message: string): void;
  streamWritable(id: number): void;
  channelMessage(channel: number, message: ArrayBuffer): void;
  channelClosed(channel: number, message: string | null): void;
  unhandledRejection(promise: any, reason: any): void;
  /** The engine was stopped while running for `request`: reject what it owes with `message`. Runs in a fresh entry. */
  requestKilled(request: number, message: string): void;
}
/*
 * Accounting. C holds the "current request". dispatch.fetch and dispatch.call set none; the library calls requestBegin() as soon as it
 * knows that an entry serves a new request. Timers, calls, streams and channels remember the request that was current when they were
 * made, and their events run with it. CPU time of every entry is charged to the request current at its end (and when it changes). Over
 * its cpuMs the engine is stopped uncatchably, then requestKilled() is called. An entry that does not come back within 500 ms more
 * (microtask chains) ends the process with WORKER_EXIT_CPU.
 */
