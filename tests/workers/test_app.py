"""What an application is besides its Workers: crons, and how several projects, configuration and clients go together."""
import json
import os
import subprocess
import tempfile
import time
import unittest

from projects import CLOISTER, Project, children


class Crons(unittest.TestCase):
    SOURCE = """
        let seen = [];
        export default {
          fetch() { return Response.json(seen); },
          scheduled(event, env, ctx) {
            if (event.cron === '9 * * * *') throw new RangeError('not today');
            seen.push([event.cron, event.scheduledTime, event.type, typeof event.noRetry, typeof ctx.waitUntil]);
          }
        };"""

    def serve(self, **config):
        p = Project({"index.js": self.SOURCE}, config=config)
        self.addCleanup(p.close)
        return p

    def test_by_hand_and_by_the_clock(self):
        p = self.serve(triggers={"crons": ["* * * * *", "0 0 1 1 *"]})
        self.assertEqual(p.get("/cdn-cgi/handler/scheduled?cron=*/5+*+*+*+*&time=1709164800000").body, b"ok")
        self.assertEqual(p.get().json, [["*/5 * * * *", 1709164800000, "scheduled", "function", "function"]])
        failed = p.get("/cdn-cgi/handler/scheduled?cron=9%20*%20*%20*%20*")
        self.assertEqual(failed.status, 500)
        self.assertIn(b"RangeError: not today", failed.body)
        deadline = time.monotonic() + 90
        while len(seen := p.get().json) < 2 and time.monotonic() < deadline:
            time.sleep(2)
        cron, at = seen[1][:2]
        self.assertEqual((cron, at % 60000), ("* * * * *", 0))
        self.assertLess(abs(time.time() * 1000 - at), 120000)

    def test_malformed_cron_is_refused(self):
        with self.assertRaises(AssertionError) as caught:
            self.serve(triggers={"crons": ["* * * * 9"]})
        self.assertIn('triggers.crons: "9" is no day of the week (1 to 7)', str(caught.exception))


