#!/usr/bin/env python3
"""Makes OCI layouts for tests/cli/image.bats.
usage: layout.py KIND DIR [ARG]..."""
import gzip, hashlib, io, json, os, platform, sys, tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
KINDS = {"d": tarfile.DIRTYPE, "f": tarfile.REGTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE}


def tar(*entries):
    """Entries: (kind, name[, contents or link target])."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for kind, name, *rest in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = KINDS[kind], 0o755 if kind == "d" else 0o644, 1000000000
            data = rest[0].encode() if kind == "f" and rest else b""
            if kind in "lh":
                info.linkname = rest[0]
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Layout:
    def __init__(self, path):
        self.path = path
        os.makedirs(path + "/blobs/sha256", exist_ok=True)
        with open(path + "/oci-layout", "w") as f:
            f.write('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data, kind, algorithm="sha256"):
        digest = hashlib.new(algorithm, data).hexdigest()
        os.makedirs(f"{self.path}/blobs/{algorithm}", exist_ok=True)
        with open(f"{self.path}/blobs/{algorithm}/{digest}", "wb") as f:
            f.write(data)
        return {"mediaType": kind, "digest": f"{algorithm}:{digest}", "size": len(data)}

    def image(self, layers, config=None, algorithm="sha256", arch=ARCH):
        packed = [self.blob(gzip.compress(l, mtime=0), LAYER, algorithm) for l in layers]
        ids = ["sha256:" + hashlib.sha256(l).hexdigest() for l in layers]
        c = self.blob(json.dumps({"architecture": arch, "os": "linux", "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": ids}}).encode(), CONFIG, algorithm)
        return self.blob(json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": c, "layers": packed}).encode(),
                         MANIFEST, algorithm)

    def index(self, *manifests):
        with open(self.path + "/index.json", "w") as f:
            json.dump({"schemaVersion": 2, "manifests": list(manifests)}, f)


CONFIG_SMALL = {"Env": ["PATH=/bin", "A=b"], "Entrypoint": ["/bin/app"], "Cmd": ["--serve"], "WorkingDir": "/srv", "User": "7:8"}


def small(l, text="hello"):
    l.index(l.image([tar(("d", "bin"), ("f", "bin/app", text)), tar(("d", "etc"), ("f", "etc/conf", "x"))], CONFIG_SMALL))


def sha512(l):
    l.index(l.image([tar(("f", "a", "1"))], algorithm="sha512"))


def c009(l):
    l.index(l.image([tar(("d", "cache"), ("f", "cache/a.txt", "old"), ("f", "conf", "x")), tar(("f", ".wh.cache"), ("f", ".wh.conf")),
                     tar(("d", "cache"), ("f", "cache/b.txt", "new"), ("d", "conf"), ("f", "conf/c.txt", "y"))]))


def opaque_root(l):
    l.index(l.image([tar(("f", "old", "1")), tar(("f", ".wh..wh..opq"), ("f", "new", "2"))]))


def c011(l, entry, outside):
    l.index(l.image([tar(*{
        "up": [("f", "../../../../../.." + outside + "/up.txt", "a")],
        "door": [("l", "door", outside), ("f", "door/in.txt", "b")],
        "absolute": [("f", "/abs.txt", "c")],
        "peek": [("h", "peek", "../../../../../../etc/hostname")],
        "kept": [("d", "usr/lib"), ("f", "usr/lib/x.so", "d"), ("l", "lib64", "../../../usr/lib")],
    }[entry])]))


def platforms(l):
    ours, other = l.image([tar(("f", "ours", "1"))]), l.image([tar(("f", "other", "1"))], arch="pdp11")
    inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        dict(other, platform={"os": "linux", "architecture": "pdp11"}), dict(ours, platform={"os": "linux", "architecture": ARCH})]})
    l.index(l.blob(inner.encode(), INDEX))


def index_loop(l):
    inner = l.blob(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [l.image([tar(("f", "a"))])]}).encode(), INDEX)
    outer = l.blob(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]}).encode(), INDEX)
    l.index(outer)


def bomb(l, megabytes):
    size = int(megabytes) << 20
    head = tarfile.TarInfo("zeros")
    head.size = size
    l.index(l.image([head.tobuf() + bytes(size) + bytes(1024)]))


def many(l, count):
    l.index(l.image([tar(*[("f", "f%d" % i) for i in range(int(count))])]))


def sparse(l):
    def record(k, v):
        body, n = f" {k}={v}\n".encode(), 0
        while n != len(body) + len(str(n)):
            n = len(body) + len(str(n))
        return str(n).encode() + body
    pax = b"".join(record(*r) for r in (("GNU.sparse.major", 1), ("GNU.sparse.minor", 0), ("GNU.sparse.name", "huge"),
                                         ("GNU.sparse.realsize", 1 << 40)))
    x, f = tarfile.TarInfo("x"), tarfile.TarInfo("f")
    x.type, x.size, f.size = b"x", len(pax), 512
    l.index(l.image([x.tobuf() + pax.ljust(512, b"\0") + f.tobuf() + b"1\n1099511627776\n0\n".ljust(512, b"\0") + bytes(1024)]))


def wrong(l, what):
    """A good image, of which one blob is then changed without changing its length."""
    small(l)
    with open(l.path + "/index.json") as f:
        manifest = json.load(f)["manifests"][0]
    blob = lambda d: f"{l.path}/blobs/{d['digest'].replace(':', '/')}"
    with open(blob(manifest)) as f:
        m = json.load(f)
    if what == "size":
        m["layers"][0]["size"] += 1
        l.index(l.blob(json.dumps(m).encode(), MANIFEST))
    elif what == "diff":
        with open(blob(m["config"])) as f:
            c = json.load(f)
        c["rootfs"]["diff_ids"].reverse()
        m["config"] = l.blob(json.dumps(c).encode(), CONFIG)
        l.index(l.blob(json.dumps(m).encode(), MANIFEST))
    else:
        path = blob({"manifest": manifest, "config": m["config"], "layer": m["layers"][1]}[what])
        with open(path, "r+b") as f:
            data = bytearray(f.read())
            # Something that stays valid: white space in JSON, the operating system byte of a gzip header.
            at = 9 if what == "layer" else data.index(b" ")
            data[at] = 7 if what == "layer" else 0x0a
            f.seek(0)
            f.write(data)


def big(l, megabytes):
    import random
    r = random.Random(3)
    l.index(l.image([tar(*[("f", "d%d/f%d" % (i % 20, i), "%x" % r.getrandbits(400000)) for i in range(int(megabytes) * 10)])]))


if __name__ == "__main__":
    globals()[sys.argv[1]](Layout(sys.argv[2]), *sys.argv[3:])
