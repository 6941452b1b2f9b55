"""A wall clock that jumps (libfaketime): an hour back, a day forward, while the server runs and between two runs. Nothing is
lost, nothing is stuck for the hour (invariant 13)."""
import glob
import os
import tempfile
import unittest

from dlqtest import Server, wait_until

LIBRARY = (glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or [None])[0]
SANITIZED = os.environ.get("DLQ_SANITIZE", "")


@unittest.skipUnless(LIBRARY, "needs libfaketime")
@unittest.skipIf(SANITIZED, "libfaketime cannot be preloaded before a sanitizer's runtime")
class Clock(unittest.TestCase):
    def start(self, fake_monotonic):
        folder = tempfile.mkdtemp(prefix="dlqtest-")
        self.file = os.path.join(folder, "offset")
        self.set_clock("+0")
        env = {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": self.file, "FAKETIME_NO_CACHE": "1",
               "DONT_FAKE_MONOTONIC": "0" if fake_monotonic else "1"}
        self.server = Server(env=env)
        self.addCleanup(self.server.close)
        self.server.put_queue("q", policy={"backoff": ["1s"], "visibility_timeout": "2s", "crash_limit": 10, "max_attempts": 10})

    def set_clock(self, offset):
        with open(self.file + ".new", "w") as f:
            f.write(offset + "\n")
        os.rename(self.file + ".new", self.file)

    def scheduled(self):
        """One message of each kind that waits for a time: delayed, to be retried, leased; and a dead letter."""
        self.server.send("q", b"retried")
        self.assertEqual(self.server.settle("q", self.server.receive("q")[0]["receipt"], "transient")["result"], "retry")
        self.server.send("q", b"leased")
        self.assertEqual(self.server.receive("q")[0]["body"], "leased")
        self.server.send("q", b"delayed", Dlq_Delay="1s")
        self.server.send("q", b"dead")
        self.assertEqual(self.server.settle("q", self.server.receive("q")[0]["receipt"], "permanent")["result"], "dead")

    def all_come(self):
        got = set()

        def take():
            for d in self.server.receive("q", max=10, wait="1s"):
                got.add(d["body"])
                self.assertEqual(self.server.settle("q", d["receipt"])["result"], "done")
            return got == {"retried", "leased", "delayed"}
        wait_until(take, 20, "all three messages")
        self.assertEqual(len(self.server.dead("q")), 1)
        self.assertEqual(self.server.totals("q")["sent"] - 4 * self.rounds, 0)

    def jump(self, offset):
        self.rounds = getattr(self, "rounds", 0) + 1
        self.scheduled()
        self.set_clock(offset)
        self.all_come()
        self.server.ok("POST", "/v1/dead-letters/%s/discard" % self.server.dead("q")[0]["dlq_id"], {"reason": "next round"})

    def test_while_running(self):
        self.start(fake_monotonic=False)
        self.jump("-3600")
        self.jump("+86400")
        self.jump("+0")

    def test_while_running_with_all_clocks(self):
        self.start(fake_monotonic=True)
        self.jump("-3600")
        self.jump("+86400")
        self.jump("+0")

    def test_between_two_runs(self):
        self.start(fake_monotonic=False)
        for offset in ("-3600", "+86400", "+0"):
            self.rounds = getattr(self, "rounds", 0) + 1
            self.scheduled()
            self.server.terminate()
            self.set_clock(offset)
            self.server.restart()
            self.all_come()
            self.server.ok("POST", "/v1/dead-letters/%s/discard" % self.server.dead("q")[0]["dlq_id"], {"reason": "next round"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
