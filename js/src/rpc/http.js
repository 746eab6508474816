/** Headers, Request, Response, Blob, File and DOMException as values of RPC, and fetch() on a service. */
import {
  Error, ObjectGetOwnPropertyDescriptor, StringPrototypeCharCodeAt, TypeError, TypedArrayPrototypeGetLength, Uint8Array, newPromise, uncurryThis,
} from '../primordials.js';
import { addAbortAlgorithm, removeAbortAlgorithm } from '../web/abort.js';
import { Blob, File, blobBytes, blobOf, fileOf, isBlob, isFile } from '../web/blob.js';
import { STREAM, cancelBody, hasBody, setBody, unusable } from '../web/body.js';
import { DOMException, domError, isDOMException } from '../web/dom_exception.js';
import { Headers, dropHeader, fromWire, isHeaders, toWire } from '../web/headers.js';
import { Request, isRequest, requestFromWire, requestSignal, requestToWire } from '../web/request.js';
import { Response, isResponse, locateResponse, responseFromWire, responseHeader, responseToWire } from '../web/response.js';
import { consumeStream, originOf } from '../web/streams.js';
import { URL } from '../web/url.js';
import { BYTES, UINT, malformed, rawList } from './cbor.js';
import { registerPlatformType, setDataCloneError } from './codec.js';
import { currentContext } from './context.js';
import { FETCH, READABLE, SOCKET } from './target.js';
import { socketTarget } from './sockets.js';
import { setServiceFetch } from './stub.js';
import { ReadableTarget, readCapability, streamSource, writeCapability } from './streams.js';
import { decodeFailure, decodeResult, encodeArguments } from './values.js';

setDataCloneError((message) => domError('DataCloneError', message));

const MAX_REDIRECTS = 20, OF_BODIES = ['content-encoding', 'content-language', 'content-length', 'content-location', 'content-type', 'transfer-encoding'];
/** Bodies up to this size travel in the call. */
const INLINE_MAX = 4 << 20;
const bodyOf = uncurryThis(/** @type {any} */ (ObjectGetOwnPropertyDescriptor(Response.prototype, 'body')).get);
const [urlHref, urlOrigin, urlProtocol] = [getter('href'), getter('origin'), getter('protocol')];
const requestBodyOf = uncurryThis(/** @type {any} */ (ObjectGetOwnPropertyDescriptor(Request.prototype, 'body')).get);

/** @param {string} name of a property of addresses */
function getter(name) {
  return uncurryThis(/** @type {any} */ (ObjectGetOwnPropertyDescriptor(URL.prototype, name)).get);
}

/** @param {any} message @param {any} stream its body @param {import('./codec.js').Encoder} encoder */
function writeBody(message, stream, encoder) {
  if (!hasBody(message)) {
    encoder.writer.null();
    return;
  }
  if (unusable(message)) throw new TypeError('Body has already been used. It can only be used once. Use tee() first if you need to read it twice.');
  const origin = originOf(stream);
  if (origin instanceof Uint8Array && TypedArrayPrototypeGetLength(origin) <= INLINE_MAX) {
    encoder.writer.raw(BYTES, origin);
    consumeStream(stream);
  } else {
    writeCapability(encoder, READABLE, new ReadableTarget(streamSource(stream)));
  }
}

/** @param {import('./codec.js').Decoder} decoder @param {(body: any) => any} make takes bytes or null */
function readBody(decoder, make) {
  const { reader } = decoder;
  const first = reader.at < reader.end ? reader.bytes[reader.at] : 0;
  if (first >> 5 === UINT) {
    const stream = readCapability(decoder, READABLE);
    const message = make(null);
    setBody(message, STREAM, stream);
    return message;
  }
  if (first >> 5 === BYTES) return make(decoder.bytes());
  if (decoder.value() !== null) malformed('a body was expected');
  return make(null);
}

/** @param {any} cf */
const plainOrAbsent = (cf) => (cf === null ? undefined : cf);

