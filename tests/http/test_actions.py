"""Discard, archive and restore as jobs over a selection; the limit of replay; what goes with what."""
import unittest

from dlqtest import wait_until
from lib_dead import NO_ID, DeadCase


def setUpModule():
    DeadCase.start()


def tearDownModule():
    DeadCase.server.stop()


class Actions(DeadCase):
    def setUp(self):
        super().setUp()
        self.ids = self.kill(*({"id": "m%d" % i, "body": {"n": i}, "headers": {"part": str(i % 3)}} for i in range(12)))

    def states(self):
        return {d["id"]: d["state"] for d in self.pages("/v1/dead-letters", queue=self.q, state="any", limit=1000)}

    def count(self, state):
        return list(self.states().values()).count(state)

    def test_discard_and_undo(self):
        r = self.run_job(filter={"queue": self.q, "headers": {"part": "1"}}, action="discard", reason="test data")
        self.assertEqual((r["action"], r["total"], r["sent"], r["succeeded"], r["failed_again"]), ("discard", 4, 4, 4, 0))
        self.assertEqual((self.count("discarded"), self.count("dead")), (4, 8))
        self.assertEqual({i["state"] for i in self.ledger(r).values()}, {"succeeded"})
        d = self.show(self.ids["m1"])
        self.assertEqual((d["state"], d["why"], d["redrive_id"]), ("discarded", "test data", r["redrive_id"]))
        self.server.ok("POST", "/v1/dead-letters/%s/restore" % self.ids["m1"], {"reason": "this one not"})
        p = self.preview(undo=r["redrive_id"], action="restore")
        self.assertEqual(p["selected"], 3)
        back = self.run_job(undo=r["redrive_id"], action="restore", reason="oops")
        self.assertEqual((back["action"], back["succeeded"]), ("restore", 3))
        self.assertEqual(self.count("dead"), 12)

    def test_archive_and_undo(self):
        r = self.run_job(ids=[self.ids["m0"], self.ids["m5"]], action="archive")
        self.assertEqual((r["action"], r["succeeded"]), ("archive", 2))
        self.assertEqual(sorted(self.found(queue=self.q, state="archived")), ["m0", "m5"])
        self.assertEqual(self.server.counts(self.q)["dead"], 10)
        self.assertEqual(self.show(self.ids["m0"])["state"], "archived")
        self.run_job(undo=r["redrive_id"], action="restore")
        self.assertEqual(self.count("dead"), 12)

    def test_restore_by_choice(self):
        self.run_job(queue=self.q, action="discard")
        self.assertEqual(self.count("discarded"), 12)
        r = self.run_job(filter={"queue": self.q, "where": ".body.n < 3"}, action="restore")
        self.assertEqual(r["succeeded"], 3)
        self.assertEqual(sorted(self.found(queue=self.q)), ["m0", "m1", "m2"])
        self.assertEqual(self.run_job(queue=self.q, action="restore")["succeeded"], 9)

    def test_whole_queue_dry_run(self):
        for action in ("discard", "archive", "redrive"):
            doc = self.server.ok("POST", "/v1/redrives", {"queue": self.q, "action": action, "dry_run": True})
            self.assertEqual((doc["total"], doc["action"]), (12, action))
        self.assertEqual(self.count("dead"), 12)

    def test_one_archived_and_restored(self):
        path = "/v1/dead-letters/" + self.ids["m0"]
        self.assertEqual(self.server.ok("POST", path + "/archive", {"reason": "hopeless"}), {"dlq_id": self.ids["m0"], "state": "archived"})
        d = self.show(self.ids["m0"])
        self.assertEqual((d["state"], d["why"]), ("archived", "hopeless"))
        self.problem(409, "conflict", "POST", path + "/archive", {"reason": "x"})
        self.problem(409, "conflict", "POST", path + "/discard", {"reason": "x"})
        self.problem(409, "conflict", "POST", path + "/redrive", {"reason": "x"})
        self.assertTrue(self.audit(target=self.ids["m0"], reason="hopeless", outcome="ok"))
        self.server.ok("POST", path + "/restore", {"reason": "hope"})
        self.assertEqual(self.count("dead"), 12)
        self.problem(400, "bad_request", "POST", path + "/archive", {}, text="reason")
        self.problem(400, "bad_request", "POST", path + "/archive", {"reason": "x", "override": True}, text="unknown key")
        self.problem(404, "not_found", "POST", "/v1/dead-letters/%s/archive" % NO_ID, {"reason": "x"})
        self.problem(403, "forbidden", "POST", path + "/archive", {"reason": "x"}, token=self.token(queues=["elsewhere"]))
        self.problem(403, "forbidden", "POST", path + "/archive", {"reason": "x"}, token=self.token("viewer"))

    def test_archived_ones_go_back_only_with_override(self):
        self.run_job(ids=[self.ids["m0"], self.ids["m1"]], action="archive")
        self.problem(409, "conflict", "POST", "/v1/redrives", {"ids": [self.ids["m0"]], "reason": "x"})
        self.assertEqual(self.run_job(filter={"queue": self.q, "id": "m0"})["sent"], 0)
        for override in (False, True):
            p = self.server.ok("POST", "/v1/redrives/preview", {"filter": {"queue": self.q, "id": "m0"}, "override": override})
            self.assertEqual(p["selected"], int(override))
        self.problem(400, "bad_request", "POST", "/v1/redrives/preview", {"queue": self.q, "action": "discard", "override": True},
                     text="goes with the action redrive")
        self.assertEqual(self.run_job(filter={"queue": self.q, "id": "m0"}, override=True)["sent"], 1)
        self.server.ok("POST", "/v1/dead-letters/%s/redrive" % self.ids["m1"], {"reason": "x", "override": True})
        self.assertEqual({d["id"] for d in self.take(2)}, {"m0", "m1"})

    def test_used_up_redrives_end_in_the_archive(self):
        self.server.put_queue(self.q, policy={"max_attempts": 1, "max_redrives": 1})
        self.job(ids=[self.ids["m0"]])
        (r,) = self.fail_again(1)
        self.assertEqual(r["dlq_id"], self.ids["m0"])
        self.assertEqual(self.found(queue=self.q, state="archived"), ["m0"])
        self.problem(409, "conflict", "POST", "/v1/dead-letters/%s/redrive" % self.ids["m0"], {"reason": "x"})
        self.server.ok("POST", "/v1/dead-letters/%s/redrive" % self.ids["m0"], {"reason": "once more", "override": True})
        self.take(1)

    def test_one_active_job_at_a_time(self):
        r = self.job(filter={"queue": self.q, "headers": {"part": "0"}}, first=1)
        self.take(1)
        wait_until(lambda: self.server.ok("GET", "/v1/redrives/" + r["redrive_id"]).get("phase") == "waiting", what="the canary's wait")
        left = [i for i in ("m0", "m3", "m6", "m9") if self.show(self.ids[i])["state"] == "dead"][0]
        for verb in ("discard", "archive", "redrive"):
            doc = self.problem(409, "in_redrive", "POST", "/v1/dead-letters/%s/%s" % (self.ids[left], verb), {"reason": "x"})
            self.assertEqual(doc["redrive_id"], r["redrive_id"])
        other = self.run_job(filter={"queue": self.q, "where": ".body.n == 1 or .body.n == " + left[1:]}, action="discard")
        self.assertEqual((other["succeeded"], other["skipped"]), (1, 1))
        self.assertIn(r["redrive_id"], self.ledger(other)[self.ids[left]]["note"])
        self.server.ok("POST", "/v1/redrives/%s/cancel" % r["redrive_id"])

    def test_what_does_not_go_together(self):
        for body, text in (
                ({"queue": self.q, "action": "discard", "edit": {"jq": "."}}, "edit"), ({"queue": self.q, "action": "archive", "to": "x"}, "to"),
                ({"queue": self.q, "action": "discard", "override": True}, "override"), ({"queue": self.q, "action": "restore", "first": 3}, "first"),
                ({"queue": self.q, "action": "discard", "rate": "5/s"}, "rate"), ({"queue": self.q, "action": "discard", "stop_at": 3}, "stop_at"),
                ({"undo": NO_ID}, "restore"), ({"undo": NO_ID, "action": "discard"}, "restore"), ({"undo": NO_ID, "queue": self.q, "action": "restore"}, "one of"),
                ({"undo": "a b", "action": "restore"}, "undo"), ({"undo": NO_ID, "action": "restore", "dry_run": True}, "preview"),
                ({"queue": self.q, "action": ""}, "action")):
            self.problem(400, "bad_request", "POST", "/v1/redrives", dict({"reason": "x"}, **body), text=text)
        self.problem(404, "not_found", "POST", "/v1/redrives", {"reason": "x", "undo": NO_ID, "action": "restore"})
        self.problem(404, "not_found", "POST", "/v1/redrives/preview", {"undo": NO_ID, "action": "restore"})
        self.problem(400, "bad_request", "POST", "/v1/redrives", {"queue": self.q, "action": "discard"}, text="reason")
        self.assertEqual(self.count("dead"), 12)

    def test_rights_of_an_undo(self):
        elsewhere = self.kill({"id": "e"}, queue=self.queue())
        by_ids = self.run_job(ids=[self.ids["m0"], elsewhere["e"]], action="discard")
        by_queue = self.run_job(filter={"queue": self.q, "id": "m1"}, action="discard")
        mine, theirs = self.token(queues=[self.q]), self.token(queues=["elsewhere"])
        undo = {"undo": by_queue["redrive_id"], "action": "restore"}
        self.problem(403, "forbidden", "POST", "/v1/redrives", dict(undo, reason="x"), token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/redrives/preview", undo, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"undo": by_ids["redrive_id"], "action": "restore", "reason": "x"}, token=mine)
        self.done(self.job(token=mine, **undo))
        self.assertEqual(self.show(self.ids["m1"])["state"], "dead")

    def test_audit(self):
        r = self.run_job(filter={"queue": self.q, "headers": {"part": "2"}}, action="discard", reason="audited")
        rows = self.audit(reason="audited")
        self.assertTrue(rows)
        self.assertIn(r["redrive_id"], [row.get("target") for row in rows])
        self.assertIn("part", " ".join(row.get("detail", "") for row in rows), "the row says what was chosen")


if __name__ == "__main__":
    unittest.main()
