// The library as main.js boots it, and the flag nodejs_compat on from the beginning. For tests: `nodeModule` is the registry, `runModule` the loader's way.
import { compile } from "../../js/compiler/compile.js";
import { createModuleGraph } from "../../js/src/modules.js";
import { crypto, installCrypto, randomUUID } from "../../js/src/crypto/crypto.js";
import { routes } from "../../js/src/link.js";
import { setNatives } from "../../js/src/natives.js";
import { beginEntry, bindContext, bindPromises, bindStore, createNode, getContext, setContext } from "../../js/src/node/index.js";
import { installWeb } from "../../js/src/web/index.js";

export default function boot(natives) {
  setNatives(natives);
  const web = installWeb(globalThis, { bindContext, bindStore });
  bindPromises(globalThis);
  installCrypto(globalThis);
  let graph = null;
  const host = { natives, web, crypto, randomUUID, env: () => ({ NAME: "value" }), requireFrom: (name) => graph.requireFrom(name) };
  const node = createNode(host, "all");
  node.install(globalThis);
  globalThis.nodeModule = node.module;
  globalThis.nodeModuleOfAls = (name) => createNode(host, "als").module(name);
  // A module, compiled and linked as the loader does it with the flag; a promise of its namespace.
  globalThis.runModule = (source) => {
    const data = compile({ name: "main.js", type: "js" }, source);
    const files = [{ name: "main.js", type: "js", data }, { name: "lib/a.txt", type: "text", data: "text of a" }, { name: "lib/b.json", type: "json", data: '{"b":1}' }];
    graph = createModuleGraph(files, natives, node.module, { getContext, setContext });
    return graph.main("main.js");
  };
  return {
    start() { web.start(); },
    timer(id) {
      beginEntry();
      routes.timer(id);
    },
    unhandledRejection: web.unhandledRejection,
  };
}