registerPlatformType(Headers.prototype, {
  number: 1, test: isHeaders,
  write: (headers, encoder) => encoder.string(toWire(headers)),
  read: (decoder) => fromWire(checkHeaders(decoder.string())),
});
registerPlatformType(Request.prototype, {
  number: 2, rpcOnly: true, test: isRequest,
  write(request, encoder) {
    const { method, url, headers, redirect, cf } = requestToWire(request);
    encoder.string(method);
    encoder.string(url);
    encoder.string(headers);
    encoder.string(redirect);
    encoder.value(cf ?? null);
    writeBody(request, hasBody(request) ? requestBodyOf(request) : null, encoder);
    const signal = requestSignal(request);
    if (signal === null) encoder.writer.null();
    else encoder.value(signal);
  },
  read(decoder) {
    const method = decoder.string(), url = decoder.string(), headers = checkHeaders(decoder.string()), redirect = decoder.string();
    const cf = decoder.value();
    if (!isToken(method) || (redirect !== 'follow' && redirect !== 'manual' && redirect !== 'error')) malformed('a request was expected');
    const request = readBody(decoder, (body) => requestFromWire(method, url, headers, body, plainOrAbsent(cf)));
    const signal = decoder.value();
    // Its own signal follows the other side's.
    if (signal !== null) return new Request(request, /** @type {any} */ ({ __proto__: null, signal, redirect }));
    return redirect === 'manual' ? request : new Request(request, /** @type {any} */ ({ __proto__: null, redirect }));
  },
});
registerPlatformType(Response.prototype, {
  number: 3, rpcOnly: true, test: isResponse,
  write(response, encoder) {
    const { status, statusText, headers, url, cf, webSocket } = responseToWire(response);
    encoder.writer.number(status);
    encoder.string(statusText);
    encoder.string(headers);
    encoder.string(url);
    encoder.value(cf ?? null);
    if (webSocket !== null && webSocket !== undefined) writeCapability(encoder, SOCKET, socketTarget(webSocket));
    else encoder.writer.null();
    writeBody(response, hasBody(response) ? bodyOf(response) : null, encoder);
  },
  read(decoder) {
    const status = decoder.value(), statusText = decoder.string(), headers = checkHeaders(decoder.string()), url = decoder.string();
    const cf = decoder.value();
    const { reader } = decoder;
    let webSocket = null;
    if (reader.at < reader.end && reader.bytes[reader.at] >> 5 === UINT) webSocket = readCapability(decoder, SOCKET);
    else if (decoder.value() !== null) malformed('a WebSocket was expected');
    const least = webSocket === null ? 200 : 101;
    if (typeof status !== 'number' || !(status >= least && status <= 599) || status !== (status | 0)) malformed('a status was expected');
    return readBody(decoder, (body) => responseFromWire(status, statusText, headers, body, url, /** @type {any} */ ({ __proto__: null, cf: plainOrAbsent(cf), webSocket })));
  },
});
// File first in the chain of prototypes, so that Blob is only asked for what is no File.
registerPlatformType(File.prototype, {
  number: 8, test: isFile,
  write(file, encoder) {
    encoder.string(file.name);
    encoder.string(file.type);
    encoder.writer.number(file.lastModified);
    encoder.writer.raw(BYTES, blobBytes(file));
  },
  read(decoder) {
    const name = decoder.string(), type = decoder.string(), time = decoder.value();
    if (typeof time !== 'number') malformed('a time was expected');
    return fileOf(new Uint8Array(decoder.bytes()), name, type, time);
  },
});
registerPlatformType(Blob.prototype, {
  number: 7, test: isBlob,
  write(blob, encoder) {
    encoder.string(blob.type);
    encoder.writer.raw(BYTES, blobBytes(blob));
  },
  read(decoder) {
    const type = decoder.string();
    return blobOf(new Uint8Array(decoder.bytes()), type);
  },
});
registerPlatformType(DOMException.prototype, {
  number: 9, test: isDOMException,
  write(error, encoder) {
    encoder.string(error.name);
    encoder.string(error.message);
  },
  read(decoder) {
    const name = decoder.string();
    return domError(name, decoder.string());
  },
});

/** @param {string} text */
function isToken(text) {
  for (let i = 0; i < text.length; i++) {
    const unit = StringPrototypeCharCodeAt(text, i);
    if (unit <= 32 || unit >= 127) return false;
  }
  return text.length > 0;
}

/** The wire's form: names and values, one a line; nothing that would become another line. @param {string} text */
function checkHeaders(text) {
  for (let i = 0; i < text.length; i++) {
    const unit = StringPrototypeCharCodeAt(text, i);
    if (unit === 0 || unit === 13 || unit > 255) malformed('a header with a character that none may have');
  }
  return text;
}

