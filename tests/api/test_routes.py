"""The table of routes, the description and the server's behaviour are the same thing."""
import re
import subprocess
import unittest

from harness import DESCRIPTION, PROGRAM, Case


def printed():
    out = subprocess.run([PROGRAM, "--print-routes"], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        method, pattern, body, query = line.split(" ", 3)
        yield method, pattern, body, query.split()


def fill(pattern, name="nobody", exec_id="0" * 32):
    return pattern.replace("{name}", name).replace("{id}", exec_id)


class Table(unittest.TestCase):
    def test_no_description_fell_apart(self):
        """An unquoted comma in a flow mapping makes a key without value."""

        def look(node, at):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
                self.assertIsNotNone(value, f"{at}/{key}")
                look(value, f"{at}/{key}")

        look(DESCRIPTION.doc, "")

    def test_same_operations(self):
        self.assertEqual({(m, p) for m, p, _, _ in printed()}, {(m, p) for m, p, _ in DESCRIPTION.operations()})

    def test_same_bodies_and_queries(self):
        described = {(m, p): op for m, p, op in DESCRIPTION.operations()}
        for method, pattern, body, query in printed():
            with self.subTest(f"{method} {pattern}"):
                op = described[method, pattern]
                declared = DESCRIPTION.resolve(op.get("requestBody"))
                if declared is None:
                    self.assertEqual(body, "none")
                elif "application/json" in declared["content"]:
                    self.assertEqual(body, "json" if declared["required"] else "json?")
                else:
                    self.assertEqual(body, "stream")
                wanted = set()
                for p in DESCRIPTION.parameters(pattern, op):
                    if p["in"] == "query":
                        many = DESCRIPTION.resolve(p["schema"]).get("type") == "array"
                        wanted.add(p["name"] + ("*" if many else ""))
                self.assertEqual(set(query), wanted)

    def test_paths_hold_their_parameters(self):
        for _, pattern, op in DESCRIPTION.operations():
            names = {p["name"] for p in DESCRIPTION.parameters(pattern, op) if p["in"] == "path"}
            self.assertEqual(names, set(re.findall(r"\{(\w+)\}", pattern)), pattern)


class Server(Case):
    def body_for(self, kind):
        return {"json": {}, "json?": None, "none": None, "stream": b"x"}[kind]

    def test_wrong_methods(self):
        methods = {}
        for method, pattern, _, _ in printed():
            methods.setdefault(pattern, set()).add(method)
        for pattern, allowed in methods.items():
            for method in {"GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"} - allowed:
                if pattern in ("/v1/images/pull", "/v1/images/import") and method in ("GET", "DELETE"):
                    continue  # there {name} is "pull" or "import"
                with self.subTest(f"{method} {pattern}"):
                    answer = self.daemon.request(method, fill(pattern), check=method != "HEAD")
                    self.assertEqual(answer.status, 405)
                    self.assertTrue(allowed <= set(answer.headers["Allow"].split(", ")))
                    if method != "HEAD":
                        self.assertEqual(answer.error["code"], "METHOD_NOT_ALLOWED")

    def test_unknown_paths(self):
        for path in ("/", "/v1", "/v2/version", "/v1/containers/box/nothing", "/v1/version/x", "/v1//version", "/v1/version/",
                     "/v1/containers/", "//v1/version"):
            with self.subTest(path):
                self.assertIn(self.daemon.get(path).status, (400, 404))

    def test_every_route_without_its_container(self):
        """I1, I2: whatever is asked of a container that is not there, the answer is the same 404."""
        seen = set()
        for method, pattern, body, query in printed():
            if "/containers/{name}" not in pattern:
                continue
            with self.subTest(f"{method} {pattern}"):
                answer = self.daemon.request(method, fill(pattern), self.body_for(body))
                self.assertError(answer, 404, "NOT_FOUND")
                seen.add(answer.body)
        self.assertEqual(len(seen), 1, seen)

    def test_every_route_refuses_unknown_queries(self):
        for method, pattern, body, _ in printed():
            with self.subTest(f"{method} {pattern}"):
                answer = self.daemon.request(method, fill(pattern, "box"), self.body_for(body), query={"no-such": "1"})
                self.assertError(answer, 400, "INVALID_ARGUMENT", "no-such")

    def test_every_json_route_refuses_unknown_fields_and_other_bodies(self):
        for method, pattern, body, _ in printed():
            if not body.startswith("json"):
                continue
            path = fill(pattern, "box")
            with self.subTest(f"{method} {pattern}"):
                self.assertError(self.daemon.request(method, path, {"noSuch": 1}), 400, "INVALID_ARGUMENT", "noSuch")
                self.assertError(self.daemon.request(method, path, b"[]"), 400, "INVALID_ARGUMENT", "body")
                self.assertError(self.daemon.request(method, path, b'{"a":1,"a":2}'), 400, "INVALID_ARGUMENT", "body")
                self.assertError(self.daemon.request(method, path, b"{} x"), 400, "INVALID_ARGUMENT", "body")
                self.assertError(
                    self.daemon.request(method, path, b"{}", headers={"Content-Type": "text/plain"}), 400, "INVALID_ARGUMENT",
                    "content-type")

    def test_every_bodiless_route_refuses_a_body(self):
        for method, pattern, body, _ in printed():
            if body == "none":
                with self.subTest(f"{method} {pattern}"):
                    answer = self.daemon.request(method, fill(pattern, "box"), b"{}")
                    self.assertError(answer, 400, "INVALID_ARGUMENT", "body")
                    answer = self.daemon.request(method, fill(pattern, "box"), iter([b"x"]))
                    self.assertError(answer, 400, "INVALID_ARGUMENT", "body")

    def test_still_there(self):
        self.assertEqual(self.daemon.get("/v1/containers/box")["state"], "running")


if __name__ == "__main__":
    unittest.main()
