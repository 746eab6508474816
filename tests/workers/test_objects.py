"""Durable Objects and their containers, end to end: what must survive, what must not leave too early, what is refused."""
import json
import os
import signal
import threading
import time
import unittest

from projects import Project, children


def config(*classes, container=None):
    made = {"durable_objects": {"bindings": [{"name": c.upper(), "class_name": c} for c in classes]},
            "migrations": [{"tag": "v1", "new_sqlite_classes": list(classes)}]}
    if container:
        made["containers"] = [container]
    return made


# run(source) is the body of an async function of (ctx, s, self); /CLASS/NAME?source
RUN = r"""
import { DurableObject } from 'cloudflare:workers';
const AsyncFunction = (async () => {}).constructor;
export class Thing extends DurableObject {
  constructor(ctx, env) { super(ctx, env); this.made = crypto.randomUUID(); }
  %s
}
export default { async fetch(request, env) {
  const url = new URL(request.url);
  const [, name, method] = url.pathname.split('/');
  const stub = env.THING.getByName(name);
  if (method === 'fetch') return stub.fetch(request);
  try { return Response.json(await stub[method](...(request.method === 'POST' ? await request.json() : []))); }
  catch (e) { return Response.json({ error: e.message, name: e.name, reset: e.durableObjectReset }, { status: 500 }); }
} };
"""


def ready(p):
    """The module has been bundled and runs."""
    seen = p.output().count("ready\n")
    deadline = time.monotonic() + 60
    while p.output().count("ready\n") <= ready.before.get(p.directory, 0):
        if time.monotonic() > deadline:
            raise AssertionError("not ready: " + p.output())
        time.sleep(0.05)
    ready.before[p.directory] = max(seen, p.output().count("ready\n"))


ready.before = {}


class Objects(unittest.TestCase):
    maxDiff = None

    def serve(self, methods, **more):
        p = Project({"index.js": RUN % methods}, config=more.pop("config", config("Thing")), **more)
        self.addCleanup(p.close)
        ready(p)
        return p

    def restart(self, p, how):
        p.stop(how)
        p.start()
        ready(p)

    def test_what_was_answered_survives_a_kill(self):
        p = self.serve("""
            async add(n) {
              await this.ctx.storage.put('n', ((await this.ctx.storage.get('n')) ?? 0) + n);
              this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS log (n)');
              this.ctx.storage.sql.exec('INSERT INTO log VALUES (?)', n);
              return this.ctx.storage.get('n');
            }
            log() { return this.ctx.storage.sql.exec('SELECT n FROM log').toArray().map((r) => r.n); }""")
        for n in range(1, 6):
            answer = p.request("POST", "/a/add", [n])
        self.assertEqual(answer.json, 15)
        self.restart(p, signal.SIGKILL)
        self.assertEqual(p.get("/a/log").json, [1, 2, 3, 4, 5])
        self.assertEqual(p.request("POST", "/a/add", [1]).json, 16)
        self.assertEqual(p.request("POST", "/b/add", [1]).json, 1)

    def test_an_alarm_fires_after_a_restart(self):
        p = self.serve("""
            set(ms) { return this.ctx.storage.setAlarm(Date.now() + ms); }
            async alarm(info) { await this.ctx.storage.put('rang', info.retryCount); }
            async rang() { return [await this.ctx.storage.get('rang') ?? null, await this.ctx.storage.getAlarm()]; }""")
        p.request("POST", "/a/set", [1500])
        rang, at = p.get("/a/rang").json
        self.assertIsNone(rang)
        self.assertGreater(at, 0)
        self.restart(p, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and p.get("/a/rang").json != [0, None]:
            time.sleep(0.2)
        self.assertEqual(p.get("/a/rang").json, [0, None])

    def test_a_failed_alarm_is_tried_again(self):
        p = self.serve("""
            set() { return this.ctx.storage.setAlarm(Date.now()); }
            async alarm(info) {
              this.ctx.storage.kv.put('t' + info.retryCount, Date.now());
              if (info.retryCount === 0) throw new Error('not yet');
            }
            times() { return [...this.ctx.storage.kv.list({ prefix: 't' })]; }""")
        p.get("/a/set")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and len(p.get("/a/times").json) < 2:
            time.sleep(0.2)
        (first, t0), (second, t1) = p.get("/a/times").json
        self.assertEqual((first, second), ("t0", "t1"))
        self.assertGreaterEqual(t1 - t0, 2000)

    def test_abort_makes_a_new_instance_without_what_was_not_written(self):
        p = self.serve("""
            which() { return this.made; }
            fall() { this.ctx.storage.kv.put('lost', 1); this.ctx.abort(new Error('fallen')); }
            lost() { return this.ctx.storage.kv.get('lost') ?? null; }""")
        before = p.get("/a/which").json
        self.assertEqual(p.get("/a/fall").json, {"error": "fallen", "name": "Error", "reset": True})
        self.assertNotEqual(p.get("/a/which").json, before)
        self.assertIsNone(p.get("/a/lost").json)

    def test_a_read_and_what_follows_it_are_one_step(self):
        p = self.serve("""
            async one() { const n = await this.ctx.storage.get('n') ?? 0; await this.ctx.storage.put('n', n + 1); }
            async many() {
              const me = this.env.THING.getByName(this.ctx.id.name + 'x');
              await Promise.all(Array.from({ length: 50 }, () => me.one()));
              return me.count();
            }
            count() { return this.ctx.storage.get('n'); }""")
        self.assertEqual(p.get("/a/many").json, 50)

    def test_large_values_and_fetch(self):
        p = self.serve("""
            async fetch(request) {
              const body = new Uint8Array(await request.arrayBuffer());
              await this.ctx.storage.put('body', body);
              return new Response(await this.ctx.storage.get('body'), { headers: { 'x-id': this.ctx.id.toString() } });
            }""")
        body = bytes(range(256)) * 6000
        answer = p.request("POST", "/a/fetch", body)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.body, body)
        self.assertEqual(len(answer.headers["x-id"]), 64)

    def test_sql_reaches_nothing_else(self):
        queries = ["ATTACH '/etc/passwd' AS x", "VACUUM INTO '/tmp/x'", "SELECT load_extension('x')", "SELECT * FROM _cloister_kv",
                   "PRAGMA writable_schema = ON", "BEGIN"]
        p = self.serve("""
            sql(list) { return list.map((q) => { try { this.ctx.storage.sql.exec(q); return 'accepted'; } catch (e) { return e.message; } }); }""")
        transaction = ("not authorized: transactions are not begun or ended by SQL (BEGIN); use ctx.storage.transactionSync() or "
                       "ctx.storage.transaction(): SQLITE_AUTH")
        self.assertEqual(p.request("POST", "/a/sql", [queries]).json, [
            "not authorized: ATTACH or VACUUM: SQLITE_AUTH", "not authorized: VACUUM: SQLITE_AUTH",
            "not authorized to use function: load_extension: SQLITE_AUTH",
            "not authorized: access to _cloister_kv.key is prohibited: SQLITE_AUTH",
            "not authorized: PRAGMA writable_schema: SQLITE_AUTH", transaction])

    def test_endless_sql_ends(self):
        p = self.serve("""
            sql() { this.ctx.storage.sql.exec('WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n'); }
            hello() { return 'hello'; }""")
        self.assertEqual(p.get("/a/sql").json["error"], "the statement ran longer than its limit of 5000 ms: SQLITE_INTERRUPT")
        self.assertEqual(p.get("/a/hello").json, "hello")


