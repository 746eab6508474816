/**
 * The Web API of a Worker. `installWeb` puts it on the global object (or what stands for it) and returns what the rest of the
 * library needs of it. Nothing here runs guest code or uses the natives while it is being installed, so it is done once, in the
 * zygote; `start()` is called in the child.
 */
import { ObjectDefineProperty, ObjectKeys, StringPrototypeSlice, TypeError, describeError, promiseThen } from '../primordials.js';
import { natives } from '../natives.js';
import { AbortController, AbortSignal, abortSignal, addAbortAlgorithm, anySignal, isSignal, newSignal, removeAbortAlgorithm, setAbortTimer } from './abort.js';
import { Blob, File, blobBytes, blobOf, fileOf, isBlob, isFile } from './blob.js';
import { Body, cancelBody, cloneBody, dropBody, hasBody, isBody, moveBody, setBody, takeWire, unusable } from './body.js';
import { Cache, CacheStorage, caches } from './caches.js';
import { CompressionStream, DecompressionStream } from './compression.js';
import { createConsole } from './console.js';
import { DOMException, domError, isDOMException } from './dom_exception.js';
import { TextDecoder, TextDecoderStream, TextEncoder, TextEncoderStream, atob, btoa } from './encoding.js';
import {
  CloseEvent, CustomEvent, ErrorEvent, Event, EventTarget, MessageEvent, ProgressEvent, PromiseRejectionEvent, eventAttributes, fire, getGlobalTarget,
  hasListener, setEventServices, setGlobalObject,
} from './events.js';
import { createFetch } from './fetch.js';
import { FormData, isFormData } from './form_data.js';
import { Headers, copyHeaders, fromWire, getHeader, isHeaders, putHeader, toWire } from './headers.js';
import { FixedLengthStream, IdentityTransformStream } from './identity_streams.js';
import { formatLog, inspect } from './inspect.js';
import './views.js';
import { LinkBody, relay, sendStream } from './link_body.js';
import { MessageChannel, MessagePort } from './message_port.js';
import { Navigator, navigator } from './navigator.js';
import { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, eventClock, performance, startClock } from './performance.js';
import { Request, abortRequest, isRequest, requestFromWire, requestHeader, requestSignal, requestToWire, setBaseURL } from './request.js';
import { Response, isResponse, respond, responseFromWire, responseHeader, responseToWire, setResponseBaseURL } from './response.js';
import * as streams from './streams.js';
import { cloneWithTransfer, registerCopier, registerInterface, registerTransferer, structuredClone } from './structured_clone.js';
import { createTimers } from './timers.js';
import './transferable_streams.js';
import { URLPattern } from './url_pattern.js';
import { URL, URLSearchParams, isURL, isURLSearchParams, parseURL } from './url.js';
import { compileAtOnce, forbidSharedMemory } from './wasm.js';
import { WebSocket, WebSocketPair, claimWebSocket, coupleLink, coupleTransport, handleWebSocketWith, isWebSocket, makePair, setConnect, setProtocol, webSocketOfLink, webSocketRules } from './websocket.js';
import { setTimer } from '../link.js';

/**
 * @typedef {object} WebHooks
 * @property {(request: any) => Promise<any>} [fetch] sends a Request, gives a Response; set by whoever knows how
 * @property {(callback: any) => any} [bindStore] binds a callback to what AsyncLocalStorage holds now
 * @property {(callback: any) => any} [bindContext] binds it to the request of now, too
 */

/**
 * @param {any} target the global object @param {WebHooks} hooks may be filled in later
 */
