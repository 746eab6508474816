"""Packages from npm run unchanged: a Hono application, jose, and the Container class of @cloudflare/containers.
WORKERS_PACKAGES is a directory that holds their node_modules."""
import http.client
import os
import time
import unittest

from projects import HERE, Project


def project(name):
    modules = os.path.join(os.environ["WORKERS_PACKAGES"], "node_modules")
    return Project(source=os.path.join(HERE, "packages", name), links={"node_modules": modules})


class Hono(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.p = project("hono")

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def test_routes_and_parameters(self):
        self.assertEqual(self.p.get("/?name=Ada").body, b"Saluton, Ada!")
        self.assertEqual(self.p.get("/users/42", headers={"user-agent": "t"}).json, {"id": 42, "agent": "t"})
        self.assertEqual((self.p.get("/users/x").status, self.p.get("/users/x").body), (404, b"nothing here"))
        self.assertGreater(self.p.get("/lines").json, 2)

    def test_validation_and_cors(self):
        r = self.p.request("POST", "/api/order", {"item": "tea", "count": 2}, headers={"origin": "https://a.test"})
        self.assertEqual((r.status, r.json, r.headers["access-control-allow-origin"]), (201, {"accepted": {"item": "tea", "count": 2}}, "*"))
        r = self.p.request("POST", "/api/order", {"item": "", "count": 0})
        self.assertEqual((r.status, r.json), (422, {"issues": ["item", "count"]}))

    def test_multipart_form(self):
        b = "xyzzy"
        body = (f'--{b}\r\ncontent-disposition: form-data; name="name"\r\n\r\nAda\r\n--{b}\r\ncontent-disposition: form-data; name="file"; '
                f'filename="a.txt"\r\ncontent-type: text/plain\r\n\r\nhello\r\n--{b}--\r\n')
        r = self.p.request("POST", "/form", body, {"content-type": f"multipart/form-data; boundary={b}"})
        self.assertEqual(r.json, {"name": "Ada", "file": ["a.txt", "text/plain", "hello"]})

    def test_cookies(self):
        r = self.p.get("/cookie")
        self.assertEqual((r.body, r.headers["set-cookie"]), (b"null", "seen=yes; Path=/; HttpOnly; SameSite=Strict"))
        self.assertEqual(self.p.get("/cookie", headers={"cookie": "seen=yes"}).body, b"yes")

    def test_streaming(self):
        c = http.client.HTTPConnection("127.0.0.1", self.p.port, timeout=20)
        c.request("GET", "/stream")
        r = c.getresponse()
        self.assertEqual(r.headers["transfer-encoding"], "chunked")
        self.assertEqual(r.read(), b"".join(b"line %d\n" % i for i in range(5)))
        c.close()

    def test_etag_auth_and_errors(self):
        tag = self.p.get("/static/file").headers["etag"]
        self.assertEqual(self.p.get("/static/file", headers={"if-none-match": tag}).status, 304)
        self.assertEqual(self.p.get("/admin/secret").status, 401)
        self.assertEqual(self.p.get("/admin/secret", headers={"authorization": "Basic YWRtaW46cGFzcyB3b3Jk"}).body, b"welcome")
        self.assertEqual((self.p.get("/fail").status, self.p.get("/fail").body), (418, b"a teapot"))


class Jose(unittest.TestCase):
    def test_tokens(self):
        p = project("jose")
        self.addCleanup(p.close)
        failed = "ERR_JWS_SIGNATURE_VERIFICATION_FAILED"
        self.assertEqual(p.get().json, {**{a: ["guest", failed] for a in ("RS256", "PS384", "ES256", "ES384", "ES512", "Ed25519")}, "HS256": 1, "HS512": 1,
                                        "dir A256GCM": 2, "dir A128CBC-HS256": 2, "RSA-OAEP-256 A256GCM": "hidden", "ECDH-ES A128GCM": "hidden",
                                        "ECDH-ES+A256KW A256CBC-HS512": "hidden"})


class ContainerClass(unittest.TestCase):
    def test_start_run_destroy(self):
        """start() looks for a listening port, finds that it does not listen, and is content; whoever needs the port is told why it does not."""
        p = project("container")
        self.addCleanup(p.close)
        self.assertEqual(p.get("/").json, {"events": [], "running": False, "state": "stopped"})
        started = p.get("/start")
        self.assertEqual((started.status, started.json), (200, {"events": ["start"], "running": True, "state": "running"}), started)
        port = p.get("/port")
        self.assertEqual((port.status, port.body), (500, b"Error: container.getTcpPort(8080): the container is not listening: ports are reached by the containers' network, "
                                                         b"which is not implemented yet.\n"))
        self.assertEqual(p.get("/run").json, {"code": 3, "text": "blue\n"})
        self.assertTrue(p.get("/").json["running"])
        self.assertEqual(p.get("/destroy").status, 200)
        deadline = time.monotonic() + 20
        while (told := p.get("/").json)["running"]:
            self.assertLess(time.monotonic(), deadline, told)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
