"""What the configuration of a project does to the application that runs: variables and secrets, static files, what is noted, what is
refused, what a change brings."""
import json
import os
import re
import subprocess
import time
import unittest

from projects import CLOISTER, Project

ENV = "export default { fetch(request, env) { return Response.json(env); } };"
OK = "export default { fetch() { return new Response('ok'); } };"
BASE = {"name": "test", "main": "index.js", "compatibility_date": "2026-11-01"}


def until(ok, seconds=60):
    deadline = time.monotonic() + seconds
    while not ok():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


class Values(unittest.TestCase):
    maxDiff = None

    def serve(self, files, environment=(), **more):
        before = {k: os.environ.get(k) for k, _ in environment}
        os.environ.update(environment)
        try:
            p = Project(files, **more)
        finally:
            for k, v in before.items():
                os.environ.pop(k) if v is None else os.environ.update({k: v})
        self.addCleanup(p.close)
        return p

    def test_types_of_variables(self):
        variables = {"TEXT": "a // b \u00e9\n", "EMPTY": "", "NUMBER": 1.5, "BIG": 9007199254740991, "YES": True, "NO": False, "NOTHING": None,
                     "LIST": [1, "2", [3]], "MAP": {"a": {"b": [True]}, "__proto__": 1}}
        p = self.serve({"index.js": ENV}, config={"vars": variables})
        self.assertEqual(p.get().json, variables)

    def test_variables_of_toml(self):
        p = self.serve({"index.js": ENV, "wrangler.toml": 'name = "test"\nmain = "index.js"\ncompatibility_date = "2026-11-01"\n[vars]\n'
                        'TEXT = """a\nb"""\nNUMBER = 0x10\nLIST = [1, 2]\nMAP = { a.b = true }\nDATE = 2026-01-02\n'})
        self.assertEqual(p.get().json, {"TEXT": "a\nb", "NUMBER": 16, "LIST": [1, 2], "MAP": {"a": {"b": True}}, "DATE": "2026-01-02"})

    def test_secrets_of_a_file_and_of_the_environment(self):
        p = self.serve({"index.js": ENV, ".dev.vars": "# not this\nFILE=plain # nor this\nexport QUOTED=\"a\\nb # c\"\nOVER='secret'\nBOTH=file\n"},
                       environment=[("CLOISTER_TEST_SECRET", "from outside"), ("BOTH", "outside"), ("UNDECLARED", "x")],
                       config={"vars": {"OVER": "variable", "PLAIN": 1},
                               "secrets": {"required": ["FILE", "CLOISTER_TEST_SECRET", "BOTH", "MISSING"]}})
        got = p.get().json
        if not Project.user:  # runuser keeps only what begins with CLOISTER
            self.assertEqual(got.pop("BOTH"), "file")
        got.pop("BOTH", None)
        self.assertEqual(got, {"FILE": "plain", "QUOTED": "a\nb # c", "OVER": "secret", "PLAIN": 1, "CLOISTER_TEST_SECRET": "from outside"})
        self.assertIn('secrets.required[3]: the secret "MISSING" has no value: put MISSING=... into .dev.vars, or into the environment',
                      p.output())
        for value in ("from outside", "a\\nb", "plain"):
            self.assertNotIn(value, p.output())

    def test_secrets_of_an_environment(self):
        files = {"index.js": ENV, ".dev.vars": "A=top\n", ".dev.vars.staging": "A=staging\n"}
        config = {"vars": {"V": "top"}, "env": {"staging": {"vars": {"V": "s"}}, "other": {"vars": {"V": "o"}}}}
        for options, expected in (((), {"A": "top", "V": "top"}), (("--env", "staging"), {"A": "staging", "V": "s"}),
                                  (("--env", "other"), {"A": "top", "V": "o"})):
            with self.subTest(options):
                self.assertEqual(self.serve(files, config=config, options=options).get().json, expected)

    def test_a_changed_secret_arrives(self):
        p = self.serve({"index.js": ENV, ".dev.vars": "A=1\n"}, config={})
        self.assertEqual(p.get().json, {"A": "1"})
        with open(os.path.join(p.directory, ".dev.vars"), "w") as f:
            f.write("A=2\n")
        self.assertTrue(until(lambda: p.get().json == {"A": "2"}), p.output())


class Ports(unittest.TestCase):
    def test_any_free_port(self):
        ports = set()
        for _ in range(2):
            p = Project({"index.js": OK}, config={}, port=0)
            self.addCleanup(p.close)
            self.assertIn(f"Ready on http://127.0.0.1:{p.port} (", p.output())
            self.assertEqual(p.get().body, b"ok")
            ports.add(p.port)
        self.assertEqual(len(ports), 2)
        self.assertNotIn(0, ports)

    def test_what_is_no_port(self):
        for port, words in (("65536", "--port"), ("-1", "--port"), ("http", "--port")):
            with self.subTest(port):
                r = subprocess.run([CLOISTER, "dev", "--port", port, "."], capture_output=True, text=True, timeout=60)
                self.assertNotEqual(r.returncode, 0)
                self.assertIn(words, r.stderr)