/** @param {any} target @param {any} input @param {any} init @returns {Promise<any>} */
export function serviceFetch(target, input, init) {
  return newPromise((resolve, reject) => {
    const request = init === undefined && isRequest(input) ? input : new Request(input, init);
    const wire = requestToWire(request), signal = requestSignal(request);
    if (wire.redirect === 'manual') {
      callService(target, request, signal, resolve, reject);
      return;
    }
    // What a further request would repeat: as it was when fetch() was called.
    const body = hasBody(request) ? originOf(requestBodyOf(request)) ?? null : undefined;
    follow(target, request, signal, wire, body, 0, resolve, reject);
  });
}
setServiceFetch(serviceFetch);

/**
 * @param {any} target @param {any} request @param {any} signal @param {any} wire of the request @param {any} body undefined: it has none; what is no
 * Uint8Array cannot be sent again @param {number} count of redirects until here @param {(response: any) => void} done @param {(error: any) => void} failed
 */
function follow(target, request, signal, wire, body, count, done, failed) {
  callService(target, request, signal, (response) => {
    try {
      const next = nextRequest(response, wire, body, count);
      if (next === null) {
        locateResponse(response, wire.url, count > 0);
        done(response);
        return;
      }
      cancelBody(response);
      follow(target, next, signal, requestToWire(next), hasBody(next) ? body : undefined, count + 1, done, failed);
    } catch (error) {
      failed(error);
    }
  }, failed);
}

/** @param {any} response @param {any} wire @param {any} body @param {number} count @returns {any} where it redirects to; null: nowhere */
function nextRequest(response, wire, body, count) {
  const { status } = responseToWire(response);
  if (status !== 301 && status !== 302 && status !== 303 && status !== 307 && status !== 308) return null;
  const location = responseHeader(response, 'location');
  if (location === null) return null;
  if (wire.redirect === 'error') throw new TypeError(`The answer of ${wire.url} is a redirect, and 'redirect' is "error".`);
  if (count >= MAX_REDIRECTS) throw new TypeError(`More than ${MAX_REDIRECTS} redirects, the last of them by ${wire.url}.`);
  const from = new URL(wire.url), to = new URL(location, wire.url);
  const protocol = urlProtocol(to);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError(`${wire.url} redirects to an address that is none of HTTP.`);
  const headers = fromWire(wire.headers);
  let { method } = wire;
  if ((status === 303 && method !== 'GET' && method !== 'HEAD') || (status <= 302 && method === 'POST')) {
    method = 'GET';
    body = undefined;
    for (let i = 0; i < OF_BODIES.length; i++) dropHeader(headers, OF_BODIES[i]);
  }
  if (body !== undefined && !(body instanceof Uint8Array)) throw new TypeError(`${wire.url} redirects a request whose body is a stream, which cannot be sent twice.`);
  if (urlOrigin(from) !== urlOrigin(to)) {
    dropHeader(headers, 'authorization');
    dropHeader(headers, 'cookie');
  }
  const next = requestFromWire(method, urlHref(to), toWire(headers), body ?? null, wire.cf);
  return wire.redirect === 'manual' ? next : new Request(next, /** @type {any} */ ({ __proto__: null, redirect: wire.redirect }));
}

/** One request. @param {any} target @param {any} request @param {any} signal @param {(response: any) => void} done @param {(error: any) => void} failed */
function callService(target, request, signal, done, failed) {
  const context = currentContext();
  context?.subRequest();
  if (signal !== null && signal.aborted) {
    failed(signal.reason);
    return;
  }
  const result = target.call(rawList(), FETCH, encodeArguments([request]));
  const abort = () => {
    result.finish();
    failed(signal.reason);
  };
  if (signal !== null) addAbortAlgorithm(signal, abort);
  result.listen(() => {
    if (signal !== null) removeAbortAlgorithm(signal, abort);
    context?.enter();
    if (result.state === 2) {
      failed(decodeFailure(result.take()));
      result.finish();
      return;
    }
    try {
      const response = decodeResult(result);
      if (!isResponse(response)) throw new TypeError('Incorrect type for the result of fetch(): a Response was expected.');
      done(response);
    } catch (error) {
      failed(error);
    }
  });
}
