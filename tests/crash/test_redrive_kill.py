"""kill -9 of the server, again and again, while redrives of 10,000 dead letters run: whole queue, group, filter, and edited by jq.

The ledger accounts for every member, none is lost, and none is put back twice: `redrives` of a message rises by one for each redrive
it is a member of, and a success that was answered is never delivered again. DLQ_KILLS (100), DLQ_MEMBERS (10000), DLQ_SEED.
"""
import collections
import json
import os
import random
import threading
import unittest

from dlqtest import Server, wait_until
from traffic import Crew, body_of, work

KILLS = int(os.environ.get("DLQ_KILLS", "100"))
MEMBERS = int(os.environ.get("DLQ_MEMBERS", "10000"))
SEED = int(os.environ.get("DLQ_SEED", "0")) or random.randrange(1 << 31)
POLICY = {"max_attempts": 100, "backoff": ["20ms"], "visibility_timeout": "1s", "crash_limit": 1000, "max_redrives": 1000}
ROUNDS = 8


class Workers:
    """Fails every message but those of which it is the turn, and remembers what was answered."""

    def __init__(self):
        self.lock = threading.Lock()
        self.turn = None                         # messages with number % ROUNDS == turn succeed
        self.done = collections.Counter()        # id -> successes that were answered
        self.maybe = set()                       # ids whose success got no answer
        self.bodies = {}                         # id -> body as last delivered
        self.problems = []

    def handle(self, delivery):
        with self.lock:
            self.bodies[delivery["id"]] = body_of(delivery)
            if self.done[delivery["id"]]:
                self.problems.append("%s was delivered again after `done`" % delivery["id"])
        if int(delivery["id"].rsplit("-", 1)[1]) % ROUNDS == self.turn:
            return {"outcome": "ok"}
        return {"outcome": "permanent", "error": {"type": "Planned", "message": "not its turn"}}

    def seen(self, delivery, result, answer):
        if result["outcome"] != "ok":
            return
        with self.lock:
            if answer is None:
                self.maybe.add(delivery["id"])
            elif answer["result"] == "done":
                self.done[delivery["id"]] += 1


