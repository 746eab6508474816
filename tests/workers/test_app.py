"""What an application is besides its Workers: crons, and how several projects, configuration and clients go together."""
import time
import unittest

from projects import Project


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


if __name__ == "__main__":
    unittest.main()