class Notes(unittest.TestCase):
    maxDiff = None

    def test_what_has_no_effect_is_named_in_one_line_each(self):
        p = Project({"index.js": OK}, config={"routes": ["example.com/*"], "kv_namespaces": [{"binding": "KV", "id": "1"}], "frobnicate": {"a": 1},
                                              "triggers": {"crons": [], "often": True}, "limits": {"cpu_ms": 5000, "gpu_ms": 1}})
        self.addCleanup(p.close)
        self.assertEqual(p.get().body, b"ok")
        lines = [re.sub(r"^\[test warn\] ", "", line) for line in p.output().splitlines() if "warn" in line]
        self.assertEqual(sorted(lines), [
            "wrangler.jsonc: frobnicate: not supported; it has no effect",
            "wrangler.jsonc: kv_namespaces: not supported: env has no such binding",
            "wrangler.jsonc: limits.gpu_ms: not supported; it has no effect",
            "wrangler.jsonc: routes: ignored: every request of the port reaches the Worker",
            "wrangler.jsonc: triggers.often: not supported; it has no effect"])


# file, its text, the file's line (None: the message names a field), what is said
BROKEN = [
    ("wrangler.jsonc", '{\n  "name": "test",\n  "main" "index.js"\n}', 3, ":"),
    ("wrangler.jsonc", '{\n  "name": "test", // c\n  /* "main": 1\n}', 3, "a comment that does not end"),
    ("wrangler.jsonc", '{"name": "test"', 1, ""),
    ("wrangler.json", '{\n"name": "test",\n"name": "test"}', 3, "duplicate"),
    ("wrangler.toml", 'name = "test"\nmain = "index.js\n', 2, "a text that does not end"),
    ("wrangler.toml", 'name = "test"\n[vars]\nA = 1\n[vars]\n', 4, "a table that exists already"),
    ("wrangler.toml", 'name = "test"\nmain =\n', 2, "a value is wanted"),
    ("wrangler.jsonc", json.dumps({**BASE, "vars": []}), None, "vars: an object is wanted, not a list"),
    ("wrangler.jsonc", json.dumps({**BASE, "name": "no name"}), None, 'name: "no name" is no name: up to 63 letters, digits, - and _'),
    ("wrangler.jsonc", json.dumps({**BASE, "main": "gone.ts"}), None, "main: there is no file "),
    ("wrangler.jsonc", json.dumps({"name": "test"}), None, 'main: missing: give the entry module, such as "src/index.ts"'),
    ("wrangler.jsonc", json.dumps({**BASE, "compatibility_date": "today"}), None, 'compatibility_date: a date such as "2026-11-01" is wanted'),
    ("wrangler.jsonc", json.dumps({**BASE, "containers": [{"class_name": "A"}]}), None, "containers[0].image: missing: give the name of an image"),
    ("wrangler.jsonc", json.dumps({**BASE, "limits": {"cpu_ms": "1s"}}), None, "limits.cpu_ms: "),
    ("wrangler.toml", 'name = "test"\nmain = "index.js"\n[assets]\ndirectory = "nowhere"\n', None, "assets.directory: "),
    ("wrangler.jsonc", json.dumps({**BASE, "durable_objects": {"bindings": [{"name": "A"}]}}), None, "durable_objects.bindings[0].class_name: "),
]


class Broken(unittest.TestCase):
    def test_the_error_says_where_and_what(self):
        for name, text, line, words in BROKEN:
            with self.subTest(text):
                with self.assertRaises(AssertionError) as caught:
                    Project({"index.js": OK, name: text}).close()
                said = str(caught.exception).removeprefix("cloister dev does not listen: ").strip()
                self.assertTrue(said.startswith("cloister dev: "), said)
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(name + ": ", said)
                self.assertIn(words, said)
                if line:
                    self.assertRegex(said, rf"{re.escape(name)}: line {line}(, column \d+)?: ")

    def test_breaking_it_later_leaves_what_runs(self):
        p = Project({"index.js": ENV}, config={"vars": {"A": 1}})
        self.addCleanup(p.close)
        self.assertEqual(p.get().json, {"A": 1})

        def put(text):
            with open(os.path.join(p.directory, "wrangler.jsonc"), "w") as f:
                f.write(text)
        put('{\n  "name": "test",\n  oops\n}')
        self.assertTrue(until(lambda: "wrangler.jsonc: line 3" in p.output()), p.output())
        self.assertEqual(p.get().json, {"A": 1})
        put(json.dumps({**BASE, "vars": {"A": 2}}))
        self.assertTrue(until(lambda: p.get().json == {"A": 2}), p.output())
        put(json.dumps({**BASE, "name": "other", "vars": {"A": 3}}))
        self.assertTrue(until(lambda: 'name: it was "test" when this was started and is "other" now; start it anew' in p.output()), p.output())
        self.assertEqual(p.get().json, {"A": 2})


