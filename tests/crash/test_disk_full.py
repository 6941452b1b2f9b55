"""A full disk (a small tmpfs): senders get an error and never a success, readiness fails, reads go on; when space returns the
server works on by itself and nothing that was acknowledged is missing."""
import os
import subprocess
import tempfile
import unittest

from dlqtest import Server, wait_until

BODY = b"x" * 4000


@unittest.skipUnless(os.geteuid() == 0, "mounting a tmpfs needs root")
class DiskFull(unittest.TestCase):
    def setUp(self):
        self.mount = tempfile.mkdtemp(prefix="dlqtest-full-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", self.mount], check=True)
        self.addCleanup(os.rmdir, self.mount)
        self.addCleanup(subprocess.run, ["umount", "-l", self.mount], check=True)
        self.ballast = os.path.join(self.mount, "ballast")
        self.server = Server(data=os.path.join(self.mount, "data"))
        self.addCleanup(self.server.close)
        self.server.put_queue("q", policy={"visibility_timeout": "10m", "retention": "30d"})
        with open(self.ballast, "wb") as f:
            f.write(b"\0" * (16 << 20))

    def fill(self):
        """Sends until it is refused. -> ids acknowledged"""
        acked = []
        for _ in range(20000):
            status, doc, _ = self.server.api("POST", "/v1/queues/q/messages", BODY)
            if status != 201:
                self.assertEqual((status, doc["code"]), (507, "store_full"))
                return acked
            acked.append(doc["id"])
        self.fail("the disk never became full")

    def take_all(self):
        got = []
        while True:
            some = self.server.receive("q", max=500)
            if not some:
                return got
            got += [(d["id"], d["body"].encode()) for d in some]
            self.assertTrue(all(self.server.settle("q", d["receipt"])["result"] == "done" for d in some))

    def test_full_and_back(self):
        acked = self.fill()
        self.assertGreater(len(acked), 500)
        status, doc, _ = self.server.api("GET", "/readyz")
        self.assertEqual(status, 503, doc)
        self.assertEqual(self.server.api("GET", "/healthz")[0], 200)
        for _ in range(20):
            self.assertEqual(self.server.api("POST", "/v1/queues/q/messages", BODY)[0], 507)
        self.assertEqual(self.server.counts("q")["ready"], len(acked), "reads go on")
        self.assertIn("store", self.server.log())
        os.unlink(self.ballast)
        wait_until(lambda: self.server.api("GET", "/readyz")[0] == 200, 20, "readiness after space returned")
        acked.append(self.server.send("q", BODY))
        got = self.take_all()
        self.assertEqual(sorted(i for i, _ in got), sorted(acked))
        self.assertEqual({b for _, b in got}, {BODY})

    def test_kill_while_full(self):
        acked = self.fill()
        self.server.kill()
        os.unlink(self.ballast)
        self.server.restart()
        self.assertEqual(sorted(i for i, _ in self.take_all()), sorted(acked))


if __name__ == "__main__":
    unittest.main(verbosity=2)
