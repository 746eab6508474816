/** Two sessions in one process, joined by a channel that delivers later. */
import { Session } from '../../js/src/rpc/session.js';
import { StubHandle } from '../../js/src/rpc/stub.js';
import { LocalTarget } from '../../js/src/rpc/local.js';
import { STUB } from '../../js/src/rpc/target.js';

/** @param {any} service what A can call on B: an RpcTarget */
export function pair(service) {
  const wire = { messages: 0, closed: null };
  let a, b;
  const channel = (other) => ({
    send(bytes, tail = new Uint8Array(0)) {
      const copy = new Uint8Array(bytes.length + tail.length);
      copy.set(bytes);
      copy.set(tail, bytes.length);
      wire.messages++;
      setTimeout(() => other().receive(copy), 0);
    },
    close(reason) {
      wire.closed = reason;
      setTimeout(() => other().closed(reason), 0);
    },
  });
  a = new Session(channel(() => b), null);
  b = new Session(channel(() => a), service === undefined ? null : new LocalTarget(service, false));
  return { a, b, wire, stub: new StubHandle(a.main(), STUB).proxy };
}