class Assets(unittest.TestCase):
    maxDiff = None
    FILES = {"index.js": "export default { fetch(r, env) { const u = new URL(r.url);"
             " return u.pathname.startsWith('/ask') ? env.ASSETS.fetch(new Request(new URL(u.pathname.slice(4) || '/', u), r)) : new Response('worker', { status: 299 }); } };",
             "public/index.html": "home", "public/page.html": "page", "public/dir/index.html": "dir", "public/dir/404.html": "dir404",
             "public/404.html": "404", "public/private/a.txt": "private", "public/private/open.txt": "open", "public/file.txt": "file"}

    def serve(self, worker=True, **assets):
        config = {"assets": {"directory": "public", **({"binding": "ASSETS"} if worker else {}), **assets}}
        if not worker:
            config["main"] = None
        files = dict(self.FILES)
        if not worker:
            files["wrangler.jsonc"] = json.dumps({"name": "test", "compatibility_date": "2026-11-01", **{k: v for k, v in config.items() if v}})
        p = Project(files, **({"config": config} if worker else {}))
        self.addCleanup(p.close)
        return p

    def see(self, p, path, **headers):
        a = p.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return f"{a.status} {a.headers['location']}" if a.status in (301, 302, 307, 308) else f"{a.status} {a.body.decode()}"

    def test_html_handling(self):
        paths = ["/", "/index.html", "/page", "/page/", "/page.html", "/dir", "/dir/", "/dir/index.html", "/file.txt", "/file.txt/"]
        table = {
            "auto-trailing-slash": ["200 home", "307 /", "200 page", "307 /page", "307 /page", "307 /dir/", "200 dir", "307 /dir/", "200 file", "-"],
            "force-trailing-slash": ["200 home", "307 /", "307 /page/", "200 page", "307 /page/", "307 /dir/", "200 dir", "307 /dir/", "200 file", "-"],
            "drop-trailing-slash": ["200 home", "307 /", "200 page", "307 /page", "307 /page", "200 dir", "307 /dir", "307 /dir", "200 file", "-"],
            "none": ["-", "200 home", "-", "-", "200 page", "-", "-", "200 dir", "200 file", "-"],
        }
        for how, expected in table.items():
            p = self.serve(html_handling=how)
            with self.subTest(how):
                self.assertEqual([self.see(p, path) for path in paths], [e if e != "-" else "299 worker" for e in expected])
            p.close()

    def test_not_found_handling(self):
        paths = ["/nowhere", "/dir/nowhere", "/dir/deep/er"]
        for how, expected in {"404-page": ["404 404", "404 dir404", "404 dir404"], "single-page-application": ["200 home"] * 3,
                              "none": ["404 "] * 3}.items():
            with self.subTest(how):
                p = self.serve(worker=False, not_found_handling=how)
                self.assertEqual([self.see(p, path).replace("404 Not Found\n", "404 ") for path in paths], expected)
                p.close()
                p = self.serve(not_found_handling=how)
                self.assertEqual([self.see(p, path) for path in paths], ["299 worker"] * 3)
                navigated = [self.see(p, path, sec_fetch_mode="navigate") for path in paths]
                self.assertEqual(navigated, ["299 worker"] * 3 if how == "none" else expected)
                self.assertEqual([self.see(p, path, sec_fetch_mode="cors") for path in paths], ["299 worker"] * 3)
                self.assertEqual([self.see(p, "/ask" + path) for path in paths], expected)
                p.close()

    def test_navigation_before_it_preferred_files(self):
        for more in ({"compatibility_date": "2025-03-31"}, {"compatibility_flags": ["assets_navigation_has_no_effect"]}):
            p = Project(self.FILES, config={"assets": {"directory": "public", "not_found_handling": "single-page-application"}, **more})
            self.addCleanup(p.close)
            self.assertEqual(self.see(p, "/nowhere", sec_fetch_mode="navigate"), "299 worker")
            p.close()

    def test_run_worker_first(self):
        p = self.serve(run_worker_first=True)
        self.assertEqual([self.see(p, x) for x in ("/", "/file.txt", "/ask/file.txt")], ["299 worker", "299 worker", "200 file"])
        p.close()
        p = self.serve(run_worker_first=["/private/*", "!/private/open.txt"])
        for path, expected in {"/file.txt": "200 file", "/private/a.txt": "299 worker", "/private/open.txt": "200 open",
                               # the same file by another spelling
                               "/%70rivate/a.txt": "299 worker", "/private%2Fa.txt": "299 worker", "/private/%61.txt": "299 worker",
                               "/private/%6Fpen.txt": "299 worker", "/private/a.txt?x": "299 worker", "/private/../private/a.txt": "299 worker",
                               "/x/../private/a.txt": "299 worker", "//private/a.txt": "299 worker", "/./private/a.txt": "299 worker",
                               "/Private/a.txt": "299 worker"}.items():
            with self.subTest(path):
                self.assertEqual(self.see(p, path), expected)

    def test_only_get_and_head_are_files(self):
        p = self.serve()
        for method, expected in {"GET": (200, b"file"), "HEAD": (200, b""), "POST": (299, b"worker"), "DELETE": (299, b"worker")}.items():
            answer = p.request(method, "/file.txt")
            self.assertEqual((answer.status, answer.body), expected, method)
        for where in ("/ask/file.txt", "/file.txt"):
            if where == "/file.txt":
                p.close()
                p = self.serve(worker=False)
            for method, expected in {"GET": (200, b"file", None), "HEAD": (200, b"", None), "POST": (405, b"", "GET, HEAD"), "DELETE": (405, b"", "GET, HEAD"), "OPTIONS": (405, b"", "GET, HEAD")}.items():
                with self.subTest(f"{method} {where}"):
                    answer = p.request(method, where)
                    self.assertEqual((answer.status, answer.body, answer.headers.get("allow")), expected)
            self.assertEqual(p.request("POST", where + "-not").status, 404)

    def test_ranges(self):
        p = self.serve()
        for path in ("/file.txt", "/ask/file.txt"):
            whole = p.get(path)
            self.assertEqual((whole.body, whole.headers["accept-ranges"], whole.headers.get("content-range")), (b"file", "bytes", None))
            etag = whole.headers["etag"]
            for headers, expected in (
                ({"range": "bytes=0-0"}, (206, b"f", "bytes 0-0/4")), ({"range": "bytes=1-2"}, (206, b"il", "bytes 1-2/4")), ({"range": "bytes=2-"}, (206, b"le", "bytes 2-3/4")),
                ({"range": "bytes=-1"}, (206, b"e", "bytes 3-3/4")), ({"range": "bytes=-9"}, (206, b"file", "bytes 0-3/4")), ({"range": "bytes=1-99999999999999999999999"}, (206, b"ile", "bytes 1-3/4")),
                ({"range": "BYTES=3-3"}, (206, b"e", "bytes 3-3/4")),
                ({"range": "bytes=4-"}, (416, b"", "bytes */4")), ({"range": "bytes=-0"}, (416, b"", "bytes */4")), ({"range": "bytes=18446744073709551616-"}, (416, b"", "bytes */4")),
                # what is none, or more than one, is as if it were not there
                *(({"range": x}, (200, b"file", None)) for x in ("bytes=2-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=0-1,3-3", "bytes 0-1", "bytes=0x0-1", "bytes=0-1x", "bytes=--1", "lines=0-1", "bytes=+0-1", "")),
                ({"range": "bytes=1-2", "if-range": etag}, (206, b"il", "bytes 1-2/4")), ({"range": "bytes=1-2", "if-range": '"else"'}, (200, b"file", None)),
                ({"range": "bytes=1-2", "if-range": "W/" + etag}, (200, b"file", None)), ({"range": "bytes=1-2", "if-range": "Tue, 01 Dec 2026 00:00:00 GMT"}, (200, b"file", None)),
                ({"range": "bytes=1-2", "if-none-match": etag}, (304, b"", None)),
            ):
                with self.subTest(f"{path} {headers}"):
                    answer = p.get(path, headers=headers)
                    self.assertEqual((answer.status, answer.body, answer.headers.get("content-range")), expected)
            self.assertEqual(p.request("HEAD", path, headers={"range": "bytes=1-2"}).status, 200)
        p.close()
        p = Project({**self.FILES, "public/large.bin": bytes(range(256)) * 4096}, config={"assets": {"directory": "public", "binding": "ASSETS"}})
        self.addCleanup(p.close)
        for path in ("/large.bin", "/ask/large.bin"):
            answer = p.get(path, headers={"range": "bytes=3-900000"})
            self.assertEqual((answer.status, answer.headers["content-range"]), (206, "bytes 3-900000/1048576"))
            self.assertEqual(answer.body, (bytes(range(256)) * 4096)[3:900001])


if __name__ == "__main__":
    unittest.main()
