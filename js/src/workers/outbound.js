/** Where the global fetch() goes: to the daemon, to the parent's stub, or nowhere (src/link/worker_protocol.h, `outbound`). */
import { Error, TypeError, Uint8Array, newPromise, nullObject, promiseReject } from '../primordials.js';
import { natives } from '../natives.js';
import { breakReceiving, cancelCall, startCall, streamReset } from '../link.js';
import { addAbortAlgorithm, removeAbortAlgorithm } from '../web/abort.js';
import { takeWire } from '../web/body.js';
import { inlineOrStream } from '../web/link_body.js';
import { requestHeader, requestSignal, requestToWire } from '../web/request.js';
import { responseFromWire } from '../web/response.js';
import { webSocketOfLink } from '../web/websocket.js';
import { closeAtEnd, currentContext } from '../rpc/context.js';
import { serviceFetch } from '../rpc/http.js';

const REFUSED = "This worker is not permitted to access the internet via global functions like fetch(). It must use capabilities (such as bindings in 'env') to talk to the outside world.";

const outbound = /** @type {{mode: "daemon"|"channel"|"none", target: import('../rpc/target.js').Target|null}} */ ({ __proto__: null, mode: 'none', target: null });

/** @param {"daemon"|"channel"|"none"} mode @param {import('../rpc/target.js').Target|null} target owned */
export function setOutbound(mode, target) {
  outbound.mode = mode;
  outbound.target = target;
}

/** Whom connections go through; null: the daemon makes them. Throws when there are none. @returns {import('../rpc/target.js').Target|null} */
export function outboundTarget() {
  if (outbound.mode === 'daemon') return null;
  if (outbound.mode !== 'channel' || outbound.target === null) throw new Error(REFUSED);
  return outbound.target;
}

/** hooks.fetch of installWeb(). @param {any} request @returns {Promise<any>} */
export function fetchOutbound(request) {
  if (outbound.mode === 'none') return promiseReject(new Error(REFUSED));
  if (outbound.mode === 'channel') {
    if (outbound.target === null) return promiseReject(new Error(REFUSED));
    return serviceFetch(outbound.target, request, undefined);
  }
  try {
    currentContext()?.subRequest();
    return linkFetch(0, 'fetch', request);
  } catch (error) {
    return promiseReject(error);
  }
}

/**
 * Sends a request to an object of the daemon that answers with a response. @param {number} capability @param {string} method @param {any} request
 * @returns {Promise<any>}
 */
export function linkFetch(capability, method, request) {
  const args = nullObject();
  const wire = requestToWire(request);
  args.method = wire.method;
  args.url = wire.url;
  args.headers = wire.headers;
  args.redirect = wire.redirect;
  const upgrade = requestHeader(request, 'upgrade');
  if (upgrade !== null && upgrade !== undefined) return openWebSocket(capability, method, args, requestSignal(request), wire.url);
  const body = bodyArgument(takeWire(request));
  if (body !== null) args.body = body;
  const signal = requestSignal(request);
  const context = currentContext();
  return newPromise((resolve, reject) => {
    const abort = () => cancelCall(id);
    const end = () => { if (signal !== null) removeAbortAlgorithm(signal, abort); };
    const id = startCall(capability, method, args, (answer) => {
      end();
      try {
        const response = responseOf(answer, wire.url);
        endWith(context, answer.body);
        resolve(response);
      } catch (error) {
        reject(error);
      }
    }, (error) => {
      end();
      reject(error);
    });
    if (signal !== null) addAbortAlgorithm(signal, abort);
  });
}

/** @param {any} body takeWire()'s @returns {Uint8Array|number|null} */
function bodyArgument(body) {
  if (body !== null && typeof body !== 'string' && !(body instanceof Uint8Array)) return body.stream().id;
  const inline = inlineOrStream(body);
  return typeof inline === 'string' ? new Uint8Array(natives.utf8Encode(inline)) : inline;
}

/** A body that nobody reads ends with its request. @param {import('../rpc/context.js').RequestContext|null} context @param {any} body */
function endWith(context, body) {
  if (typeof body !== 'number' || context === null || context.keeper !== null) return;
  const dispose = () => breakReceiving(body, 'The request that the body belongs to is over.');
  if (context.ended) dispose();
  else context.disposables.add({ dispose });
}

/**
 * Asks for a WebSocket, which ends with the request. @param {number} capability @param {string} method @param {any} args @param {any} signal or null
 * @param {string} url @returns {Promise<any>}
 */
function openWebSocket(capability, method, args, signal, url) {
  args.ws = true;
  /** @type {{in: number, out: number}|null} */
  let streams = null;
  const forget = closeAtEnd(() => {
    if (streams === null) {
      cancelCall(id);
      return;
    }
    streamReset(streams.in, 'the request is over');
    streamReset(streams.out, 'the request is over');
  });
  let id = 0;
  return newPromise((resolve, reject) => {
    const abort = () => cancelCall(id);
    const end = () => { if (signal !== null) removeAbortAlgorithm(signal, abort); };
    id = startCall(capability, method, args, (answer) => {
      end();
      try {
        streams = answer?.ws ?? null;
        if (streams === null) forget();
        resolve(responseOf(answer, url, forget));
      } catch (error) {
        reject(error);
      }
    }, (error) => {
      end();
      forget();
      reject(error);
    });
    if (signal !== null) addAbortAlgorithm(signal, abort);
  });
}

/** @param {any} answer of the daemon @param {string} url @param {() => void} [ended] its WebSocket is over @returns {any} */
export function responseOf(answer, url, ended = undefined) {
  if (answer === null || typeof answer !== 'object' || typeof answer.status !== 'number') throw new TypeError('The answer is no response.');
  const { body, ws } = answer;
  const webSocket = ws === undefined ? null : webSocketOfLink(ws.in, ws.out, ended).socket;
  return responseFromWire(answer.status, answer.statusText, answer.headers ?? '', body === undefined ? null : body, answer.url ?? url,
    /** @type {any} */ ({ __proto__: null, redirected: answer.url !== undefined && answer.url !== url, webSocket }));
}
