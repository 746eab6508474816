/* The contract between the daemon (or `cloister run`) and the container agent `cloister-init`, spoken over a link on
 * which the daemon is LINK_HOST and the agent LINK_GUEST. Both sides include this file; nothing in it assumes a shared
 * kernel or file system, except where a field is marked [namespace]. All values are CBOR maps with text keys; unknown
 * keys are refused with INVALID_ARGUMENT. Strings that come from the kernel are text, or bytes where they are not UTF-8.
 *
 * The agent's bootstrap object (capability 0) answers:
 *
 * "setup" {}                                    -> {}
 *     Sent once the identity maps are written. The agent becomes uid 0 and gid 0 of its user namespace, enters its cgroup and
 *     time namespaces (guest uptime starts at 0), brings loopback up, makes propagation private, and builds a stage root that holds
 *     the mounts every container needs (/proc, /sys read-only, /dev with null zero full random urandom tty ptmx fd stdin stdout
 *     stderr, /dev/pts, /dev/shm, /dev/mqueue, /run), detaches the host's tree, and is then a *blank*: nothing of the host remains
 *     reachable, no image is known.
 *
 * "start" {root, mounts, hostname, limits, main} -> {process: capability, pid, stages: {mounts, jail, spawn: nanoseconds}}
 *     root: descriptor index [namespace]: a detached mount that becomes /. Indexes count the descriptors received with
 *         SCM_RIGHTS in the sendmsg(2) that carried this frame. After this frame the agent never accepts a descriptor.
 *     mounts: array of {fd: index, target: absolute path [namespace]}: further detached mounts, in order. Missing targets are
 *         created as directories. A target (or /proc, /sys, /dev, /run) that is a symbolic link, or passes through one, is refused.
 *     cgroup: descriptor index, optional [namespace]: a cgroup v2 directory the agent may make children in, for tree kills.
 *     hostname: text.
 *     limits: {openFiles?: RLIMIT_NOFILE, pids?: RLIMIT_NPROC (where no cgroup does it), memoryWatch?: bytes of resident memory at
 *         which the agent ends everything because no cgroup does it}.
 *     main: the process specification below; absent: the container is held (files and execs work) until "main". When the main process ends the agent kills everything else, answers its "wait", and
 *         exits. When the link closes it kills everything and exits.
 *     The agent then drops every capability it no longer needs, sets no_new_privs and its seccomp filter, so that every process
 *     inherits them.
 *
 * "main" <process specification>                -> {process: capability, pid}   starts the main process of a held container, once
 * "exec" <process specification>                -> {process: capability, pid}
 *
 *   process specification:
 *     argv: array of strings, at least one, together at most 1 MiB; argv[0] with '/' is a path (relative to cwd), else looked up in PATH of env
 *     env: array of "KEY=VALUE" strings, complete (the caller merged image, start and exec). HOME is added when absent.
 *     cwd: absolute path, default "/"
 *     user: "name", "uid", "name:group", "uid:gid"; default "0:0". Names from the image's /etc/passwd and /etc/group, which
 *         also give supplementary groups. Capabilities are kept only by uid 0.
 *     stdin: stream the host sends on; absent: end of file at once
 *     stdout, stderr: streams the agent sends on; absent: discarded
 *     combined: true: stderr goes where stdout goes (stderr must be absent)
 *     pty: {cols, rows}: a new session with a controlling terminal; stdin and stdout streams are its master; stderr must be absent
 *     tree: true: the process and all its descendants, however they daemonise, can be ended with "killTree"
 *   errors carry a field: "argv" (ENOENT not found, EACCES not executable, ENOEXEC, E2BIG), "cwd" (ENOENT, ENOTDIR, EACCES), "user", "env".
 *
 * A process capability answers:
 *   "wait" {}              -> {code} or {signal}, with {cpuUs, maxRssKib} and {memoryLimit: true} when memoryWatch ended it. Answered once the process is reaped and every byte that was in its
 *                             output pipes at that moment has been sent. Its streams END later, when nobody holds the
 *                             pipe open any more. Any number of times, also after the end.
 *   "kill" {signal}        -> {}      1..64; to the process alone. Already ended: {} as well.
 *   "killTree" {}          -> {}      SIGKILL to all of the tree; only with tree: true
 *   "resize" {cols, rows}  -> {}      1..65535; not a pty: INVALID_ARGUMENT field "pty"
 * Dropping the capability of an ended process frees it; of a running one detaches it (the process goes on, output is discarded).
 *
 * "signalAll" {signal}   -> {count}   to every process but the agent
 * "ping" {}              -> {}
 * "stats" {}             -> {processes, memoryBytes}
 *
 * File operations, each run in a child of the agent, so a blocking or hostile file system stops only itself. Paths are
 * absolute, resolved inside the container; magic links are not followed; only regular files are opened (a FIFO, socket or device is EINVAL, a
 * directory EISDIR, anything on procfs or sysfs EACCES). Errors carry Node-style errno codes. CANCEL ends the child.
 *   "fs.stat"   {path, follow? (default true)} -> {type: "file|directory|symlink|fifo|socket|char|block", size, mode, uid, gid, mtimeNs, nlink, ino, target?}
 *   "fs.read"   {path, offset?, length?, stream} -> {size: of the file, sent, sha256: bytes of what was sent}    [stream: agent sends]
 *   "fs.write"  {path, stream, mode? (default: the replaced file's, else 0644), size?, sha256?, parents?, exclusive?, append?} -> {size, sha256}
 *               [stream: host sends; END completes] written beside the target and renamed over it after size and sha256 were checked
 *   "fs.list"   {path, recursive?, stream} -> {count}   stream: a CBOR sequence of {path: relative, and the fields of fs.stat without follow}
 *   "fs.mkdir"  {path, parents?, mode?} -> {}
 *   "fs.rename" {from, to} -> {}
 *   "fs.remove" {path, recursive?, force?} -> {}
 *   "fs.symlink" {path, target} -> {}      "fs.chmod" {path, mode} -> {}
 *   "fs.export" {path, stream, exclude?: array of patterns} -> {entries, sent, sha256}       stream: a POSIX pax tar of the tree (or of one file)
 *   "fs.import" {path, stream, size?, sha256?, parents?} -> {entries, size, sha256}   stream: a tar; unpacked below path, which nothing in it can leave
 *   "fs.watch"  {path, recursive?, stream} -> {} when cancelled or path is gone; stream: a CBOR sequence of {event: "ready|create|modify|delete|rename|attrib|overflow", path, isDirectory, to?};
 *               first "ready" with an empty path: from then on no change is missed
 */
#ifndef CLOISTER_LINK_AGENT_PROTOCOL_H
#define CLOISTER_LINK_AGENT_PROTOCOL_H

/* The agent's one inherited descriptor. */
#define AGENT_LINK_FD 3
/* Most descriptors that may come with "start". */
#define AGENT_MAX_START_FDS 64
#define AGENT_MAX_ARGV_BYTES (1u << 20)
#define AGENT_MAX_ENV_BYTES (1u << 20)
#define AGENT_MAX_PATH 4096u

#endif
