/**
 * Trace events: what a request logged and threw, told to the tail Workers of a Dynamic Worker when it has ended. Where nobody listens
 * nothing is collected.
 */
import { ArrayPrototypePush, ObjectPrototype, ObjectSetPrototypeOf, StringPrototypeSplit, describeError, nullObject, promiseIgnore } from '../primordials.js';
import { requestToWire } from '../web/request.js';
import { responseToWire } from '../web/response.js';
import { natives } from '../natives.js';
import { currentContext } from '../rpc/context.js';
import { CALL } from '../rpc/target.js';
import { callTarget } from '../rpc/stub.js';
import { rawList } from '../rpc/cbor.js';
import { clone } from '../rpc/codec.js';

/** Of one request at most, then they are cut. */
const MAX_LOGS = 256, MAX_EXCEPTIONS = 64;
const LEVELS = ObjectSetPrototypeOf(['error', 'warn', 'info', 'debug'], null);

/** @type {import('../rpc/target.js').Target[]} */
let tails = rawList();

/** @param {import('../rpc/target.js').Target[]} targets owned */
export function setTails(targets) {
  tails = targets;
}

/** @param {import('../rpc/context.js').RequestContext} context @param {string} entrypoint @param {string} kind @param {string[]} path */
export function beginTrace(context, entrypoint, kind, path) {
  if (tails.length === 0) return;
  context.trace = {
    scriptName: null, entrypoint, eventTimestamp: natives.now(), outcome: 'ok', executionModel: 'stateless', truncated: false,
    logs: [], exceptions: [], diagnosticsChannelEvents: [], cpuTime: 0, wallTime: 0,
    event: kind === 'fetch' ? { request: null, response: null } : { rpcMethod: path.length > 0 ? path[path.length - 1] : '' },
  };
  context.onEnd = deliver;
}

/** The request of a fetch event. @param {import('../rpc/context.js').RequestContext} context @param {any} request */
export function traceRequest(context, request) {
  if (context.trace === null) return;
  const { method, url, headers, cf } = requestToWire(request);
  const map = nullObject();
  const lines = StringPrototypeSplit(headers, '\n');
  for (let i = 0; i + 1 < lines.length; i += 2) map[lines[i]] = map[lines[i]] === undefined ? lines[i + 1] : `${map[lines[i]]}, ${lines[i + 1]}`;
  context.trace.event.request = { method, url, headers: ObjectSetPrototypeOf(map, ObjectPrototype), cf: cf ?? {} };
}

/** @param {import('../rpc/context.js').RequestContext} context @param {any} response */
export function traceResponse(context, response) {
  if (context.trace !== null) context.trace.event.response = { status: responseToWire(response).status };
}

/** @param {any} trace @param {any} error */
function addException(trace, error) {
  if (trace.exceptions.length >= MAX_EXCEPTIONS) return;
  let name = 'Error', message = '';
  try {
    name = `${error.name}`;
    message = `${error.message}`;
  } catch {
    message = describeError(error);
  }
  ArrayPrototypePush(trace.exceptions, { timestamp: natives.now(), name, message });
}

/** The event failed with this. @param {import('../rpc/context.js').RequestContext} context @param {any} error */
export function traceFailure(context, error) {
  const { trace } = context;
  if (trace === null) return;
  trace.outcome = context.killed !== null ? 'exceededCpu' : 'exception';
  addException(trace, error);
}

/** A line of the console. @param {number} level @param {ArrayLike<any>} values */
export function traceLog(level, values) {
  if (tails.length === 0) return;
  const trace = currentContext()?.trace ?? null;
  if (trace === null) return;
  if (trace.logs.length >= MAX_LOGS) {
    trace.truncated = true;
    return;
  }
  const message = [];
  for (let i = 0; i < values.length; i++) {
    let copy;
    try {
      copy = clone(values[i]);
    } catch {
      copy = describeError(values[i]);
    }
    ArrayPrototypePush(message, copy);
  }
  ArrayPrototypePush(trace.logs, { timestamp: natives.now(), level: level === 2 ? 'log' : LEVELS[level], message });
}

/** @param {import('../rpc/context.js').RequestContext} context */
function deliver(context) {
  const { trace } = context;
  context.trace = null;
  trace.wallTime = natives.now() - trace.eventTimestamp;
  const path = rawList();
  path[0] = 'tail';
  for (let i = 0; i < tails.length; i++) promiseIgnore(callTarget(tails[i], path, CALL, [[trace]]));
}
