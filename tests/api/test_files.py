"""The files API."""
import hashlib
import io
import json
import os
import tarfile
import time
import unittest

from harness import Case


class Files(Case):
    def path(self, what=""):
        return "/v1/containers/box/files" + what

    def read(self, path, headers=None, **query):
        return self.daemon.get(self.path(), query={"path": path, **query}, headers=headers)

    def write(self, path, data, **query):
        return self.daemon.put(self.path(), data, query={"path": path, **query})

    def sh(self, text):
        r = self.daemon.exec("box", "sh", "-c", text)
        self.assertEqual(r["exitCode"], 0, r)
        return r["stdout"]

    def test_write_and_read(self):
        data = os.urandom(3_000_000)
        digest = hashlib.sha256(data).hexdigest()
        a = self.write("/tmp/f", data, mode="0640", sha256=digest)
        self.assertEqual(a.value, {"size": len(data), "sha256": digest})
        self.assertEqual(self.sh("sha256sum /tmp/f; stat -c %a /tmp/f").split(), [digest, "/tmp/f", "640"])
        got = self.read("/tmp/f")
        self.assertEqual((got.status, got.body), (200, data))
        self.assertEqual(got.headers["X-Cloister-Size"], str(len(data)))
        a = self.write("/tmp/f", iter([b"chunk"] * 1000))
        self.assertEqual(a["size"], 5000)
        self.assertEqual(self.read("/tmp/f").body, b"chunk" * 1000)
        self.assertEqual(self.sh("stat -c %a /tmp/f").strip(), "640")

    def test_empty(self):
        self.assertEqual(self.write("/tmp/empty", b"")["size"], 0)
        got = self.read("/tmp/empty")
        self.assertEqual((got.status, got.body, got.headers["Content-Length"]), (200, b"", "0"))

    def test_large(self):
        data = os.urandom(1 << 20) * 64
        self.assertEqual(self.write("/tmp/large", data).status, 200)
        got = self.read("/tmp/large")
        self.assertEqual(hashlib.sha256(got.body).digest(), hashlib.sha256(data).digest())
        self.daemon.delete(self.path(), query={"path": "/tmp/large"})

    def test_wrong_digest_leaves_the_old(self):
        self.write("/tmp/g", b"old")
        a = self.write("/tmp/g", b"new", sha256="0" * 64)
        self.assertGreaterEqual(a.status, 400)
        self.assertEqual(self.read("/tmp/g").body, b"old")
        self.assertEqual(self.write("/tmp/g", b"x", sha256="12").error["field"], "sha256")

    def test_a_client_that_leaves_leaves_the_old(self):
        self.write("/tmp/h", b"old")
        c = self.daemon.connect()
        c.putrequest("PUT", self.path() + "?path=/tmp/h")
        c.putheader("Content-Length", "1000000")
        c.endheaders(b"y" * 1000)
        time.sleep(0.1)
        c.close()
        time.sleep(0.3)
        self.assertEqual(self.read("/tmp/h").body, b"old")
        self.assertEqual(self.sh("ls -A /tmp | grep -c '^h' || true").strip(), "1")

    def test_ranges(self):
        self.write("/tmp/r", bytes(range(100)))
        for spec, want in (("bytes=0-9", (0, 10)), ("bytes=90-", (90, 100)), ("bytes=-5", (95, 100)), ("bytes=50-500", (50, 100))):
            a = self.read("/tmp/r", headers={"Range": spec})
            self.assertEqual((a.status, a.body), (206, bytes(range(*want))))
            self.assertEqual(a.headers["Content-Range"], f"bytes {want[0]}-{want[1] - 1}/100")
        for spec in ("bytes=100-", "bytes=5-2", "lines=1-2", "bytes=a-b", "bytes=-", "bytes=0-1,5-6"):
            self.assertEqual(self.read("/tmp/r", headers={"Range": spec}).status, 416, spec)
        self.assertEqual(self.read("/tmp/r", offset=10, length=5).body, bytes(range(10, 15)))
        self.assertEqual(self.read("/tmp/r", offset=1000).body, b"")
        self.assertError(self.read("/tmp/r", offset=-1), 400, "INVALID_ARGUMENT", "offset")

    def test_options(self):
        self.assertError(self.write("/tmp/no/such/f", b"x"), 404, "ENOENT")
        self.assertEqual(self.write("/tmp/new/dirs/f", b"x", parents="true").status, 200)
        self.assertError(self.write("/tmp/new/dirs/f", b"y", exclusive="true"), 409, "EEXIST")
        self.assertEqual(self.write("/tmp/new/dirs/f", b"z", append="true").status, 200)
        self.assertEqual(self.read("/tmp/new/dirs/f").body, b"xz")
        self.assertError(self.write("/tmp/x", b"", mode="rwx"), 400, "INVALID_ARGUMENT", "mode")
        self.assertError(self.write("/tmp/x", b"", mode="0888"), 400, "INVALID_ARGUMENT", "mode")
        self.assertError(self.write("/tmp/x", b"", parents="yes"), 400, "INVALID_ARGUMENT", "parents")

    def test_paths(self):
        for path in ("relative", "", "x/../y"):
            for what in ("", "/stat", "/list", "/archive", "/watch"):
                self.assertError(self.daemon.get(self.path(what), query={"path": path}), 400, "INVALID_ARGUMENT", "path")
        self.assertError(self.daemon.get(self.path()), 400, "INVALID_ARGUMENT", "path")
        self.assertError(self.read("/no/such"), 404, "ENOENT")
        self.assertError(self.read("/etc"), 409, "EISDIR")
        self.assertError(self.read("/etc/passwd/x"), 409, "ENOTDIR")
        name = "/tmp/sp ace+\u0109%\U0001f642\n"
        self.write(name, b"odd")
        self.assertEqual(self.read(name).body, b"odd")

    def test_I5_not_files(self):
        self.sh("mkfifo /tmp/fifo; ln -sfn /tmp/loop /tmp/loop; ln -sfn /etc/passwd /tmp/pw; ln -sfn /dev/zero /tmp/zero")
        for path in ("/tmp/fifo", "/dev/zero", "/tmp/zero"):
            start = time.monotonic()
            self.assertEqual(self.read(path).status, 400, path)
            self.assertLess(time.monotonic() - start, 2)
        self.assertError(self.read("/tmp/loop"), 409, "ELOOP")
        self.assertEqual(self.read("/tmp/pw").body, self.read("/etc/passwd").body)
        self.assertGreaterEqual(self.read("/proc/self/root/etc/passwd").status, 400)
        self.assertGreaterEqual(self.read("/proc/1/environ").status, 400)

    def test_stat_and_list(self):
        self.sh("mkdir -p /tmp/l/sub /tmp/l/.git; cd /tmp/l; echo hello > a; chmod 600 a; ln -s a link; touch .hidden sub/b .git/c")
        a = self.daemon.get(self.path("/stat"), query={"path": "/tmp/l/a"})
        self.assertEqual((a["type"], a["size"], a["mode"], a["uid"]), ("file", 6, "0600", 0))
        self.assertLess(abs(a["mtimeMs"] / 1000 - time.time()), 60)
        self.assertEqual(self.daemon.get(self.path("/stat"), query={"path": "/tmp/l/link"})["type"], "file")
        link = self.daemon.get(self.path("/stat"), query={"path": "/tmp/l/link", "follow": "false"})
        self.assertEqual((link["type"], link["target"]), ("symlink", "a"))
        self.assertError(self.daemon.get(self.path("/stat"), query={"path": "/tmp/l/none"}), 404, "ENOENT")

        def names(**query):
            a = self.daemon.get(self.path("/list"), query={"path": "/tmp/l", **query})
            self.assertEqual(a["count"], len(a["entries"]))
            return sorted(e["path"] for e in a["entries"])

        self.assertEqual(names(), [".git", ".hidden", "a", "link", "sub"])
        self.assertEqual(names(hidden="false"), ["a", "link", "sub"])
        self.assertEqual(names(hidden="false", recursive="true"), ["a", "link", "sub", "sub/b"])
        self.assertEqual(names(recursive="true"), [".git", ".git/c", ".hidden", "a", "link", "sub", "sub/b"])
        lines = self.daemon.get(self.path("/list"), query={"path": "/tmp/l"}, headers={"Accept": "application/x-ndjson"})
        self.assertEqual(sorted(e["path"] for e in lines.value), [".git", ".hidden", "a", "link", "sub"])
        self.assertError(self.daemon.get(self.path("/list"), query={"path": "/tmp/none"}), 404, "ENOENT")
        empty = self.daemon.get(self.path("/list"), query={"path": "/tmp/l/sub", "hidden": "false"})
        self.assertEqual(empty["count"], 1)

    def test_names_that_are_no_text(self):
        self.sh("mkdir -p /tmp/odd; cd /tmp/odd; touch \"$(printf 'caf\\351')\"")
        entry = self.daemon.get(self.path("/list"), query={"path": "/tmp/odd"})["entries"][0]
        self.assertEqual((entry["path"], entry["pathBase64"]), ("caf\ufffd", "Y2Fm6Q=="))

    def test_long_list(self):
        self.sh("mkdir -p /tmp/many; cd /tmp/many; i=0; while [ $i -lt 20000 ]; do echo a-rather-long-name-$i; i=$((i+1)); done | xargs touch")
        self.assertEqual(self.daemon.get(self.path("/list"), query={"path": "/tmp/many"})["count"], 20000)
        lines = self.daemon.get(self.path("/list"), query={"path": "/tmp/many"}, headers={"Accept": "application/x-ndjson"})
        self.assertEqual(len({e["path"] for e in lines.value}), 20000)

    def test_mkdir_rename_remove(self):
        def post(what, **body):
            return self.daemon.post(self.path(what), body)

        self.assertError(post("/mkdir", path="/tmp/m/n"), 404, "ENOENT")
        self.assertEqual(post("/mkdir", path="/tmp/m/n", parents=True, mode="0750").status, 204)
        self.assertError(post("/mkdir", path="/tmp/m/n"), 409, "EEXIST")
        self.write("/tmp/m/n/f", b"x")
        self.assertEqual(post("/rename", **{"from": "/tmp/m/n/f", "to": "/tmp/m/g"}).status, 204)
        self.assertError(post("/rename", **{"from": "/tmp/m/n/f", "to": "/tmp/m/g"}), 404, "ENOENT")
        self.assertError(post("/rename", to="/x"), 400, "INVALID_ARGUMENT", "from")
        self.assertError(post("/mkdir", path="x"), 400, "INVALID_ARGUMENT", "path")

        def remove(path, **query):
            return self.daemon.delete(self.path(), query={"path": path, **query})

        self.assertEqual(remove("/tmp/m").status, 409)
        self.assertEqual(remove("/tmp/m/g").status, 204)
        self.assertError(remove("/tmp/m/g"), 404, "ENOENT")
        self.assertEqual(remove("/tmp/m/g", force="true").status, 204)
        self.assertEqual(remove("/tmp/m", recursive="true").status, 204)
        self.assertEqual(self.sh("test -e /tmp/m || echo gone"), "gone\n")

    def test_archives(self):
        self.sh("mkdir -p /tmp/t/d; cd /tmp/t; echo one > a; echo two > d/b; ln -s ../a d/l; mkdir skip; echo no > skip/c; chmod 750 d")
        a = self.daemon.get(self.path("/archive"), query={"path": "/tmp/t", "exclude": ["skip"]})
        self.assertEqual((a.status, a.type), (200, "application/x-tar"))
        with tarfile.open(fileobj=io.BytesIO(a.body)) as tar:
            members = {m.name.removeprefix("./").rstrip("/"): m for m in tar.getmembers()}
        self.assertIn("d/b", members)
        self.assertNotIn("skip/c", members)
        self.assertEqual(members["d/l"].linkname, "../a")
        digest = hashlib.sha256(a.body).hexdigest()
        done = self.daemon.put(self.path("/archive"), a.body, query={"path": "/tmp/t2/x", "parents": "true", "sha256": digest})
        self.assertEqual(done.status, 200, done)
        self.assertEqual((done["size"], done["sha256"]), (len(a.body), digest))
        self.assertEqual(self.sh("cd /tmp/t2/x; cat a d/b d/l; stat -c %a d; ls"), "one\ntwo\none\n750\na\nd\n")
        self.assertError(self.daemon.get(self.path("/archive"), query={"path": "/tmp/none"}), 404, "ENOENT")
        for damaged in (b"no tar at all" * 100, a.body[: len(a.body) // 2 + 100]):
            answer = self.daemon.put(self.path("/archive"), damaged, query={"path": "/tmp/t3", "parents": "true"})
            self.assertError(answer, 400, "INVALID_ARGUMENT", "body", "tar")
        answer = self.daemon.put(self.path("/archive"), a.body, query={"path": "/tmp/t3", "parents": "true", "sha256": "0" * 64})
        self.assertError(answer, 400, "INVALID_ARGUMENT", "body", "SHA-256")

    def test_I6_archive_that_would_leave(self):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name in ("../escaped", "/tmp/escaped-absolute"):
                info = tarfile.TarInfo(name)
                info.size = 1
                tar.addfile(info, io.BytesIO(b"x"))
        self.sh("mkdir -p /tmp/in/here")
        self.daemon.put(self.path("/archive"), raw.getvalue(), query={"path": "/tmp/in/here"})
        self.assertEqual(self.sh("ls /tmp/in/escaped /tmp/escaped-absolute 2>/dev/null; true"), "")

    def test_disk_full(self):
        self.daemon.create("small", instance={"diskMb": 20})
        a = self.daemon.put("/v1/containers/small/files", b"x" * 60_000_000, query={"path": "/root/big"})
        self.assertError(a, 507, "ENOSPC")
        a = self.daemon.put("/v1/containers/small/files", b"x" * 1_000_000, query={"path": "/root/fits"})
        self.assertEqual(a.status, 200)
        self.daemon.delete("/v1/containers/small")

    def test_watch(self):
        self.sh("mkdir -p /tmp/w")
        self.assertError(self.daemon.get(self.path("/watch"), query={"path": "/tmp/not-there"}), 404, "ENOENT")
        c = self.daemon.connect(timeout=10)
        c.request("GET", self.path("/watch") + "?path=/tmp/w&recursive=true")
        reply = c.getresponse()
        self.assertEqual(reply.status, 200)
        self.sh("touch /tmp/w/new; mv /tmp/w/new /tmp/w/newer; rm /tmp/w/newer; mkdir /tmp/w/d; touch /tmp/w/d/deep")
        seen = []
        while ("create", "d/deep") not in seen:
            line = json.loads(reply.readline())
            seen.append((line["event"], line.get("to") or line["path"]))
        for wanted in (("create", "new"), ("rename", "newer"), ("delete", "newer"), ("create", "d")):
            self.assertIn(wanted, seen)
        c.close()

    def test_not_running(self):
        self.daemon.create("still", entrypoint=["true"])
        self.daemon.get("/v1/containers/still/monitor")
        for what in ("", "/stat", "/list", "/archive", "/watch"):
            self.assertError(self.daemon.get("/v1/containers/still/files" + what, query={"path": "/x"}), 409, "WRONG_STATE")
        self.assertError(self.daemon.put("/v1/containers/still/files", b"x" * 100000, query={"path": "/x"}), 409, "WRONG_STATE")

    def test_container_that_ends_meanwhile(self):
        self.daemon.create("ends")
        self.daemon.exec("ends", "sh", "-c", "head -c 300000000 /dev/zero > /tmp/z")
        c = self.daemon.connect(timeout=10)
        c.request("GET", "/v1/containers/ends/files?path=/tmp/z")
        reply = c.getresponse()
        self.assertEqual(reply.headers["Content-Length"], "300000000")
        got = len(reply.read(1000))
        self.daemon.delete("/v1/containers/ends")
        while piece := reply.read(1 << 20):
            got += len(piece)
        self.assertLess(got, 300000000)  # broken off, and to be seen by the length
        c.close()
        self.assertEqual(self.daemon.get("/v1/version").status, 200)


if __name__ == "__main__":
    unittest.main()
