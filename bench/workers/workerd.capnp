# The same program on workerd, for bench/workers/run.
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [ (name = "main", worker = .bench) ],
  sockets = [ (name = "http", http = (), service = "main") ],
);
const bench :Workerd.Worker = (
  modules = [ (name = "index.js", esModule = embed "src/index.js") ],
  compatibilityDate = "2026-11-01",
  bindings = [ (name = "LOADER", workerLoader = (id = "bench")) ],
);
