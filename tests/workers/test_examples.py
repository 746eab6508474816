"""The projects of examples/, unchanged, doing what their READMEs say."""
import os
import subprocess
import tempfile
import unittest

from projects import CLOISTER, HERE, Project, ordinary_user

EXAMPLES = os.path.join(HERE, "..", "..", "examples")


def setUpModule():
    """A data directory of our own, in which cloudflare/debian-trixie means the image `host`."""
    if not Project.user_made:
        Project.user, Project.user_made = ordinary_user(), True
    directory = tempfile.TemporaryDirectory(prefix="cloister-examples-")
    unittest.addModuleCleanup(directory.cleanup)
    os.environ["CLOISTER_DATA_DIR"] = directory.name
    command = [CLOISTER, "image", "alias", "cloudflare/debian-trixie", "host"]
    if Project.user:
        subprocess.run(["chown", Project.user, directory.name], check=True)
        keep = ",".join(k for k in os.environ if k.startswith("CLOISTER"))
        command = ["runuser", "-u", Project.user, f"--whitelist-environment={keep}", "--", *command]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    unittest.addModuleCleanup(os.environ.pop, "CLOISTER_DATA_DIR")


class Examples(unittest.TestCase):
    maxDiff = None

    def serve(self, name):
        p = Project(source=os.path.join(EXAMPLES, name))
        self.addCleanup(p.close)
        return p

    def test_container_seed(self):
        p = self.serve("container-seed")
        said = p.get("/ada").json
        self.assertEqual((said["exitCode"], said["stdout"][:6]), (0, "Linux "))
        p.request("POST", "/ada", {"command": ["sh", "-c", "echo hello > /tmp/note"]})
        self.assertEqual(p.request("POST", "/ada", {"command": ["cat", "/tmp/note"]}).json, {"exitCode": 0, "stdout": "hello\n", "stderr": ""})
        self.assertEqual(p.request("POST", "/bob", {"command": ["cat", "/tmp/note"]}).json["exitCode"], 1)
        self.assertEqual(p.request("POST", "/ada", {"command": "ls"}).status, 400)
        self.assertEqual(p.request("DELETE", "/ada").status, 204)
        self.assertEqual(p.request("POST", "/ada", {"command": ["cat", "/tmp/note"]}).json["exitCode"], 1)

    def test_dynamic_worker_seed(self):
        p = self.serve("dynamic-worker-seed")
        self.assertEqual(p.request("POST", "/", "return [3, 1, 2].sort()").json, {"result": [1, 2, 3]})
        self.assertEqual(p.request("POST", "/", "return Object.keys(this.env)").json, {"result": []})
        refused = p.request("POST", "/", "return await fetch('https://example.com')")
        self.assertEqual(refused.status, 422)
        self.assertIn("This worker is not permitted to access the internet", refused.json["error"])
        self.assertEqual(p.request("POST", "/", "while (true) {}").json, {"error": "Error: Worker exceeded its CPU time limit of 200 ms."})
        self.assertEqual(p.request("POST", "/", "a b").json, {"error": "Error: code.js:6:9: Unexpected token"})

    def test_code_interpreter(self):
        p = self.serve("code-interpreter")

        def run(code, session="ada"):
            answer = p.request("POST", f"/sessions/{session}", {"code": code}).json
            del answer["ms"]
            return answer

        self.assertEqual(p.get("/tool").json["name"], "run_javascript")
        self.assertEqual(run("console.log('a', { b: 1 }); return 6 * 7"), {"result": 42, "logs": ['a {"b":1}']})
        self.assertEqual(run("await notes.set('primes', [2, 3, 5])"), {"result": None, "logs": []})
        self.assertEqual(run("return await notes.get('primes')"), {"result": [2, 3, 5], "logs": []})
        self.assertEqual(run("return await notes.names()", "bob"), {"result": [], "logs": []})
        self.assertIn("nothing", run("return nothing")["error"])
        self.assertIn("code.js", run("return }")["error"])
        self.assertIn("error", run("for (;;);"))
        self.assertEqual(run("return 1"), {"result": 1, "logs": []})
        self.assertEqual(len(p.get("/sessions/ada").json), 7)

    def test_test_runner(self):
        p = self.serve("test-runner")
        tests = "import unittest, sum\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(sum.add(2, 3), 5)\n"

        def job(files, command=("python3", "-m", "unittest"), **more):
            return p.request("POST", "/workspaces/ada", {"files": files, "command": list(command), **more})

        report = job({"sum.py": "def add(a, b):\n    return a - b\n", "test_sum.py": tests}).json
        self.assertEqual((report["passed"], report["exitCode"]), (False, 1), report)
        self.assertIn("AssertionError: -1 != 5", report["output"])
        report = job({"sum.py": "def add(a, b):\n    return 0 + a + b\n"}).json
        self.assertEqual((report["passed"], report["exitCode"]), (True, 0), report)
        report = job({}, ["sh", "-c", "echo begun; sleep 60"], timeoutMs=1000).json
        self.assertEqual((report["passed"], report["timedOut"], report["output"]), (False, True, "begun\n"))
        report = job({}, ["seq", "100000"]).json
        self.assertEqual((report["truncated"], len(report["output"]), report["output"][-7:]), (True, 65536, "100000\n"))
        self.assertEqual(p.get("/workspaces/ada/files/sum.py").body, b"def add(a, b):\n    return 0 + a + b\n")
        self.assertEqual(p.get("/workspaces/ada/files/none").status, 404)
        self.assertEqual(job({"../x": "y"}).json, {"error": "files: ../x is no path below the workspace"})
        self.assertEqual([r["passed"] for r in p.get("/workspaces/ada").json], [True, False, True, False])


if __name__ == "__main__":
    unittest.main()