class Projects(unittest.TestCase):
    def test_service_of_another_project(self):
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        os.chmod(other.name, 0o755)
        with open(os.path.join(other.name, "wrangler.jsonc"), "w") as f:
            json.dump({"name": "back", "main": "index.js", "compatibility_date": "2026-01-01", "vars": {"WHO": "back"}}, f)
        with open(os.path.join(other.name, "index.js"), "w") as f:
            f.write("""
                import { WorkerEntrypoint } from 'cloudflare:workers';
                export class Sums extends WorkerEntrypoint {
                  add(a, b) { return { sum: a + b, who: this.env.WHO, props: this.ctx.props }; }
                  each(list, call) { return Promise.all(list.map(x => call(x))); }
                }
                export default { fetch(request) { return new Response('back ' + new URL(request.url).pathname); } };""")
        if Project.user:
            subprocess.run(["chown", "-hR", Project.user, other.name], check=True)
        p = Project({"index.js": """
            export default { async fetch(request, env) {
              return Response.json({ add: await env.SUMS.add(1, 2), each: await env.SUMS.each([1, 2], x => x * 10),
                fetched: await (await env.BACK.fetch('https://x.test/p')).text(), vars: Object.keys(env).sort() });
            } };"""}, config={"services": [{"binding": "BACK", "service": "back"},
                                           {"binding": "SUMS", "service": "back", "entrypoint": "Sums", "props": {"of": "front"}}]},
            options=[other.name])
        self.addCleanup(p.close)
        self.assertEqual(p.get().json, {"add": {"sum": 3, "who": "back", "props": {"of": "front"}}, "each": [10, 20], "fetched": "back /p",
                                        "vars": ["BACK", "SUMS"]})

    def test_static_files_stay_in_their_folder(self):
        p = Project({"index.js": "export default { fetch() { return new Response('worker', { status: 404 }); } };", "secret.txt": "secret",
                     "public/index.html": "<p>home", "public/a.txt": "a"}, config={"assets": {"directory": "public"}},
                    links={"public/out": "..", "public/out.txt": "../secret.txt"})
        self.addCleanup(p.close)
        home = p.get("/")
        self.assertEqual((home.status, home.body, home.headers["content-type"].split(";")[0]), (200, b"<p>home", "text/html"))
        self.assertEqual(p.get("/", headers={"if-none-match": home.headers["etag"]}).status, 304)
        self.assertEqual(p.get("/a.txt").body, b"a")
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/a.txt/../../secret.txt", "/out/secret.txt", "/out.txt",
                     "/%00a.txt", "//secret.txt"):
            with self.subTest(path):
                answer = p.get(path)
                self.assertGreaterEqual(answer.status, 400, answer)
                self.assertNotIn(b"secret", answer.body)

    def test_port_in_use(self):
        p = Project({"index.js": "export default { fetch() { return new Response('1'); } };"}, config={})
        self.addCleanup(p.close)
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        with open(os.path.join(other.name, "wrangler.jsonc"), "w") as f:
            json.dump({"name": "two", "main": "index.js", "compatibility_date": "2026-01-01"}, f)
        with open(os.path.join(other.name, "index.js"), "w") as f:
            f.write("export default {};")
        second = subprocess.run([CLOISTER, "dev", other.name, "--port", str(p.port)], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("in use", second.stderr + second.stdout)


class Life(unittest.TestCase):
    def save(self, p, text):
        with open(os.path.join(p.directory, "index.js"), "w") as f:
            f.write(text)

    def until(self, p, ok, seconds=60):
        deadline = time.monotonic() + seconds
        while not ok() and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertTrue(ok(), p.output())

    def test_reload_names_the_line_of_an_error_and_recovers(self):
        p = Project({"index.js": "export default { fetch() { return new Response('one'); } };"}, config={})
        self.addCleanup(p.close)
        self.assertEqual(p.get().body, b"one")
        self.save(p, "export default {\n  fetch( { return 1; }\n};\n")
        self.until(p, lambda: "index.js:2:" in p.output())
        self.assertGreaterEqual(p.get().status, 500)
        self.save(p, "export default { fetch() { return new Response('two'); } };")
        self.until(p, lambda: p.get().body == b"two")

    def test_redirects_and_streamed_bodies_of_outgoing_requests(self):
        p = Project({"index.js": """
            export default { async fetch(request) {
              const url = new URL(request.url);
              if (url.pathname === '/go') return new Response(null, { status: 302, headers: { location: '/there' } });
              if (url.pathname === '/there') return new Response('there ' + request.method);
              if (url.pathname === '/echo') return new Response(request.body);
              const at = (path) => url.origin + path;
              const out = {};
              const followed = await fetch(at('/go'));
              out.follow = [followed.status, followed.redirected, new URL(followed.url).pathname, await followed.text()];
              const manual = await fetch(at('/go'), { redirect: 'manual' });
              out.manual = [manual.status, manual.headers.get('location'), manual.redirected];
              try { await fetch(at('/go'), { redirect: 'error' }); out.error = 'none'; } catch (e) { out.error = /redirect/.test(e.message); }
              const { readable, writable } = new TransformStream();
              const writer = writable.getWriter();
              const encoder = new TextEncoder();
              const answer = fetch(at('/echo'), { method: 'POST', body: readable });
              for (const part of ['a', 'bc', 'd'.repeat(100000)]) await writer.write(encoder.encode(part));
              await writer.close();
              out.streamed = (await (await answer).text()).length;
              return Response.json(out);
            } };"""}, config={})
        self.addCleanup(p.close)
        self.assertEqual(p.get().json, {"follow": [200, True, "/there", "there GET"], "manual": [302, "/there", False], "error": True,
                                        "streamed": 100003})

    def test_interrupt_leaves_no_process(self):
        p = Project({"index.js": "export default { fetch() { return new Response('1'); } };"}, config={})
        self.addCleanup(p.close)
        self.assertEqual(p.get().body, b"1")
        before = children(p.process.pid)
        self.assertGreaterEqual(len(before), 2)
        p.stop()
        deadline = time.monotonic() + 20
        while (left := [pid for pid in before if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_an_endless_handler_ends_alone(self):
        p = Project({"index.js": "export default { fetch(r) { if (r.url.endsWith('/loop')) for (;;); return new Response('1'); } };"},
                    config={"limits": {"cpu_ms": 200}})
        self.addCleanup(p.close)
        self.assertEqual(p.get().body, b"1")
        answer = p.get("/loop")
        self.assertEqual(answer.status, 500)
        self.assertIn(b"CPU", answer.body)
        self.assertEqual(p.get().body, b"1")


if __name__ == "__main__":
    unittest.main()
