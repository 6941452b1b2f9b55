"""kill -9 of the server, again and again, while several clients at once run everything that works on dead letters: jobs of every
kind over overlapping choices, with and without edits and guards, undo, single moves, exports taken back in, merges, searches,
changed limits, deleted queues, a retention that ends all the while.

At the end nothing is counted wrongly: every job's total is sent + skipped + cancelled and has as many lines in its ledger, what
queues and groups count is what the lists have, no staged edit is left, the database is whole, the audit chain too, and every message
is somewhere. DLQ_SECONDS (30), DLQ_SEED.
"""
import collections
import json
import os
import random
import sqlite3
import threading
import time
import unittest
from http.client import HTTPException

from dlqtest import Server, wait_until
from traffic import Broken, Connection, Crew

SECONDS = float(os.environ.get("DLQ_SECONDS", "30"))
SEED = int(os.environ.get("DLQ_SEED", "0")) or random.randrange(1 << 31)
QUEUES = ["a", "b", "ordered", "short"]
POLICY = {"max_attempts": 1, "visibility_timeout": "5s", "crash_limit": 1000, "max_redrives": 5}
ERRORS = ["E1", "E2", "E3"]
WHERES = [".body.n % 3 == 0", ".headers.part == \"p1\"", ".error.type != \"E2\"", ".body.n / 0 > 1", "true"]
PROGRAMS = [".tries += 1", "if .n % 5 == 0 then error(\"no\") else .x = \"y\" end", ".", ".big = (.n | tostring)"]

# Each finds nothing where all is well.
RECOUNTS = {
    "queues count what they have": """
        SELECT * FROM (SELECT queue_id, dead, redriving, held, ready, leased,
            (SELECT count(*) FROM dead d WHERE d.queue_id = c.queue_id AND state = 0) AS d,
            (SELECT count(*) FROM dead d WHERE d.queue_id = c.queue_id AND state = 1) AS g,
            (SELECT count(*) FROM held h WHERE h.queue_id = c.queue_id) AS h,
            (SELECT count(*) FROM ready r WHERE r.queue_id = c.queue_id) AS r,
            (SELECT count(*) FROM leased l WHERE l.queue_id = c.queue_id) AS l FROM queue_count c)
        WHERE dead <> d OR redriving <> g OR held <> h OR ready <> r OR leased <> l""",
    "groups count what they have": """
        SELECT * FROM (SELECT group_id, dead, redriving,
            (SELECT count(*) FROM dead d WHERE d.group_id = c.group_id AND state = 0) AS d,
            (SELECT count(*) FROM dead d WHERE d.group_id = c.group_id AND state = 1) AS g FROM fgroup_count c)
        WHERE dead <> d OR redriving <> g""",
    "bodies that nobody has": """
        SELECT seq FROM payload EXCEPT SELECT seq FROM dead EXCEPT SELECT seq FROM ready EXCEPT SELECT seq FROM leased
        EXCEPT SELECT seq FROM held""",
    "dead letters without a body": "SELECT seq FROM dead EXCEPT SELECT seq FROM payload",
    "redriving ones are somewhere": """
        SELECT seq FROM dead WHERE state = 1 EXCEPT SELECT seq FROM ready EXCEPT SELECT seq FROM leased EXCEPT SELECT seq FROM held""",
    "histories that nobody has": "SELECT DISTINCT seq FROM attempt EXCEPT SELECT seq FROM payload",
    "edits that nobody has": "SELECT DISTINCT seq FROM edit EXCEPT SELECT seq FROM dead",
    "staged edits": "SELECT * FROM redrive_edit",
    "places in a lane that nobody has": "SELECT seq FROM lane EXCEPT SELECT seq FROM payload",
    "lines of the index of headers": """
        SELECT seq, died_no FROM dead_header EXCEPT SELECT seq, died_no FROM dead""",
    "dead letters out of the index": """
        SELECT seq, died_no FROM dead d WHERE EXISTS(SELECT 1 FROM payload p WHERE p.seq = d.seq AND p.headers IS NOT NULL)
        EXCEPT SELECT seq, died_no FROM dead_header""",
    "one number for two": "SELECT died_no FROM dead GROUP BY died_no HAVING count(*) > 1",
    "jobs that do not add up": "SELECT n FROM redrive WHERE state IN (2, 3) AND total <> sent + skipped + cancelled",
}


