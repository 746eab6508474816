/** The Web API and Durable Objects, for their tests. */
import { routes } from '../../src/link.js';
import { setNatives } from '../../src/natives.js';
import { installWeb } from '../../src/web/index.js';
import { decodePlain, encodePlain } from '../../src/rpc/cbor.js';
import { RpcTarget } from '../../src/rpc/stub.js';
import { followRequests } from '../../src/rpc/context.js';
import { worker } from '../../src/workers/ctx.js';
import { createObjects } from '../../src/workers/durable_object.js';
import { DurableObject } from '../../src/workers/entrypoint.js';
import { WebSocketRequestResponsePair } from '../../src/workers/object_sockets.js';

export default function boot(natives) {
  setNatives(natives);
  followRequests();
  worker.flags = new Set(); // as `init` has it without compatibility_flags
  const web = installWeb(globalThis, {});
  natives.dispatch = { __proto__: null, ...routes };
  web.start();
  return { web, decodePlain, encodePlain, RpcTarget, DurableObject, createObjects, WebSocketRequestResponsePair };
}
