"""Modules that are made to hurt who compiles or starts them: refused by name, while other loads go on."""
import threading
import time
import unittest

from projects import Project, children
from test_clients import memory

SOURCE = """
export default { async fetch(request, env) {
  const name = new URL(request.url).pathname.slice(1);
  try {
    const worker = env.LOADER.load({ compatibilityDate: '2026-11-01', mainModule: name, modules: { [name]: await request.text() } });
    return await worker.getEntrypoint().fetch('http://x/');
  } catch (e) { return new Response(e.message, { status: 500 }); }
} };
"""
GOOD = "export default { fetch() { return new Response('good %d'); } }"
DEEP = r"^m\.[jt]s:\d+:\d+: the source is nested too deeply$"
MEMORY = r"^m\.js: the module cannot be compiled: Worker exceeded its memory limit of 512 MiB\.$"
TIME = r"^m\.[jt]s: the module cannot be compiled: it took longer than 30 s$"

REFUSED = {
    "parentheses": ("m.js", "export default " + "(" * 300000 + "1" + ")" * 300000, DEEP),
    "templates": ("m.js", "`${" * 300000, DEEP),
    "arrows": ("m.js", "(a=>" * 300000, DEEP),
    "operators": ("m.js", "- " * 300000 + "1", DEEP),
    "functions": ("m.js", "function f(){" * 300000, DEEP),
    "types": ("m.ts", "type A = " + "(" * 50000, DEEP),
    "patterns": ("m.js", "[" * 5000 + "a" + "]" * 5000 + " = 1", DEEP),
    "a regular expression": ("m.js", "/" + "(" * 300000 + ")" * 300000 + "/", DEEP),
    "statements": ("m.js", "a;" * 4000000, MEMORY),
    "a comment without an end": ("m.js", "/*" + "x" * 9000000, r"^m\.js:1:1: Unterminated comment$"),
}
SLOW = {"default values": ("m.ts", "((a=" * 28 + "1" + ")=>1)" * 28), "generic arrows": ("m.ts", "<T>(" * 30 + ")=>1" * 30),
        "bindings": ("m.js", "\n".join(f"export let v{i} = {i};" for i in range(150000)))}


class Compiler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.p = Project({"index.js": SOURCE}, config={"worker_loaders": [{"binding": "LOADER"}]})
        cls.number = 0

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def load(self, name, source, timeout=150):
        answer = self.p.request("POST", "/" + name, source.encode(), timeout=timeout)
        return answer.status, answer.body.decode()

    def good(self, seconds):
        Compiler.number += 1  # a source that no cache knows
        begin = time.monotonic()
        self.assertEqual(self.load("m.js", GOOD % self.number), (200, f"good {self.number}"))
        self.assertLess(time.monotonic() - begin, seconds)

    def test_it_holds_little_memory(self):
        self.good(20)
        held = {}
        for pid in children(self.p.process.pid):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().startswith("cloister-worker"):
                        held[pid] = memory(pid) >> 20
            except OSError:
                pass  # it has ended
        self.assertGreaterEqual(len(held), 3)  # host Worker, compilers, reserve
        self.assertLess(max(held.values()), 64, held)  # MiB; a compiler is the largest

    def test_refused_by_name(self):
        for what, (name, source, error) in REFUSED.items():
            with self.subTest(what):
                status, said = self.load(name, source)
                self.assertEqual(status, 500)
                self.assertRegex(said, error)
                self.good(20)

    def test_others_go_on_while_some_take_for_ever(self):
        said = {}
        threads = [threading.Thread(target=lambda what=what, name=name, source=source: said.update({what: self.load(name, source)}))
                   for what, (name, source) in SLOW.items()]
        for t in threads:
            t.start()
        time.sleep(0.5)
        self.good(26)  # of processor time there is little then, but they do not wait for those to give up
        self.assertEqual(said, {})  # they still take their time
        for t in threads:
            t.join()
        for what in SLOW:
            self.assertEqual(said[what][0], 500)
            self.assertRegex(said[what][1], TIME)
        self.good(15)

    def test_a_main_module_that_never_ends(self):
        said = []
        sources = ("await new Promise(() => {});" + GOOD, "x = (" + "(a = " * 30 + "1" + ") => a" * 30 + ")")
        threads = [threading.Thread(target=lambda source=source: said.append(self.load("m.js", source))) for source in sources]
        for t in threads:
            t.start()
        self.good(15)
        for t in threads:
            t.join()
        self.assertEqual(len(said), 2)
        self.assertIn((500, "The Worker did not start within 60 s."), said)
        self.assertEqual({status for status, _ in said}, {500})
        self.good(15)


if __name__ == "__main__":
    unittest.main()