def settings(queue):
    policy = dict(POLICY, retention="4s" if queue == "short" else "30d")
    return {"policy": policy, "ordered": queue == "ordered"}


class Client:
    """Does random things until stopped; what is refused or breaks is part of it, what the server calls its own fault is not."""

    def __init__(self, test, seed):
        self.test, self.rng = test, random.Random(seed)
        self.http = Connection(test.server, 30)

    def call(self, method, path, body=None):
        try:
            status, doc = self.http.request(method, path, body)
        except Broken:
            time.sleep(0.02)
            return None, None
        if status == 500:
            self.test.problems.append("%s %s %r: %r" % (method, path, body, doc))
        self.test.seen[(method, path.split("?")[0].split("/")[2 if path.count("/") < 4 else -1], status)] += 1
        return status, doc

    def get(self, path):
        status, doc = self.call("GET", path)
        return doc if status == 200 else {"items": [], "next": None}

    def one(self, path):
        items = self.get(path)["items"]
        return self.rng.choice(items) if items else None

    def selection(self, state="dead"):
        r, q = self.rng, self.rng.choice(QUEUES)
        kind = r.randrange(6)
        if kind == 0:
            return {"queue": q}
        if kind == 1:
            group = self.one("/v1/groups?limit=20")
            return {"group": group["group"]} if group else {"queue": q}
        if kind == 2:
            items = self.get("/v1/dead-letters?queue=%s&state=%s&limit=50" % (q, state))["items"]
            ids = [d["dlq_id"] for d in items if r.random() < 0.7]
            return {"ids": ids} if ids else {"queue": q}
        f = {"queue": q} if r.random() < 0.8 else {}
        if kind == 3:
            f["error_type"] = r.choice(ERRORS)
        if kind == 4:
            f["where"] = r.choice(WHERES)
        if kind == 5:
            f["text"] = "7"
        return {"filter": f}

    def job(self):
        r = self.rng
        action = r.choice(["redrive"] * 4 + ["discard", "archive", "restore", "restore"])
        doc = dict(self.selection("discarded" if action == "restore" else "dead"), action=action, reason="stress")
        if action == "redrive":
            if r.random() < 0.4:
                doc["edit"] = {"jq": r.choice(PROGRAMS)}
                if r.random() < 0.3:
                    doc["edit"]["set_headers"] = {"round": str(r.randrange(9))}
            if r.random() < 0.3:
                doc.update(first=5, canary_wait="1s", stop_at=r.choice(["90%", 20]), rate="200/s")
            if r.random() < 0.3:
                doc["to"] = r.choice(QUEUES + ["brief"])
            doc["override"] = r.random() < 0.5
        self.call("POST", "/v1/redrives", doc)

    def undo(self):
        jobs = [j for j in self.get("/v1/redrives?limit=50")["items"] if j["action"] in ("discard", "archive")]
        if jobs:
            self.call("POST", "/v1/redrives", {"action": "restore", "undo": self.rng.choice(jobs)["redrive_id"], "reason": "undo"})

    def control(self):
        jobs = [j for j in self.get("/v1/redrives?limit=20")["items"] if not j.get("ended_at")]
        if jobs:
            what = self.rng.choice(["pause", "resume", "resume", "cancel"])
            self.call("POST", "/v1/redrives/%s/%s" % (self.rng.choice(jobs)["redrive_id"], what), {})

    def single(self):
        what = self.rng.choice(["redrive", "discard", "archive", "restore"])
        d = self.one("/v1/dead-letters?queue=%s&state=any&limit=100" % self.rng.choice(QUEUES))
        doc = {"reason": "by hand"}
        if d and what == "redrive" and self.rng.random() < 0.5:
            doc.update(self.rng.choice([{"body": "{\"n\": 1}"}, {"edit": {"jq": ".z = 1"}}, {"edit": {"set_headers": {"part": "p9"}}}]))
        if d:
            self.call("POST", "/v1/dead-letters/%s/%s" % (d["dlq_id"], what), doc)

    def transfer(self):
        try:
            status, data, _ = self.test.server.api("GET", "/v1/dead-letters/export?queue=%s&limit=200" % self.rng.choice(QUEUES), timeout=30)
            if status == 200 and data:
                into = self.rng.choice(["", "?queue=b"])
                status, doc, _ = self.test.server.api("POST", "/v1/dead-letters/import" + into, data, timeout=30)
                if status == 500:
                    self.test.problems.append("import: %r" % doc)
        except (OSError, ValueError, HTTPException):
            pass

    def back(self):
        entry = self.one("/v1/archive?limit=100")
        if entry:
            status, doc = self.call("GET", "/v1/archive/" + entry["dlq_id"])
            if status == 200:
                self.call("POST", "/v1/dead-letters/import", json.dumps(doc))

    def group(self):
        groups = self.get("/v1/groups?limit=50")["items"]
        of = self.rng.choice(QUEUES)
        same = [g for g in groups if g["queue"] == of]
        if len(same) > 1:
            x, y = self.rng.sample(same, 2)
            self.call("POST", "/v1/groups/%s/merge" % x["group"], {"into": y["group"]})
        for g in groups[:1]:
            for m in self.get("/v1/groups/" + g["group"]).get("merged_groups", [])[:1]:
                self.call("POST", "/v1/groups/%s/split" % m["group"], {})

    def queue(self):
        q = self.rng.choice(QUEUES + ["brief"])
        doc = settings(q)
        doc["policy"]["max_redrives"] = self.rng.choice([1, 5, 1000])
        self.call("PUT", "/v1/queues/" + q, doc)
        self.call("DELETE", "/v1/queues/brief")

    def look(self):
        self.get("/v1/dead-letters?queue=a&where=.body.n%20%3E%203&limit=20")
        self.call("POST", "/v1/redrives/preview", dict(self.selection(), edit={"jq": self.rng.choice(PROGRAMS)}))

    def run(self):
        what = [self.job] * 6 + [self.undo, self.control, self.control, self.single, self.single, self.transfer, self.back,
                                 self.group, self.queue, self.look]
        while not self.test.crew.stopping.is_set():
            self.rng.choice(what)()
        self.http.close()