def workers_of(p):
    """The worker processes of a daemon, without their zygotes."""
    found = []
    for pid in children(p.process.pid):
        with open(f"/proc/{pid}/stat") as f:
            name, rest = f.read().split("(", 1)[1].rsplit(") ", 1)
        if name.startswith("cloister-worker") and int(rest.split()[1]) != p.process.pid:
            found.append(pid)
    return found


class LongStatements(unittest.TestCase):
    """A statement that takes seconds in few steps, while others want something of the daemon."""
    maxDiff = None

    METHODS = """
        async keep(v) { await this.ctx.storage.put('v', v); return v; }
        async kept() { return await this.ctx.storage.get('v') ?? null; }
        lose() { this.ctx.storage.kv.put('v', 'lost'); this.sort(); }
        sort() { this.ctx.storage.sql.exec('WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n ORDER BY -x'); }
        fill(n) {
          this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS t (a)');
          this.ctx.storage.sql.exec('WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?) INSERT INTO t SELECT zeroblob(10000) FROM n', n);
          return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM t').one().n;
        }
        count() { return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM t').one().n; }
        ring(ms) { return this.ctx.storage.setAlarm(Date.now() + ms); }
        async alarm() { await this.ctx.storage.put('v', 'rang'); }"""
    LIMIT = "the statement ran longer than its limit of 5000 ms: SQLITE_INTERRUPT"

    def serve(self):
        p = Project({"index.js": RUN % self.METHODS, "public/a.txt": "static"}, config={**config("Thing"), "assets": {"directory": "public"}})
        self.addCleanup(p.close)
        ready(p)
        return p

    def begin(self, p, path):
        """The request runs, and has reached its statement."""
        answers = []

        def ask():
            try:
                answers.append(p.get(path))
            except OSError as e:
                answers.append(e)
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(1)
        self.assertEqual(answers, [])
        return thread, answers

    def test_the_daemon_answers_others_meanwhile(self):
        p = self.serve()
        p.get("/a/kept")
        thread, answers = self.begin(p, "/a/sort")
        took = []
        while thread.is_alive():
            at = time.monotonic()
            self.assertEqual(p.get("/a.txt").body, b"static")
            took.append(time.monotonic() - at)
            time.sleep(0.02)
        thread.join()
        self.assertEqual(answers[0].json["error"], self.LIMIT)
        took.sort()
        self.assertGreater(len(took), 10)
        self.assertLess(took[len(took) * 9 // 10], 0.1, took)
        self.assertEqual(p.request("POST", "/a/keep", [1]).json, 1)

    def test_what_comes_behind_it_keeps_its_order(self):
        p = self.serve()
        p.request("POST", "/b/ring", [1500])
        thread, answers = self.begin(p, "/a/sort")
        self.assertEqual(p.request("POST", "/a/keep", ["after"]).json, "after")  # waits for it
        thread.join()
        self.assertEqual(answers[0].json["error"], self.LIMIT)
        self.assertEqual(p.get("/a/kept").json, "after")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and p.get("/b/kept").json != "rang":
            time.sleep(0.2)
        self.assertEqual(p.get("/b/kept").json, "rang")

    def test_a_worker_that_is_killed(self):
        p = self.serve()
        self.assertEqual(p.request("POST", "/a/keep", [1]).json, 1)
        thread, answers = self.begin(p, "/a/lose")
        for pid in workers_of(p):
            os.kill(pid, signal.SIGKILL)
        thread.join()
        self.assertGreaterEqual(answers[0].status, 500)
        self.assertEqual(p.get("/a/kept").json, 1)
        self.assertEqual(p.request("POST", "/a/keep", [2]).json, 2)

    def test_a_worker_whose_code_changes(self):
        p = self.serve()
        self.assertEqual(p.request("POST", "/a/keep", [1]).json, 1)
        thread, answers = self.begin(p, "/a/lose")
        with open(p.directory + "/index.js", "w") as f:
            f.write(RUN % (self.METHODS + "\nhello() { return 'new'; }"))
        deadline = time.monotonic() + 60
        while "reloaded\n" not in p.output() and time.monotonic() < deadline:
            time.sleep(0.05)
        thread.join()
        self.assertGreaterEqual(answers[0].status, 500)
        self.assertEqual(p.get("/a/kept").json, 1)
        self.assertEqual(p.get("/a/hello").json, "new")

    def test_a_daemon_that_is_told_to_end(self):
        p = self.serve()
        self.assertEqual(p.request("POST", "/a/keep", [1]).json, 1)
        thread, answers = self.begin(p, "/a/lose")
        at = time.monotonic()
        p.stop(signal.SIGTERM)
        self.assertLess(time.monotonic() - at, 4)
        self.assertNotIn("Sanitizer", p.output())
        thread.join()
        p.start()
        ready(p)
        self.assertEqual(p.get("/a/kept").json, 1)

    def test_a_large_write_is_on_disk_when_it_is_answered(self):
        p = self.serve()
        self.assertEqual(p.request("POST", "/a/fill", [4000]).json, 4000)
        p.stop(signal.SIGKILL)
        p.start()
        ready(p)
        self.assertEqual(p.get("/a/count").json, 4000)
        self.assertEqual(p.request("POST", "/a/fill", [10]).json, 4010)


class Containers(unittest.TestCase):
    maxDiff = None

    def serve(self, methods, **more):
        p = Project({"index.js": RUN % methods}, config=config("Thing", container={
            "class_name": "Thing", "scheduling_policy": "durable_object", "images": {"base": {"image": "host"}}, **more}))
        self.addCleanup(p.close)
        ready(p)
        return p

    def test_the_quick_start(self):
        p = self.serve("""
            async exec(argv) {
              const container = this.ctx.container;
              if (!container.running) container.start({ image: 'host', entrypoint: ['sleep', 'infinity'], enableInternet: false });
              const process = await container.exec(argv);
              const output = await process.output();
              return { stdout: new TextDecoder().decode(output.stdout), exitCode: output.exitCode };
            }""")
        answer = p.request("POST", "/sandbox/exec", [["uname", "-a"]]).json
        self.assertEqual(answer["exitCode"], 0)
        self.assertIn("Linux", answer["stdout"])
        # the same container, for the same name only
        p.request("POST", "/sandbox/exec", [["sh", "-c", "echo here > /root/f"]])
        self.assertEqual(p.request("POST", "/sandbox/exec", [["cat", "/root/f"]]).json, {"stdout": "here\n", "exitCode": 0})
        self.assertEqual(p.request("POST", "/other/exec", [["cat", "/root/f"]]).json["exitCode"], 1)

    def test_streams_and_ends(self):
        p = self.serve("""
            async all() {
              const c = this.ctx.container, out = {}, dec = (b) => new TextDecoder().decode(b);
              c.start({ image: c.images.base, entrypoint: ['sleep', 'infinity'], enableInternet: false });
              const cat = await c.exec(['cat'], { stdin: 'pipe' });
              const w = cat.stdin.getWriter();
              const writing = w.write(new Uint8Array(3 << 20)).then(() => w.close());
              const got = await cat.output();
              await writing;
              out.cat = [got.stdout.byteLength, got.exitCode];
              const slow = await c.exec(['sh', '-c', 'head -c 20000000 /dev/zero; echo done >&2']);
              await new Promise((r) => setTimeout(r, 300));
              let n = 0;
              for await (const chunk of slow.stdout) n += chunk.length;
              out.flood = [n, await slow.exitCode];
              const s = await c.exec(['sleep', '100']);
              s.kill(9);
              out.killed = await s.exitCode;
              const t = await c.exec(['sh', '-c', 'stty size'], { pty: { cols: 101, rows: 33 } });
              out.size = dec((await t.output()).stdout);
              try { await c.exec(['/no/such/program']); } catch (e) { out.missing = e.message; }
              const m = c.monitor().then(() => 'ended');
              await c.destroy();
              out.end = [await m, c.running];
              try { await c.exec(['true']); } catch (e) { out.after = e.message; }
              return out;
            }""")
        self.assertEqual(p.get("/a/all").json, {
            "cat": [3 << 20, 0], "flood": [20000000, 0], "killed": 137, "size": "33 101\r\n",
            "missing": "program not found: /no/such/program: No such file or directory", "end": ["ended", False],
            "after": "exec() cannot be called on a container that is not running."})

    def test_snapshots(self):
        p = self.serve("""
            async all() {
              const c = this.ctx.container, dec = (b) => new TextDecoder().decode(b), base = { entrypoint: ['sleep', 'infinity'], enableInternet: false };
              const cat = async (f) => dec((await (await c.exec(['cat', f])).output()).stdout);
              c.start({ ...base, image: 'host' });
              await (await c.exec(['sh', '-c', 'mkdir -p /project; echo kept > /project/f'])).exitCode;
              const dir = await c.snapshotDirectory({ dir: '/project' }), all = await c.snapshotContainer({ name: 'all' });
              await c.destroy();
              c.start({ ...base, containerSnapshot: all });
              const restored = await cat('/project/f');
              await c.destroy();
              c.start({ ...base, image: 'host', directorySnapshots: [{ snapshot: dir, mountPoint: '/mnt' }] });
              return [restored, await cat('/mnt/f'), all.name, dir.dir];
            }""")
        self.assertEqual(p.get("/a/all").json, ["kept\n", "kept\n", "all", "/project"])

    def test_no_more_instances_than_the_configuration_has(self):
        p = self.serve("""
            async run() {
              try {
                this.ctx.container.start({ image: 'host', entrypoint: ['sleep', 'infinity'], enableInternet: false });
                return (await (await this.ctx.container.exec(['true'])).output()).exitCode;
              } catch (e) { return e.message; }
            }
            end() { return this.ctx.container.destroy(); }""", max_instances=2)
        refused = ("2 containers of this class are running, and its max_instances are 2: try again when one has ended, or raise it in "
                   "the configuration")
        self.assertEqual([p.get(f"/{name}/run").json for name in "abc"], [0, 0, refused])
        p.get("/a/end")
        self.assertEqual([p.get(f"/{name}/run").json for name in "cd"], [0, refused])

    def test_what_is_refused(self):
        p = self.serve("""
            async tries(list) {
              const c = this.ctx.container, out = [];
              for (const options of list) {
                try { c.start(options); await c.exec(['true']); out.push('accepted'); } catch (e) { out.push(e.message); }
                await c.destroy();
              }
              return out;
            }""")
        base = {"entrypoint": ["sleep", "infinity"], "enableInternet": False}
        self.assertEqual(p.request("POST", "/a/tries", [[
            {**base, "image": "host", "enableInternet": True}, {**base, "image": "nothere"}, base, {**base, "image": "host", "instance": "huge"},
            {**base, "image": "host"}]]).json, [
            "container.start(): enableInternet: true is not implemented yet: containers have no network so far. Leave it out, or set it to false.",
            'no image "nothere": get it with "cloister image pull nothere" or see "cloister image list"',
            "image: start() must name one: the configuration gives the class no single image",
            "instance: expected lite, basic, standard-1, standard-2, standard-3, standard-4, or an object of limits", "accepted"])
