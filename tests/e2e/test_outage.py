"""An outage: what the workers depend on is down for a while, and 2,000 messages fail with many different texts. Each group says
`outage`, with numbers; once it is over, all of them go back carefully and are done. The minutes pass by libfaketime."""
import glob
import os
import socket
import socketserver
import tempfile
import threading
import unittest

from dlqtest import Server, wait_until
from traffic import Crew, work

LIBRARY = (glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or [None])[0]
SANITIZED = os.environ.get("DLQ_SANITIZE", "")
POLICY = {"max_attempts": 2, "backoff": ["200ms"], "visibility_timeout": "30s"}
BEFORE, DURING, AFTER = 3000, 2000, 1000

# What ten clients of one dead database say. %d: what differs from message to message.
TEXTS = [
    ("OperationalError", 'connection to server at "10.0.3.%d", port 5432 failed: Connection refused'),
    ("OperationalError", "server closed the connection unexpectedly while it handled request %d"),
    ("OperationalError", "FATAL: the database system is shutting down (pid %d)"),
    ("OperationalError", "FATAL: the database system is starting up, backend %d"),
    ("OperationalError", "could not receive data from server after %d ms: Connection reset by peer"),
    ("PoolTimeout", "no connection free in the pool of 20 after %d ms"),
    ("SSLError", "SSL SYSCALL error: EOF detected on connection %d"),
    ("TimeoutError", "statement cancelled after %d ms: timeout expired"),
    ("AdminShutdown", "SQLSTATE 57P01: terminating connection %d due to administrator command"),
    ("CannotConnectNow", "SQLSTATE 57P03: cannot connect now, try %d"),
]


class Database(socketserver.ThreadingTCPServer):
    """What the workers depend on: answers `ok` to each connection, or is not there."""
    allow_reuse_address = True
    daemon_threads = True

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"ok")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Worker:
    def __init__(self, address):
        self.address = address

    def handle(self, delivery):
        n = int(delivery["body"])
        try:
            with socket.create_connection(self.address, timeout=10) as s:
                if s.recv(2) == b"ok":
                    return {"outcome": "ok"}
        except OSError:
            pass
        kind, text = TEXTS[n % len(TEXTS)]
        return {"outcome": "transient", "error": {"type": kind, "message": text % (n % 250 + 1)}}


@unittest.skipUnless(LIBRARY, "needs libfaketime")
@unittest.skipIf(SANITIZED, "libfaketime cannot be preloaded before a sanitizer's runtime")
class Outage(unittest.TestCase):
    def set_clock(self, seconds):
        with open(self.file + ".new", "w") as f:
            f.write("+%d\n" % seconds)
        os.rename(self.file + ".new", self.file)

    def send(self, n):
        for at in range(0, n, 500):
            lines = "\n".join('{"body": "%d"}' % i for i in range(at, min(n, at + 500)))
            self.server.ok("POST", "/v1/queues/invoices/batch", lines)

    def drained(self):
        c = self.server.counts("invoices")
        return c["ready"] == c["leased"] == 0

    def test_outage(self):
        self.file = os.path.join(tempfile.mkdtemp(prefix="dlqtest-"), "offset")
        self.set_clock(0)
        self.server = Server(env={"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": self.file, "FAKETIME_NO_CACHE": "1",
                                  "DONT_FAKE_MONOTONIC": "1"})
        self.addCleanup(self.server.close)
        self.server.put_queue("invoices", policy=POLICY)
        database = Database()
        worker, crew = Worker(database.server_address), Crew()
        for i in range(4):
            crew.start(work, self.server, crew, "invoices", "billing-%d" % i, worker.handle, None, 50)
        self.send(BEFORE)
        wait_until(self.drained, 60, "the work before")
        self.assertEqual(self.server.totals("invoices")["done"], BEFORE)

        self.set_clock(180)
        database.shutdown()
        database.server_close()
        self.send(DURING)
        wait_until(lambda: self.server.counts("invoices")["dead"] == DURING, 60, "2,000 dead letters")

        self.set_clock(400)
        database = Database()
        self.addCleanup(database.server_close)
        self.addCleanup(database.shutdown)
        worker.address = database.server_address
        self.send(AFTER)
        wait_until(self.drained, 60, "the work after")
        self.assertEqual(self.server.totals("invoices")["done"], BEFORE + AFTER)

        groups = self.server.ok("GET", "/v1/groups?queue=invoices&dead=true&limit=100")["items"]
        self.assertEqual(len(groups), len(TEXTS), [g["message"] for g in groups])
        self.assertEqual({g["dead"] for g in groups}, {DURING // len(TEXTS)})
        for g in groups:
            d = g["diagnosis"]
            self.assertEqual(d["kind"], "outage", (g["message"], d))
            self.assertGreaterEqual(d["confidence"], 70, d)
            self.assertIn("10 kinds of failure", " ".join(d["evidence"]), d)
        print("groups of the outage: %d, evidence of the first: %s" % (len(groups), "; ".join(groups[0]["diagnosis"]["evidence"])))

        redrive = self.server.ok("POST", "/v1/redrives", {"queue": "invoices", "first": 20, "rate": "2000/s", "stop_at": "5%",
                                                          "reason": "the database is back"})
        path = "/v1/redrives/" + redrive["redrive_id"]
        wait_until(lambda: self.server.ok("GET", path)["succeeded"] == DURING, 60, "2,000 done after the outage")
        crew.stop()
        self.assertEqual(self.server.counts("invoices")["dead"], 0)
        self.assertEqual(self.server.totals("invoices")["done"], BEFORE + DURING + AFTER)


if __name__ == "__main__":
    unittest.main(verbosity=2)