class JobsKill(unittest.TestCase):
    def setUp(self):
        print("DLQ_SEED=%d DLQ_SECONDS=%g" % (SEED, SECONDS))
        self.rng = random.Random(SEED)
        self.server = Server()
        self.addCleanup(self.server.close)
        for q in QUEUES + ["brief"]:
            self.server.put_queue(q, **settings(q))
        self.problems, self.seen, self.crew, self.numbers = [], collections.Counter(), Crew(), 0

    def send(self, queue, n):
        lines = []
        for _ in range(n):
            self.numbers += 1
            lines.append(json.dumps({"id": "m%d" % self.numbers, "key": "k%d" % (self.numbers % 20), "headers": {"part": "p%d" % (self.numbers % 3)},
                                     "body": '{"n": %d, "tries": 0}' % self.numbers}))
        self.server.ok("POST", "/v1/queues/%s/batch" % queue, "\n".join(lines))

    def worker(self, seed):
        """Most fail, and so die at once."""
        http, rng = Connection(self.server, 30), random.Random(seed)
        while not self.crew.stopping.is_set():
            queue = rng.choice(QUEUES + ["brief"])
            try:
                status, doc = http.request("POST", "/v1/queues/%s/receive" % queue, {"max": 50, "wait": "0s"})
                if status != 200 or not doc["deliveries"]:
                    time.sleep(0.01)
                    continue
                results = [{"receipt": d["receipt"], "outcome": "ok"} if rng.random() < 0.1 else
                           {"receipt": d["receipt"], "outcome": "permanent", "error": {"type": rng.choice(ERRORS), "message": "planned"}}
                           for d in doc["deliveries"]]
                http.request("POST", "/v1/queues/%s/settle" % queue, {"results": results})
            except Broken:
                time.sleep(0.02)
        http.close()

    def test_kill(self):
        for q in QUEUES:
            self.send(q, 300)
        for i in range(2):
            self.crew.start(self.worker, SEED + i)
        for i in range(4):
            self.crew.start(Client(self, SEED + 100 + i).run)
        until, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < until and not self.crew.stopping.is_set():
            threading.Event().wait(self.rng.uniform(0.1, 1.2))
            self.server.kill()
            kills += 1
            self.server.restart()
            self.send(self.rng.choice(QUEUES), 30)
        self.crew.stop()
        self.assertEqual(self.crew.errors, [])
        self.assertEqual(self.problems, [])
        print("%d kills; %r" % (kills, sorted(self.seen.items(), key=str)))
        self.settle_down()
        self.check()

    def jobs(self):
        items, cursor = [], ""
        while True:
            page = self.server.ok("GET", "/v1/redrives?limit=1000" + cursor)
            items += page["items"]
            if not page["next"]:
                return items
            cursor = "&cursor=" + page["next"]

    def settle_down(self):
        """What waits is worked off as done; jobs that stand still are cancelled; the others end."""
        def quiet():
            for q in QUEUES + ["brief"]:
                status, doc, _ = self.server.api("POST", "/v1/queues/%s/receive" % q, {"max": 1000, "wait": "0s"})
                if status == 200 and doc["deliveries"]:
                    self.server.ok("POST", "/v1/queues/%s/settle" % q,
                                   {"results": [{"receipt": d["receipt"], "outcome": "ok"} for d in doc["deliveries"]]})
            for j in self.jobs():
                if j["state"] in ("paused", "halted"):
                    self.server.ok("POST", "/v1/redrives/%s/cancel" % j["redrive_id"], {})
            left = [(j["redrive_id"], j["state"], j.get("phase")) for j in self.jobs() if j["state"] not in ("done", "cancelled")]
            left += [(q, c) for q, c in ((q, self.server.counts(q)) for q in QUEUES) if c["ready"] or c["leased"]]
            last[:] = left
            return not left
        last = []
        try:
            wait_until(quiet, 30, "the end of all jobs")
        except AssertionError:
            raise AssertionError("these do not end: %r" % last[:5])
        self.server.put_queue("short", **dict(settings("short"), policy=dict(POLICY, retention="30d")))
        wait_until(lambda: self.server.counts("short")["dead"] == len(self.server.dead("short")), 20)

    def ledger(self, job):
        states, cursor = {}, ""
        while True:
            page = self.server.ok("GET", "/v1/redrives/%s/items?limit=1000%s" % (job["redrive_id"], cursor))
            for item in page["items"]:
                self.assertNotIn(item["dlq_id"], states, "a member has one line")
                states[item["dlq_id"]] = item["state"]
            if not page["next"]:
                return states
            cursor = "&cursor=" + page["next"]

    def check(self):
        for j in self.jobs():
            self.assertEqual(j["total"], j["sent"] + j["skipped"] + j["cancelled"], j)
            states = collections.Counter(self.ledger(j).values())
            self.assertEqual(states["succeeded"] if j["action"] == "redrive" else j["succeeded"], j["succeeded"], (j, states))
            self.assertLessEqual(sum(states.values()), j["total"], (j, states))
            if "selection" in j:
                self.assertEqual(sum(states.values()), j["total"], (j, states))
        everything = {}
        for q in QUEUES:
            counts = self.server.counts(q)
            for d in self.server.dead(q, state="any"):
                self.assertNotIn(d["dlq_id"], everything)
                everything[d["dlq_id"]] = d
            mine = collections.Counter(d["state"] for d in everything.values() if d["queue"] == q)
            self.assertEqual((counts["dead"], counts["redriving"], counts["ready"]), (mine["dead"], mine["redriving"], 0), (q, counts, mine))
        verify = self.server.ok("GET", "/v1/audit/verify")
        self.assertTrue(verify["ok"], verify)
        self.assertEqual(self.server.terminate(), 0)
        db = sqlite3.connect(os.path.join(self.server.data, "dlq.db"))
        self.addCleanup(db.close)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        for what, sql in RECOUNTS.items():
            self.assertEqual(db.execute(sql).fetchall(), [], what)


if __name__ == "__main__":
    unittest.main(verbosity=2)
