/**
 * What `env` of a host Worker holds, from the bindings that `init` tells (src/link/worker_protocol.h):
 *
 *   {name, type: "var", json}                          the value
 *   {name, type: "loader", id}                         a Worker Loader; those of the same id share their cache
 *   {name, type: "durableObject", class}               a namespace of Durable Objects
 *   {name, type: "service", entrypoint, service, props: json}   a stub of an entrypoint, of this Worker when `service` is absent
 *   {name, type: "assets"}                             fetch() gives static files
 *
 * A Dynamic Worker's `env` comes from its parent instead (bootstrap.js).
 */
import { Error, JSONParse, ObjectDefineProperty, SafeMap, StringPrototypeIndexOf, StringPrototypeSlice, TypeError } from '../primordials.js';
import { channelSend, closeChannel, newStream, openChannel, startCall } from '../link.js';
import { isRequest, requestToWire } from '../web/request.js';
import { currentContext, outsideRequests } from '../rpc/context.js';
import { Session } from '../rpc/session.js';
import { StubHandle } from '../rpc/stub.js';
import { FETCH, Result, SERVICE, Target, errorPayload, failedResult, releasePayload } from '../rpc/target.js';
import { decodeArguments, encodeResult } from '../rpc/values.js';
import { RemoteEntrypoint } from './bootstrap.js';
import { EntrypointTarget } from './entrypoint.js';
import { makeLoader } from './loader.js';
import { responseOf } from './outbound.js';

const PERSISTENT = /** @type {any} */ ({ __proto__: null, persistent: true });

/** One session for each other hosted Worker, made when it is first called. @type {Map<string, {session: Session, main: Target}>} */
const services = new SafeMap();

/** @param {string} name @returns {Target} borrowed */
function connect(name) {
  let known = services.get(name);
  if (known !== undefined && known.session.over === null) return known.main;
  return outsideRequests(() => {
    const inSid = newStream(), outSid = newStream();
    startCall(0, 'service', { name, channel: { in: inSid, out: outSid } }, () => {}, (error) => session.end(new Error(error.message), false));
    const id = openChannel(inSid, outSid, (bytes) => session.receive(bytes), (reason) => session.closed(reason));
    const session = new Session({ send: (bytes, tail) => channelSend(id, bytes, tail), close: (reason) => closeChannel(id, reason) }, null);
    known = { session, main: session.main() };
    services.set(name, known);
    return known.main;
  });
}

/** Static files: answers fetch() only. */
class AssetsTarget extends Target {
  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    if (op !== FETCH || payload === null) {
      releasePayload(payload);
      return failedResult(new TypeError('The assets binding supports fetch() only.'));
    }
    const result = new Result();
    const context = currentContext();
    try {
      const { values } = decodeArguments(payload);
      const request = values[0];
      if (!isRequest(request)) throw new TypeError('A request was expected.');
      const { method, url, headers } = requestToWire(request);
      startCall(0, 'assets', { method, path: pathOf(url), headers }, (answer) => {
        context?.enter();
        try {
          const encoded = encodeResult(responseOf(answer, url), context);
          result.settle(encoded.payload, encoded.pipeline, false);
        } catch (error) {
          result.fail(errorPayload(error));
        }
      }, (error) => result.fail(errorPayload(error)));
    } catch (error) {
      result.fail(errorPayload(error));
    }
    return result;
  }
}

/** Path and query of an absolute URL. @param {string} url */
function pathOf(url) {
  const host = StringPrototypeIndexOf(url, '//') + 2;
  const path = StringPrototypeIndexOf(url, '/', host);
  return path < 0 ? '/' : StringPrototypeSlice(url, path);
}

/** @param {any} binding @param {(className: string) => any} objectNamespace */
function valueOf(binding, objectNamespace) {
  switch (binding.type) {
    case 'var': return JSONParse(binding.json);
    case 'loader': return makeLoader(binding.id);
    case 'durableObject': return objectNamespace(binding.class);
    case 'service': {
      const entrypoint = binding.entrypoint ?? 'default';
      const props = binding.props === undefined ? {} : JSONParse(binding.props);
      if (binding.service === undefined) return new StubHandle(new EntrypointTarget(entrypoint, props), SERVICE, PERSISTENT).proxy;
      return new StubHandle(new RemoteEntrypoint(() => connect(binding.service), entrypoint, props), SERVICE, PERSISTENT).proxy;
    }
    case 'assets': return new StubHandle(new AssetsTarget(), SERVICE, PERSISTENT).proxy;
    default: throw new Error(`The binding "${binding.name}" is of the unknown type "${binding.type}".`);
  }
}

/** @param {any[]} bindings @param {(className: string) => any} objectNamespace @returns {any} */
export function makeEnv(bindings, objectNamespace) {
  const env = /** @type {any} */ ({});
  for (let i = 0; i < bindings.length; i++) {
    const value = valueOf(bindings[i], objectNamespace);
    ObjectDefineProperty(env, bindings[i].name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable: true, configurable: true }));
  }
  return env;
}
