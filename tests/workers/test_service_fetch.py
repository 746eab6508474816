"""fetch() on a stub of a service follows redirects, as fetch() does everywhere; each hop is a request to the same service."""
import json
import unittest

from projects import Project

SOURCE = """
import { WorkerEntrypoint } from 'cloudflare:workers';
export class Service extends WorkerEntrypoint {
  async fetch(request) {
    const url = new URL(request.url);
    const [, status, ...rest] = url.pathname.split('/');
    if (status === 'loop') return Response.redirect(request.url, 302);
    if (status === 'file') return new Response(null, { status: 302, headers: { location: 'file:///etc/passwd' } });
    if (status > 0) return new Response('moved', { status: +status, headers: { location: rest[0] === 'far' ? 'https://far.test/end' : '/' + rest.join('/') } });
    return Response.json({ url: request.url, method: request.method, body: await request.text(), type: request.headers.get('content-type'),
      authorization: request.headers.get('authorization') });
  }
}
export default {
  async fetch(request, env, ctx) {
    const { path, init, stream } = await request.json();
    if (stream) init.body = new Blob(['streamed']).stream().pipeThrough(new TransformStream());
    try {
      const r = await env.SERVICE.fetch('https://near.test' + path, init);
      return Response.json([r.status, r.url, r.redirected, r.status === 200 ? await r.json() : await r.text()]);
    } catch (e) {
      return Response.json(String(e));
    }
  },
};
"""


class ServiceFetch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.p = Project({"index.js": SOURCE}, config={"services": [{"binding": "SERVICE", "service": "test", "entrypoint": "Service"}]})

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def ask(self, path, stream=False, **init):
        r = self.p.request("POST", "/", json.dumps({"path": path, "init": init, "stream": stream}))
        self.assertEqual(r.status, 200, r)
        return r.json

    def test_redirects_are_followed(self):
        status, url, redirected, got = self.ask("/302/301/end")
        self.assertEqual((status, url, redirected, got["url"]), (200, "https://near.test/end", True, "https://near.test/end"))
        self.assertEqual(self.ask("/end")[:3], [200, "https://near.test/end", False])

    def test_methods_and_bodies(self):
        post = {"method": "POST", "body": "hello", "headers": {"authorization": "a", "content-type": "text/x"}}
        for status, want in ((302, ("GET", "", None)), (303, ("GET", "", None)), (307, ("POST", "hello", "text/x")), (308, ("POST", "hello", "text/x"))):
            with self.subTest(status):
                got = self.ask(f"/{status}/end", **post)[3]
                self.assertEqual((got["method"], got["body"], got["type"]), want)
                self.assertEqual(got["authorization"], "a")
        self.assertEqual(self.ask("/307/far", **post)[3]["authorization"], None)
        self.assertIn("whose body is a stream", self.ask("/307/end", stream=True, method="POST"))
        self.assertEqual(self.ask("/303/end", stream=True, method="POST")[3]["method"], "GET")

    def test_modes_and_limits(self):
        self.assertEqual(self.ask("/302/end", redirect="manual")[::3], [302, "moved"])
        self.assertRegex(self.ask("/302/end", redirect="error"), "^TypeError: The answer of https://near.test/302/end is a redirect")
        self.assertRegex(self.ask("/loop"), "^TypeError: More than 20 redirects")
        self.assertRegex(self.ask("/file"), "^TypeError: .* none of HTTP")


if __name__ == "__main__":
    unittest.main()
