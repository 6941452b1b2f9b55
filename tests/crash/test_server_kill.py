"""kill -9 of the server, again and again, at random moments under load.

What was answered must hold: a message whose send was answered 201 ends done or dead, once; an attempt whose settle was
answered 200 stays counted and recorded; the file is sound after every kill. DLQ_KILLS (100), DLQ_SEED.
"""
import json
import os
import random
import shutil
import sqlite3
import tempfile
import threading
import unittest

from dlqtest import Server, wait_until
from traffic import Broken, Connection, Crew, work

KILLS = int(os.environ.get("DLQ_KILLS", "100"))
SEED = int(os.environ.get("DLQ_SEED", "0")) or random.randrange(1 << 31)
POLICY = {"max_attempts": 3, "backoff": ["50ms", "100ms"], "visibility_timeout": "1s", "crash_limit": 50}


class Account:
    """What every producer and worker was told."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acked = set()      # sends answered 201
        self.offered = {}       # id -> plan
        self.done = {}          # id -> how often a settle was answered `done`
        self.maybe_done = set() # ok was sent, nobody knows
        self.attempts = {}      # id -> attempts answered last
        self.errors = {}        # id -> error messages of answered failures
        self.problems = []

    def plan(self, rng):
        return rng.choices(["ok", "transient-then-ok", "transient", "permanent"], [70, 12, 9, 9])[0]

    def handle(self, delivery):
        plan = json.loads(delivery["body"])["plan"]
        with self.lock:
            known = self.attempts.get(delivery["id"], 0)
            if delivery["attempts"] < known:
                self.problems.append("%s was delivered with %d attempts after %d were answered"
                                     % (delivery["id"], delivery["attempts"], known))
            if self.done.get(delivery["id"]):
                self.problems.append("%s was delivered again after `done`" % delivery["id"])
        if plan == "ok" or (plan == "transient-then-ok" and delivery["attempts"] >= 1):
            return {"outcome": "ok"}
        return {"outcome": "permanent" if plan == "permanent" else "transient",
                "error": {"type": "Planned", "message": "%s attempt %d" % (delivery["id"], delivery["attempts"] + 1)}}

    def seen(self, delivery, result, answer):
        i = delivery["id"]
        with self.lock:
            if result["outcome"] == "ok":
                if answer is None:
                    self.maybe_done.add(i)
                elif answer["result"] == "done":
                    self.done[i] = self.done.get(i, 0) + 1
            elif answer and answer["result"] in ("retry", "dead"):
                self.attempts[i] = answer["attempts"]
                self.errors.setdefault(i, set()).add(result["error"]["message"])


def send(server, crew, account, name, seed):
    rng = random.Random(seed)
    connection, n = Connection(server), 0
    while not crew.stopping.is_set():
        n += 1
        i, plan = "%s-%d" % (name, n), account.plan(rng)
        while not crew.stopping.is_set():
            try:
                status, doc = connection.request("POST", "/v1/queues/q/messages", json.dumps({"plan": plan, "pad": "x" * 300}),
                                                 {"Dlq-Id": i})
            except Broken:
                with account.lock:
                    account.offered[i] = plan
                crew.stopping.wait(0.01)
                continue
            if status in (200, 201):
                with account.lock:
                    account.offered[i] = plan
                    account.acked.add(i)
                break
            if status < 500:
                raise AssertionError("send answered %d: %r" % (status, doc))
            crew.stopping.wait(0.02)


class ServerKill(unittest.TestCase):
    def integrity(self, server):
        copy = tempfile.mkdtemp(prefix="dlqtest-copy-")
        try:
            for name in os.listdir(server.data):
                if name.startswith("dlq.db") and not name.endswith("-shm"):
                    shutil.copy(os.path.join(server.data, name), copy)
            db = sqlite3.connect(os.path.join(copy, "dlq.db"))
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            db.close()
        finally:
            shutil.rmtree(copy)

    def test_kill(self):
        print("DLQ_SEED=%d DLQ_KILLS=%d" % (SEED, KILLS))
        rng, account = random.Random(SEED), Account()
        server = Server()
        self.addCleanup(server.close)
        server.put_queue("q", policy=POLICY, dedup_window="1d")
        senders, workers = Crew(), Crew()
        for i in range(4):
            senders.start(send, server, senders, account, "s%d" % i, rng.random())
            workers.start(work, server, workers, "q", "w%d" % i, account.handle, account.seen, 5)
        for _ in range(KILLS):
            threading.Event().wait(rng.uniform(0.02, 0.35))  # a random moment
            server.kill()
            self.integrity(server)
            server.restart()
        senders.stop()

        def settled():
            c = server.counts("q")
            return c["ready"] == c["leased"] == 0
        wait_until(settled, 120, "an empty queue")
        workers.stop()

        dead = {d["id"]: d for d in server.dead("q")}
        totals = server.totals("q")
        print("%d sent and answered, %d done answered, %d dead" % (len(account.acked), len(account.done), len(dead)))
        self.assertEqual(account.problems, [])
        self.assertGreater(len(account.acked), KILLS * 5)
        self.assertEqual({i: n for i, n in account.done.items() if n != 1}, {}, "done once")
        self.assertEqual(set(account.done) & set(dead), set(), "done or dead, not both")
        lost = account.acked - set(dead) - set(account.done) - account.maybe_done
        self.assertEqual(lost, set(), "none lost")
        self.assertEqual(totals["sent"], totals["done"] + len(dead))
        over = set(account.done) | (account.maybe_done - set(dead))
        self.assertEqual(totals["done"], len(over), "each done once")
        for i in rng.sample(sorted(dead), min(200, len(dead))):
            doc = server.ok("GET", "/v1/dead-letters/" + dead[i]["dlq_id"])
            recorded = [h["error"]["message"] for h in doc["history"]]
            self.assertEqual(account.errors.get(i, set()) - set(recorded), set(), "no answered attempt is forgotten")
            self.assertEqual(len(recorded), doc["attempts"])
        for i, d in dead.items():
            self.assertGreaterEqual(d["attempts"], account.attempts.get(i, 0))
            if account.offered[i] == "ok":  # only because its leases ran out while the server was down
                self.assertEqual(d["error"]["type"], "LeaseExpired", d)


if __name__ == "__main__":
    unittest.main(verbosity=2)
