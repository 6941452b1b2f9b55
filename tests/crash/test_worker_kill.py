"""kill -9 of a worker in the middle of a message: the message comes back after its lease; one that kills its worker every
time is quarantined at crash_limit with reason lease_expired, while the rest of the queue flows."""
import os
import signal
import subprocess
import tempfile
import unittest

from dlqtest import BINARY, Server, wait_until


class Worker:
    """`dlq work` with a script that blocks on the message "poison" and writes every other one to a file."""

    def __init__(self, server, folder, name):
        self.started = os.path.join(folder, name + ".started")
        self.done = os.path.join(folder, "done")
        script = 'body=$(cat); if [ "$body" = poison ]; then echo $$ > "$STARTED"; exec sleep 600; fi; echo "$body" >> "$DONE"'
        env = dict(os.environ, DLQ_URL=server.url, DLQ_TOKEN=server.token, STARTED=self.started, DONE=self.done)
        self.process = subprocess.Popen([BINARY, "work", "q", "--worker", name, "--concurrency", "2", "--", "sh", "-c", script],
                                        env=env, stderr=subprocess.DEVNULL)

    def has_poison(self):
        try:
            with open(self.started) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def kill(self):
        """kill -9 of the worker and of the command it was running."""
        self.process.kill()
        self.process.wait()
        pid = self.has_poison()
        if pid:
            os.kill(pid, signal.SIGKILL)
        return pid

    def end(self):
        if self.process.poll() is None:
            self.kill()


class WorkerKill(unittest.TestCase):
    def test_crash_limit(self):
        server = Server()
        self.addCleanup(server.close)
        folder = tempfile.mkdtemp(prefix="dlqtest-")
        server.put_queue("q", policy={"max_attempts": 10, "crash_limit": 3, "backoff": ["10ms"], "visibility_timeout": "2s"})
        poison = server.send("q", b"poison")
        for i in range(30):
            server.send("q", b"good-%d" % i)

        def good():
            try:
                with open(os.path.join(folder, "done")) as f:
                    return len(f.read().split())
            except FileNotFoundError:
                return 0
        for n in range(3):
            worker = Worker(server, folder, "worker-%d" % n)
            self.addCleanup(worker.end)
            wait_until(worker.has_poison, 30, "poison at worker %d" % n)
            if n == 0:
                wait_until(lambda: good() == 30, 30, "the good ones done beside it")
            worker.kill()
        dead = wait_until(lambda: server.dead("q"), 30, "the quarantine")
        self.assertEqual([d["id"] for d in dead], [poison])
        self.assertEqual((dead[0]["reason"], dead[0]["attempts"]), ("lease_expired", 3))
        history = server.ok("GET", "/v1/dead-letters/" + dead[0]["dlq_id"])["history"]
        self.assertEqual([h["worker"] for h in history], ["worker-0", "worker-1", "worker-2"])
        self.assertEqual({h["error"]["type"] for h in history}, {"LeaseExpired"})
        totals = server.totals("q")
        self.assertEqual((totals["done"], totals["died"]), (30, 1))

    def test_once_killed_then_done(self):
        server = Server()
        self.addCleanup(server.close)
        folder = tempfile.mkdtemp(prefix="dlqtest-")
        server.put_queue("q", policy={"backoff": ["10ms"], "visibility_timeout": "1s"})
        server.send("q", b"poison")
        worker = Worker(server, folder, "first")
        self.addCleanup(worker.end)
        wait_until(worker.has_poison, 30, "the message at the worker")
        worker.kill()
        again = wait_until(lambda: server.receive("q", wait="1s"), 30, "the redelivery")
        self.assertEqual((again[0]["body"], again[0]["attempts"]), ("poison", 1))
        self.assertEqual(server.settle("q", again[0]["receipt"])["result"], "done")


if __name__ == "__main__":
    unittest.main(verbosity=2)
