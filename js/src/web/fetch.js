/** The front of fetch(): the arguments become a Request, `hooks.fetch` sends it, and an abort rejects at once. */
import { Error, newPromise, StringPrototypeStartsWith, promiseReject, promiseThen } from '../primordials.js';
import { addAbortAlgorithm, removeAbortAlgorithm } from './abort.js';
import { cancelBody, failable } from './body.js';
import { fetchData } from './data_url.js';
import { Request, isRequest, requestSignal, requestToWire } from './request.js';
import { isResponse } from './response.js';
import { requireArguments } from './webidl.js';

/** @param {{fetch?: (request: any) => any}} hooks fetch sends a Request and gives a promise of a Response */
export function createFetch(hooks) {
  /** @param {any} input @param {any} [init] */
  return function fetch(input, init = undefined) {
    /** @type {any} */ let request;
    try {
      requireArguments(arguments.length, 1, 'fetch');
      request = init === undefined && isRequest(input) ? new Request(input) : new Request(input, init);
    } catch (error) {
      return promiseReject(error);
    }
    const { url } = requestToWire(request);
    if (StringPrototypeStartsWith(url, 'data:')) return abortable(requestSignal(request), () => fetchData(url, request));
    const send = hooks.fetch;
    if (send === undefined) return promiseReject(new Error('fetch: this Worker has no way to send requests'));
    const signal = requestSignal(request);
    if (signal !== null && signal.aborted) cancelBody(request, signal.reason);
    return abortable(signal, () => send(request));
  };
}

/** Runs a call that `signal` may abort. @param {any} signal or null @param {() => any} run @returns {Promise<any>} */
export function abortable(signal, run) {
  if (signal === null) {
    try {
      return promiseThen(run(), checked);
    } catch (error) {
      return promiseReject(error);
    }
  }
  if (signal.aborted) return promiseReject(signal.reason);
  return newPromise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    addAbortAlgorithm(signal, stop);
    promiseThen(run(), (response) => {
      removeAbortAlgorithm(signal, stop);
      try {
        checked(response);
      } catch (error) {
        reject(error);
        return;
      }
      const fail = failable(response);
      if (signal.aborted) fail(signal.reason);
      else addAbortAlgorithm(signal, () => fail(signal.reason));
      resolve(response);
    }, (error) => {
      removeAbortAlgorithm(signal, stop);
      reject(error);
    });
  });
}
/** @param {any} response */
function checked(response) {
  if (!isResponse(response)) throw new Error('fetch: what was answered is not a Response');
  return response;
}
