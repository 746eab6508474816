/* The contract between the daemon (host side of the link) and a worker process (guest side): which methods each
 * side's objects have, with their arguments and answers. Values are CBOR maps with text keys unless said
 * otherwise; "bytes" are CBOR byte strings, "sid" a stream number (an unsigned integer; who sends is said).
 * The daemon trusts no byte of a worker, not even of a host Worker: every worker's process may have been taken over.
 *
 * A worker has one of three roles, told by `init`:
 *   host      the operator's application; may call everything of section 2
 *   dynamic   loaded at run time; may call `fetch` and `connect` of section 2, and only where granted
 *   compiler  the module compiler; calls nothing
 *
 * Channels. Workers speak with each other over channels: a pair of byte streams, one each way, that the daemon
 * joins (bytes that arrive on A's stream leave on B's, with the credit of both). What is said on them (RPC,
 * js/src/rpc) is opaque to the daemon: capabilities that workers hand each other live in the tables of the two
 * ends of a channel, never in the daemon's. Each message on a channel is a 32-bit little-endian length (at most
 * CHANNEL_MESSAGE_MAX) and that many bytes.
 *
 * Small values travel in the call. A method that may carry more than fits a frame takes `data` (bytes) or, in its
 * place, `stream` (a sid on which the same bytes come, ended by END); both directions, wherever "data" is named. */
#ifndef CLOISTER_LINK_WORKER_PROTOCOL_H
#define CLOISTER_LINK_WORKER_PROTOCOL_H

#define CHANNEL_MESSAGE_MAX (33u << 20)
#define WORKER_INLINE_MAX (512u << 10) /* larger "data" goes as a stream */

/* Exit codes of a worker process that names the limit it met (the daemon tells the holders). */
#define WORKER_EXIT_CPU 71    /* CPU time, where the engine could not be stopped in another way */
#define WORKER_EXIT_MEMORY 72 /* the process noticed itself; else the daemon's watcher or the cgroup killed it */
#define WORKER_EXIT_LINK 73   /* the link broke or closed */

