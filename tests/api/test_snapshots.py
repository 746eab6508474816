"""Snapshots and images through the API."""
import io
import json
import os
import tarfile
import threading
import time
import unittest
from urllib.parse import quote

from harness import Case


class Snapshots(Case):
    def sh(self, name, text):
        r = self.daemon.exec(name, "sh", "-c", text)
        self.assertEqual(r["exitCode"], 0, r)
        return r["stdout"]

    def restore(self, name, **spec):
        self.daemon.create(name, **spec)
        self.addCleanup(self.daemon.delete, "/v1/containers/" + name)

    def test_container(self):
        self.sh("box", "mkdir -p /root/kept/d; cd /root/kept; echo one > a; ln a hard; ln -s a soft; chmod 751 d; touch -d @1000000000 a;"
                       "rm -f /etc/hostname.gone; echo changed > /etc/motd; rmdir /home; echo x > /run/not-saved")
        made = self.daemon.post("/v1/containers/box/snapshots", {"name": "first"})
        self.assertEqual(made.status, 201, made)
        self.assertEqual((made["kind"], made["name"], made["imageId"]), ("container", "first", "host"))
        self.assertGreater(made["size"], 0)
        self.assertAlmostEqual(made["expiresAt"] - made["createdAt"], 30 * 86400 * 1000, delta=1000)
        path = "/v1/snapshots/" + made["id"]
        self.assertEqual(self.daemon.get(path).value, made.value)
        self.assertIn(made["id"], [s["id"] for s in self.daemon.get("/v1/snapshots")["snapshots"]])
        self.assertEqual(self.sh("box", "echo still running"), "still running\n")
        for name in ("again1", "again2"):
            self.restore(name, snapshot=made["id"])
            self.assertEqual(self.daemon.get("/v1/containers/" + name)["snapshot"], made["id"])
            self.assertEqual(
                self.sh(name, "cd /root/kept; cat a hard soft; stat -c '%a' d; stat -c '%Y %h' a; cat /etc/motd; ls -d /home 2>&1 || true; ls /run"),
                "one\none\none\n751\n1000000000 2\nchanged\nls: cannot access '/home': No such file or directory\n")
        # a snapshot of what came from a snapshot
        self.sh("again1", "rm /root/kept/hard; echo two > /root/kept/b")
        second = self.daemon.post("/v1/containers/again1/snapshots")
        self.assertEqual(second.status, 201, second)
        self.restore("again3", snapshot=second["id"])
        self.assertEqual(self.sh("again3", "cd /root/kept; ls; cat b"), "a\nb\nd\nsoft\ntwo\n")
        self.assertEqual(self.daemon.delete(path).status, 204)
        self.assertError(self.daemon.get(path), 404, "NOT_FOUND")
        self.assertError(self.daemon.post("/v1/containers", {"name": "late", "snapshot": made["id"]}), 404, "NOT_FOUND")

    def test_C019_directory_with_excludes(self):
        self.sh("box", """mkdir -p /workspace && cd /workspace && rm -rf ./* ./.tools
            for f in .tools/state.json .tools/mods/a/page.md .tools/mods/a/vendor/m.js .tools/mods/b/deep/vendor/n.js vendor/x.js src/main.js \
                src/vendor_notes.txt run.sh; do mkdir -p $(dirname $f); echo $f > $f; done
            ln -s ../.tools/state.json src/link; mkdir empty; chmod 750 run.sh""")
        made = self.daemon.post("/v1/containers/box/snapshots", {"dir": "/workspace", "exclude": ["vendor", ".tools/mods/*/vendor"]})
        self.assertEqual(made.status, 201, made)
        self.assertEqual((made["kind"], made["dir"]), ("directory", "/workspace"))
        self.restore("mounted", mounts=[{"snapshot": made["id"], "target": "/workspace"}])
        found = self.sh("mounted", "cd /workspace; find . | sort; cat src/main.js; readlink src/link; stat -c %a run.sh").split("\n")
        self.assertEqual(found[:-4], [".", "./.tools", "./.tools/mods", "./.tools/mods/a", "./.tools/mods/a/page.md", "./.tools/mods/b",
                                      "./.tools/mods/b/deep", "./.tools/state.json", "./empty", "./run.sh", "./src", "./src/link",
                                      "./src/main.js", "./src/vendor_notes.txt"])
        self.assertEqual(found[-4:], ["src/main.js", "../.tools/state.json", "750", ""])
        # writable, and nobody else sees it
        self.sh("mounted", "echo mine > /workspace/new")
        self.restore("mounted2", mounts=[{"snapshot": made["id"], "target": "/workspace"}])
        self.assertEqual(self.sh("mounted2", "ls /workspace/new 2>/dev/null || echo none"), "none\n")
        self.assertError(self.daemon.post("/v1/containers", {"name": "wrong", "snapshot": made["id"]}), 400, "INVALID_ARGUMENT", "snapshot")

    def test_refusals(self):
        def post(**body):
            return self.daemon.post("/v1/containers/box/snapshots", body)

        self.assertError(post(name="x" * 64), 400, "INVALID_ARGUMENT", "name")
        self.assertError(post(name="a\n"), 400, "INVALID_ARGUMENT", "name")
        self.assertError(post(dir="x"), 400, "INVALID_ARGUMENT", "dir")
        self.assertError(post(dir="/no/such/dir"), 404, "ENOENT")
        self.assertError(post(exclude=[""]), 400, "INVALID_ARGUMENT", "exclude")
        self.assertError(post(exclude="x"), 400, "INVALID_ARGUMENT", "exclude")
        self.assertError(post(exclude=["x"] * 257), 400, "INVALID_ARGUMENT", "exclude")
        self.assertEqual(post(exclude=["--upper", "-x"]).status, 201)
        self.assertError(self.daemon.post("/v1/containers", {"name": "wrong", "snapshot": "0" * 32}), 404, "NOT_FOUND")

    def test_one_at_a_time(self):
        self.sh("box", "head -c 30000000 /dev/urandom > /root/blob")
        statuses = []

        def one():
            c = self.daemon.connect()
            c.request("POST", "/v1/containers/box/snapshots")
            r = c.getresponse()
            r.read()
            statuses.append(r.status)
            c.close()

        threads = [threading.Thread(target=one) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertIn(201, statuses)
        self.assertTrue(set(statuses) <= {201, 409}, statuses)
        self.sh("box", "rm /root/blob")

    def test_the_container_ends_meanwhile(self):
        self.daemon.create("short")
        self.sh("short", "head -c 60000000 /dev/urandom > /root/blob")
        c = self.daemon.connect()
        c.request("POST", "/v1/containers/short/snapshots")
        time.sleep(0.1)
        self.assertEqual(self.daemon.delete("/v1/containers/short").status, 204)
        reply = c.getresponse()
        body = json.loads(reply.read())
        self.assertTrue(reply.status == 201 or "error" in body)
        c.close()
        self.assertEqual(self.daemon.get("/v1/version").status, 200)


class Images(Case):
    box = False

    def tar(self, files):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o755
                tar.addfile(info, io.BytesIO(data))
        return raw.getvalue()

    def test_builtin(self):
        images = self.daemon.get("/v1/images")["images"]
        self.assertIn("host", [i["name"] for i in images])
        self.assertEqual(self.daemon.get("/v1/images/host")["id"], "host")
        self.assertGreaterEqual(self.daemon.delete("/v1/images/host").status, 400)
        self.assertError(self.daemon.get("/v1/images/no%2Fsuch"), 404, "NOT_FOUND")
        self.assertEqual(self.daemon.delete("/v1/images/no%2Fsuch").status, 404)

    def test_import_use_and_remove(self):
        with open(os.environ["CLOISTER_TEST_PAYLOAD"], "rb") as f:
            program = f.read()
        archive = self.tar({"bin/payload": program, "etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "etc/here": b"yes\n"})
        a = self.daemon.post("/v1/images/import", archive, query={"name": "test/tiny:1"})
        self.assertEqual(a.status, 200)
        self.assertEqual(a.value[-1]["event"], "done", a)
        self.assertEqual(a.value[-1]["image"]["name"], "test/tiny:1")
        image = self.daemon.get("/v1/images/" + quote("test/tiny:1", safe=""))
        self.assertEqual(image["id"], a.value[-1]["image"]["id"])
        answer = self.daemon.post("/v1/containers", {"name": "bare", "image": "test/tiny:1"})
        self.assertError(answer, 400, "ENOENT", "entrypoint", "/bin/sh")
        self.daemon.create("tiny", image="test/tiny:1", entrypoint=["/bin/payload", "sleep", "100"])
        self.assertEqual(self.daemon.exec("tiny", "/bin/payload", "cat", "/etc/here")["stdout"], "yes\n")
        made = self.daemon.post("/v1/containers/tiny/snapshots")
        self.assertEqual(made.status, 201)
        self.assertError(self.daemon.post("/v1/containers", {"name": "other", "snapshot": made["id"]}), 400, "INVALID_ARGUMENT", "snapshot")
        self.daemon.delete("/v1/containers/tiny")
        self.assertEqual(self.daemon.delete("/v1/images/" + quote("test/tiny:1", safe="")).status, 204)
        self.assertEqual(self.daemon.get("/v1/images/" + quote("test/tiny:1", safe="")).status, 404)

    def test_import_of_garbage(self):
        a = self.daemon.post("/v1/images/import", b"garbage" * 100000, query={"name": "garbage"})
        self.assertEqual(a.status, 200)
        self.assertEqual(a.value[-1]["event"], "error")
        self.assertTrue(a.value[-1]["error"]["message"])
        a = self.daemon.post("/v1/images/import", iter([b"x" * 65536] * 200), query={"name": "garbage"})
        self.assertEqual(a.value[-1]["event"], "error")
        self.assertError(self.daemon.post("/v1/images/import", b"x", query={"name": "../x y"}), 400, "INVALID_ARGUMENT", "name")
        self.assertEqual(self.daemon.get("/v1/images/garbage").status, 404)

    def test_pull_refusals(self):
        def pull(**body):
            return self.daemon.post("/v1/images/pull", body)

        self.assertError(pull(), 400, "INVALID_ARGUMENT", "reference")
        self.assertError(pull(reference="--help"), 400, "INVALID_ARGUMENT", "reference")
        self.assertError(pull(reference="a b"), 400, "INVALID_ARGUMENT", "reference")
        self.assertError(pull(reference="x", name="-y"), 400, "INVALID_ARGUMENT", "name")
        a = pull(reference="127.0.0.1:1/no/such:image")
        self.assertEqual(a.status, 200)
        self.assertEqual(a.value[-1]["event"], "error")


if __name__ == "__main__":
    unittest.main()