class RedriveKill(unittest.TestCase):
    def setUp(self):
        print("DLQ_SEED=%d DLQ_KILLS=%d DLQ_MEMBERS=%d" % (SEED, KILLS, MEMBERS))
        self.rng = random.Random(SEED)
        self.server = Server()
        self.addCleanup(self.server.close)
        self.server.put_queue("q", policy=POLICY)
        self.workers, self.sent = Workers(), 0

    def drained(self):
        c = self.server.counts("q")
        return c["ready"] == c["leased"] == 0

    def fill(self):
        """New messages, until MEMBERS are dead."""
        n = MEMBERS - self.server.counts("q")["dead"]
        numbers = range(self.sent, self.sent + n)
        for at in range(0, n, 500):
            lines = "\n".join(json.dumps({"id": "m-%d" % i, "headers": {"part": "p%d" % (i % 2)},
                                          "body": '{"n": %d, "exact": 12345678901234567890, "price": 1.10, "tries": 0}' % i})
                              for i in numbers[at:at + 500])
            self.server.ok("POST", "/v1/queues/q/batch", lines)
        self.sent += n
        wait_until(lambda: self.server.counts("q")["dead"] == MEMBERS, 60, "%d dead letters" % MEMBERS)

    def selection(self, round_):
        group = self.server.ok("GET", "/v1/groups?queue=q&dead=true")["items"][0]["group"]
        return [
            {"queue": "q"},
            {"group": group},
            {"filter": {"queue": "q", "error_type": "Planned"}},
            {"filter": {"queue": "q", "where": ".body.n >= 0 and (.headers.part | startswith(\"p\"))"}},
            {"queue": "q", "edit": {"jq": ".tries += 1"}},
            {"filter": {"queue": "q", "text": "exact"}, "edit": {"jq": ".tries += 1", "set_headers": {"round": str(round_)}}},
        ][round_ % 6]

    def ledger(self, redrive_id):
        states, cursor = {}, ""
        while True:
            page = self.server.ok("GET", "/v1/redrives/%s/items?limit=1000%s" % (redrive_id, cursor and "&cursor=" + cursor))
            for item in page["items"]:
                self.assertNotIn(item["dlq_id"], states, "a member has one line")
                states[item["dlq_id"]] = item["state"]
            cursor = page["next"]
            if not cursor:
                return states

    def test_kill(self):
        crew, kills, round_ = Crew(), 0, 0
        for i in range(3):
            crew.start(work, self.server, crew, "q", "w%d" % i, self.workers.handle, self.workers.seen, 100)
        redrives = collections.Counter()  # dlq_id -> times it was sent, by the ledgers
        while kills < KILLS or round_ < ROUNDS:
            self.workers.turn = None
            self.fill()
            self.workers.turn = round_ % ROUNDS
            selection = self.selection(round_)
            redrive = self.server.ok("POST", "/v1/redrives", dict(selection, reason="round %d" % round_,
                                                                  **({"rate": "20000/s", "first": 50, "stop_at": 20000}
                                                                     if round_ % 2 else {})))
            path, more = "/v1/redrives/" + redrive["redrive_id"], max(1, KILLS // ROUNDS + 1)
            for _ in range(more):
                threading.Event().wait(self.rng.uniform(0.0, 0.15))  # a random moment
                self.server.kill()
                kills += 1
                self.server.restart()
            wait_until(lambda: self.server.ok("GET", path)["state"] == "done", 120, "the end of the redrive")
            wait_until(self.drained, 120, "an empty queue")
            end, states = self.server.ok("GET", path), self.ledger(redrive["redrive_id"])
            count = collections.Counter(states.values())
            print("round %d, %s: %r" % (round_, json.dumps(selection), dict(count)))
            self.assertEqual(end["total"], MEMBERS)
            self.assertEqual(len(states), MEMBERS, "the ledger accounts for each")
            self.assertEqual((end["sent"], end["skipped"], end["cancelled"]), (MEMBERS, 0, 0))
            self.assertEqual(count["succeeded"] + count["failed_again"] + count["unknown"], MEMBERS, count)
            self.assertEqual((end["succeeded"], end["failed_again"]), (count["succeeded"], count["failed_again"]))
            redrives.update(states.keys())
            if "edit" in selection:
                self.assertEqual(end["edited"], {"changed": MEMBERS, "unchanged": 0, "failed": 0})
            round_ += 1
        crew.stop()
        self.check_end(redrives)
        print("%d kills" % kills)

    def check_end(self, redrives):
        """Every message is dead or done, and was put back exactly as often as the ledgers say."""
        counts, totals = self.server.counts("q"), self.server.totals("q")
        dead, redriven = self.server.dead("q"), self.server.dead("q", state="redriven")
        self.assertEqual(self.workers.problems, [])
        self.assertEqual({i: n for i, n in self.workers.done.items() if n > 1}, {}, "done once")
        self.assertEqual(len(dead), counts["dead"])
        self.assertEqual(totals["sent"], self.sent)
        self.assertEqual(len(dead) + len(redriven), self.sent, "none is lost")
        for d in dead + redriven:
            self.assertEqual(d["redrives"], redrives[d["dlq_id"]], d)
        finished = {d["id"] for d in redriven}
        self.assertEqual(set(self.workers.done) - finished, set(), "what was answered `done` is done")
        self.assertEqual(finished - set(i for i, n in self.workers.done.items() if n) - self.workers.maybe, set())
        for d in self.rng.sample(dead, 50):
            body = self.workers.bodies[d["id"]].decode()
            self.assertIn('"exact": 12345678901234567890, "price": 1.10', body, "what no edit touched stays")
            original = self.server.ok("GET", "/v1/dead-letters/%s/body?original=true" % d["dlq_id"])
            original = original if isinstance(original, bytes) else json.dumps(original).encode()
            self.assertIn(b'"tries": 0', original)


if __name__ == "__main__":
    unittest.main(verbosity=2)