/* ---- 1. Methods of the worker (its capability 0), called by the daemon ----
 *
 * init      Once, first. {role, name: text, seed: bytes[32], limits: {cpuMs, subRequests, memoryMib, wallMs} (0: none),
 *           compatibilityDate: text, compatibilityFlags: [text],
 *           main: text, modules: [{name, type: "js"|"cjs"|"text"|"data"|"json"|"wasm", data...}],
 *               (type js and cjs: `data` is the compiler's output, js/compiler/README.md; json: UTF-8 text)
 *           outbound: "daemon" (calls to `fetch` are answered) | "channel" (goes to the parent, over `channel`) | "none",
 *           channel: {in: sid (daemon sends), out: sid (worker sends)} | absent   -- to the parent, role dynamic
 *           bindings: [...] role host: what `env` holds besides, see js/src/workers/env.js:
 *               {name, type: "var", json: text} {name, type: "loader", id: text|absent} {name, type: "durableObject", class}
 *               {name, type: "service", entrypoint: text|absent, service: text|absent (absent: itself)} {name, type: "assets"}
 *           objects: [{class, sql: bool, container: bool, images: {name: image}|absent}]  role host: Durable Object classes}
 *           Answer: null when the main module has been evaluated; THROW with the error of the module otherwise.
 * fetch     role host. An HTTP request: {method, url, headers: text ("name\nvalue\nname\nvalue"...: names in lower case),
 *           body: sid (daemon sends) | bytes | absent, ws: true when it asks for an upgrade to WebSocket, peer: text (address)}
 *           Answer {status: 200..599 or 101, statusText: text|absent, headers: text (the same form; set-cookie repeated),
 *           body: bytes | sid (worker sends) | absent, ws: {in: sid (daemon sends), out: sid (worker sends)} with 101}.
 *           THROW: the exception that the handler threw.
 *           CANCEL: the client left: request.signal aborts.
 * scheduled {cron: text, scheduledTime: ms} -> null
 * alarm     {class, id: text (64 hex digits), retryCount: uint, scheduledTime: ms} -> null; THROW: the daemon retries
 * endIdle   role host. Memory is short: of the cached Dynamic Workers that do nothing, the half that did so for longest ends -> null
 * channel   role host. Another party opens a channel to an entrypoint of this worker:
 *           {in: sid (daemon sends), out: sid (worker sends)} -> null
 * compile   role compiler. {name, type: "js"|"cjs"|"ts", data...} -> {data...} (the compiled module);
 *           THROW with code ERROR_INVALID and a text "name:line:column: message".
 *
 * WebSocket messages, on the pair of streams of a 101 answer, each way: 1 byte kind (1 text, 2 binary, 8 close),
 * 4 bytes little-endian length, payload (close: 2 bytes little-endian code, or none, then the reason). A close is
 * the last message of its direction; a stream that is RESET instead means: gone without a close (1006).
 *
 * ---- 2. Methods of the daemon's capability 0, called by the worker ----
 *
 * fetch     An outgoing request: as `fetch` above ({method, url, headers, body, ws}) plus redirect: "follow"|"manual"|
 *           "error"; the answer likewise, plus url: text (after redirects). THROW code ERROR_PERMISSION: refused by rule.
 *           With ws: a WebSocket's handshake. 101: {.., ws: {in: sid (daemon sends), out: sid (worker sends)}}, messages as above; else
 *           the server's answer as it is, redirects too.
 * connect   {host: text, port, tls: "off"|"on"|"starttls"} -> {in: sid (daemon sends), out: sid (worker sends), socket: capability
 *           with "starttls"}. END is TCP's half-close, both ways; RESET of `out` breaks the connection off; when both are over it closes.
 *   socket: startTls {} -> {in, out}   once: the streams until then are RESET, and the new ones speak TLS
 *
 * The rest is of role host alone:
 *
 * load      A Dynamic Worker: {name: text|absent, compatibilityDate, compatibilityFlags,
 *           mainModule, modules: [{name, type: "js"|"ts"|"cjs"|"py"|"text"|"data"|"json"|"wasm", data}] -- sources; or, when large,
 *           `stream`: the same map's bytes, `channel` beside it --, outbound: "daemon"|"channel"|"none", limits: {cpuMs, subRequests, memoryMib,
 *           wallMs}, channel: {in: sid (daemon sends), out: sid (worker sends)}}
 *           Answer, once it runs: {worker: capability}. Dropping that capability ends the process. THROW: it cannot be
 *           compiled, or its module threw at start. The caller may send on the channel at once. When the process ends, both
 *           streams are RESET with the reason ("Worker exceeded its memory limit of 128 MiB.").
 * service   {name} -> {channel: {in, out}} chosen by the caller in the arguments: a channel to another hosted Worker.
 * assets    {method, path, headers} -> as `fetch`'s answer; a static file of the application.
 *
 * object    {class, id} -> {storage: capability, container: capability|absent, alarm: ms|null}
 *
 * Storage capability (methods marked * are called synchronously by the runtime: answer before anything else of this link):
 *   get*     {keys: [text]} -> {values: [bytes|null]}   -- of the first keys only, when more would not fit: ask for the rest
 *   list*    {start, startAfter, end, prefix: text|absent, reverse: bool, limit: uint|absent} -> {entries: [text, bytes, ...],
 *            more: bool}   -- more: ask again from after the last key
 *   put*     {entries: [text, bytes, ...]} -> null   -- all or none
 *   delete*  {keys: [text]} -> {count}   -- likewise
 *   deleteAll* {alarm: bool} -> null   -- every table and key; the alarm too if so asked
 *   sql*     {query: text, params: [null|int|double|text|bytes]} -> {columns: [text], rows: [[...]], cursor: uint|absent,
 *            read: uint, written: uint, dirty: bool}   -- the last statement's rows, at most what fits; the rest with `next`.
 *            dirty: something is not on disk yet
 *   next*    {cursor} -> {rows, read, cursor|absent}; close* {cursor} -> null
 *   size*    {} -> {bytes}
 *   begin*   {apart: bool} -> null; commit* / rollback* {} -> null   -- nest as savepoints. apart: what was written before is
 *            made durable first (a transaction that outlives the turn)
 *   undo*    {} -> null   -- everything that is not on disk yet
 *   setAlarm* {at: ms} -> null; getAlarm* {} -> {at: ms|null}; deleteAlarm* {} -> null
 *   sync     {} -> null once everything before it is on disk; inside a transaction: what came before it
 *   stage*   {data: bytes} -> null   -- arguments that do not fit a frame: the pieces of their encoding, staged one after the
 *            other, become the arguments of the next call, whose own are null
 *   piece*   {} -> bytes   -- an answer that does not fit is {pieces: bytes in all}; its encoding comes so, piece by piece
 * Values are opaque bytes (structured clones, made by js/src/rpc/codec.js). What a worker sends after a write leaves the
 * daemon only when that write is on disk. A capability ends with the next `object` of the same object; it breaks (every call is
 * answered with the same error) when a write could not be brought to disk.
 *
 * Container capability: the calls of `ctx.container`, src/daemon/container_capability.c:
 *   state*   {} -> {running: bool}   -- also while it starts
 *   start    {image, entrypoint: [text], env: {name: text}, enableInternet: bool, labels: {..}, hardTimeout: ms, snapshot: text,
 *            mounts: [{snapshot, target}], instance: {vcpu, memoryMib, diskMb} or a type's name}   -- as the API's start (docs/api.md)
 *            -> {timings: {root, namespaces, agent, ready, total: us}} once it runs
 *   exec     {cmd: [text], env: {name: text}, cwd, user, stdin: sid (worker sends)|absent, stdout: sid (daemon sends)|absent, stderr:
 *            likewise, combined: bool, pty: {cols, rows}} -> {pid, process: capability}   -- the worker chooses all numbers
 *     process: wait {} -> {code, reason: text}; kill {signal} -> null; resize {cols, rows} -> null
 *   signal   {signal}; destroy {reason: text};
 *   monitor  {} -> {code, reason} when it ends: by itself, destroyed, or idle; THROW: otherwise
 *   setInactivityTimeout {ms}; setLabels {labels}; inspect {} -> {image, labels}
 *   snapshot {name} -> {id, size, name}; snapshotDirectory {dir, name} -> {id, size, dir, name}
 */

#endif