export function installWeb(target, hooks) {
  /** What no handler caught: the global "error" event, then the log. @param {any} error */
  const reportException = (error) => {
    const global = getGlobalTarget();
    if (hasListener(global, 'error')) {
      const event = new ErrorEvent('error', { __proto__: null, cancelable: true, message: describeHead(error), error });
      if (!fire(global, event)) return;
    }
    natives.log(0, `Uncaught ${describeError(error)}`);
  };
  setEventServices({ clock: eventClock, report: reportException, bindStore: (callback) => (hooks.bindStore ? hooks.bindStore(callback) : callback) });
  setGlobalObject(target);
  setAbortTimer((run, ms) => setTimer(ms > 0x7fffffff ? 0x7fffffff : ms, run));
  const timers = createTimers(hooks, reportException);
  const console = createConsole();
  const fetch = createFetch(hooks);
  setConnect((url, protocols) => {
    const headers = new Headers();
    putHeader(headers, 'upgrade', 'websocket');
    let names = '';
    for (let i = 0; i < protocols.length; i++) names += i === 0 ? protocols[i] : `, ${protocols[i]}`;
    if (names !== '') putHeader(headers, 'sec-websocket-protocol', names);
    return promiseThen(fetch(url[0] === 'w' ? `http${StringPrototypeSlice(url, 2)}` : url, { __proto__: null, headers }), (response) => {
      const { status, webSocket } = responseToWire(response);
      if (webSocket === null) cancelBody(response);
      return {
        __proto__: null, status, webSocket, protocol: responseHeader(response, 'sec-websocket-protocol') ?? '', extensions: responseHeader(response, 'sec-websocket-extensions') ?? '',
      };
    });
  });

  const interfaces = /** @type {Record<string, any>} */ ({
    __proto__: null,
    AbortController, AbortSignal, Blob, Cache, CacheStorage, ByteLengthQueuingStrategy: streams.ByteLengthQueuingStrategy, CloseEvent, CompressionStream,
    CountQueuingStrategy: streams.CountQueuingStrategy, CustomEvent, DOMException, DecompressionStream, ErrorEvent, Event, EventTarget, File,
    FixedLengthStream, FormData, Headers, IdentityTransformStream, MessageChannel, MessageEvent, MessagePort, Navigator,
    Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, ProgressEvent, PromiseRejectionEvent,
    ReadableByteStreamController: streams.ReadableByteStreamController, ReadableStream: streams.ReadableStream,
    ReadableStreamBYOBReader: streams.ReadableStreamBYOBReader, ReadableStreamBYOBRequest: streams.ReadableStreamBYOBRequest,
    ReadableStreamDefaultController: streams.ReadableStreamDefaultController, ReadableStreamDefaultReader: streams.ReadableStreamDefaultReader,
    Request, Response, TextDecoder, TextDecoderStream, TextEncoder, TextEncoderStream, TransformStream: streams.TransformStream,
    TransformStreamDefaultController: streams.TransformStreamDefaultController, URL, URLPattern, URLSearchParams, WebSocket, WebSocketPair, WritableStream: streams.WritableStream,
    WritableStreamDefaultController: streams.WritableStreamDefaultController, WritableStreamDefaultWriter: streams.WritableStreamDefaultWriter,
  });
  const names = ObjectKeys(interfaces);
  for (let i = 0; i < names.length; i++) {
    put(names[i], interfaces[names[i]], false);
    registerInterface(interfaces[names[i]].prototype);
  }
  /** @param {string} name @param {any} value @param {boolean} enumerable */
  function put(name, value, enumerable) {
    ObjectDefineProperty(target, name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable, configurable: true }));
  }

  const operations = /** @type {Record<string, any>} */ ({
    __proto__: null, ...timers.functions, atob, btoa, structuredClone, fetch,
    reportError(/** @type {any} */ error) {
      if (arguments.length < 1) throw new TypeError('reportError: 1 argument required, but only 0 present');
      reportException(error);
    },
    addEventListener: EventTarget.prototype.addEventListener,
    removeEventListener: EventTarget.prototype.removeEventListener,
    dispatchEvent: EventTarget.prototype.dispatchEvent,
  });
  const functions = ObjectKeys(operations);
  for (let i = 0; i < functions.length; i++) put(functions[i], operations[functions[i]], true);
  eventAttributes(target, ['error', 'unhandledrejection', 'rejectionhandled']);
  put('console', console, false);
  put('performance', performance, true);
  put('navigator', navigator, true);
  put('scheduler', timers.scheduler, true);
  put('caches', caches, true);
  put('self', target, true);
  if (target.WebAssembly !== undefined) { // code comes with the Worker, never from the network
    delete target.WebAssembly.compileStreaming;
    delete target.WebAssembly.instantiateStreaming;
    forbidSharedMemory(target.WebAssembly);
    compileAtOnce(target.WebAssembly);
  }
  delete target.SharedArrayBuffer;
  delete target.Atomics;

  return {
    /** In the child: the clock starts. */
    start: startClock,
    /** dispatch.unhandledRejection: the global event, else the log. @param {any} promise @param {any} reason */
    unhandledRejection(promise, reason) {
      const global = getGlobalTarget();
      if (hasListener(global, 'unhandledrejection')) {
        const event = new PromiseRejectionEvent('unhandledrejection', { __proto__: null, cancelable: true, promise, reason });
        if (!fire(global, event)) return;
      }
      natives.log(0, `Uncaught (in promise) ${describeError(reason)}`);
    },
    reportException, console, inspect, formatLog, timers: timers.functions,
    setBaseURL(/** @type {string|undefined} */ url) { setBaseURL(url); setResponseBaseURL(url); },
    // Requests, responses, bodies: see the comments at their definitions.
    Request, Response, Headers, Body,
    isRequest, requestFromWire, requestToWire, requestSignal, requestHeader, abortRequest,
    isResponse, responseFromWire, responseToWire, responseHeader, respond,
    isHeaders, headersFromWire: fromWire, headersToWire: toWire, getHeader, putHeader, copyHeaders,
    isBody, takeWire, setBody, moveBody, cloneBody, dropBody, unusable, hasBody,
    LinkBody, relay, sendStream, streams,
    WebSocket, WebSocketPair, isWebSocket, makePair, claimWebSocket, coupleLink, coupleTransport, webSocketOfLink, handleWebSocketWith, setProtocol, webSocketRules,
    // Others
    Event, EventTarget, MessageEvent, CloseEvent, ErrorEvent, fire, eventAttributes,
    AbortController, AbortSignal, newSignal, abortSignal, anySignal, isSignal, addAbortAlgorithm, removeAbortAlgorithm,
    Blob, File, isBlob, isFile, blobBytes, blobOf, fileOf, FormData, isFormData, URL, isURL, URLSearchParams, isURLSearchParams, parseURL,
    TextEncoder, TextDecoder, DOMException, domError, isDOMException,
    structuredClone, cloneWithTransfer, registerCopier, registerTransferer, registerInterface,
  };
}

/** @param {any} error */
function describeHead(error) {
  try {
    return typeof error === 'object' && error !== null && typeof error.message === 'string' ? `Uncaught ${error.name}: ${error.message}` : `Uncaught ${error}`;
  } catch {
    return 'Uncaught exception';
  }
}
