"""Groups, guarded redrives, the ledger, restore and the check of the audit chain over HTTP."""
import re
import unittest

from dlqtest import Server, wait_until

server = None
NO_GROUP = "0123456789abcdef0123456789abcdef"


def setUpModule():
    global server
    server = Server()


def tearDownModule():
    server.stop()


class Case(unittest.TestCase):
    queues = 0

    def setUp(self):
        Case.queues += 1
        self.q = "g%d" % Case.queues
        server.put_queue(self.q, policy={"max_attempts": 1})

    def problem(self, status, code, method, path, body=None, token=None):
        got, doc, _ = server.api(method, path, body, token=token)
        self.assertEqual((got, doc.get("code") if isinstance(doc, dict) else doc), (status, code), doc)
        return doc

    def fail_all(self, n, error=None, queue=None, **settle):
        """n messages, each failed once (and so dead) with the same error. -> the results."""
        q = queue or self.q
        for i in range(n):
            server.send(q, "body %d" % i)
        return self.work(lambda d: dict(settle, outcome="permanent",
                                        error=error or {"type": "SmtpError", "message": "mailbox not found: user%s@example.org" % d["id"]}), q)

    def work(self, result, queue=None):
        """Settles all that is ready now, not what comes because of it, with result(delivery)."""
        q = queue or self.q
        got = server.receive(q, max=1000, worker="w1", worker_version="2.4.0")
        return server.ok("POST", "/v1/queues/%s/settle" % q, {"results": [dict(result(d), receipt=d["receipt"]) for d in got]})["results"]

    def groups(self, **params):
        query = "&".join("%s=%s" % kv for kv in dict(params, queue=self.q).items())
        return server.ok("GET", "/v1/groups?" + query)["items"]

    def one_group(self):
        (g,) = self.groups()
        return g["group"]

    def token(self, role, **more):
        Case.queues += 1
        return server.ok("POST", "/v1/tokens", dict(more, name="gt%d" % Case.queues, role=role))["token"]


class Groups(Case):
    def test_one_cause_is_one_group(self):
        self.fail_all(12)
        self.fail_all(2, error={"type": "Other", "message": "something else entirely"})
        items = self.groups()
        self.assertEqual([g["dead"] for g in items], [2, 12], "newest failure first")
        g = items[1]
        self.assertRegex(g["group"], r"^[0-9a-f]{32}$")
        self.assertEqual((g["queue"], g["error_type"], g["status"], g["deaths"], g["failures"], g["recovered"]),
                         (self.q, "SmtpError", "new", 12, 12, 0))
        self.assertIn("<email>", g["message"])
        self.assertIn("mailbox not found: user", g["sample"])
        self.assertNotIn("owner", g)
        self.assertEqual(set(g["diagnosis"]), {"kind", "confidence", "evidence", "advice"})
        self.assertTrue(g["diagnosis"]["evidence"])

    def test_show(self):
        self.fail_all(7)
        g = server.ok("GET", "/v1/groups/" + self.one_group())
        self.assertEqual((g["dead"], len(g["samples"])), (7, 5))
        self.assertEqual({s["group"] for s in g["samples"]}, {g["group"]})
        self.assertTrue(any("mail" in rule for rule in g["rules"]), g["rules"])
        self.assertEqual([(w["worker"], w["version"], w["failures"]) for w in g["workers"]], [("w1", "2.4.0", 7)])
        self.assertEqual(sum(b["failures"] for b in g["minutes"]), 7)
        self.assertEqual(sum(b["deaths"] for b in g["hours"]), 7)
        self.assertEqual(g["merged_groups"], [])
        self.assertIn("7 of 7 messages failed on every attempt", g["diagnosis"]["evidence"])

    def test_dead_letters_of_a_group(self):
        self.fail_all(3)
        self.fail_all(2, error={"type": "Other", "message": "no"})
        group = self.groups()[1]["group"]
        items = server.ok("GET", "/v1/dead-letters?group=" + group)["items"]
        self.assertEqual((len(items), {d["group"] for d in items}), (3, {group}))
        page = server.ok("GET", "/v1/dead-letters?limit=2&queue=%s&group=%s" % (self.q, group))
        rest = server.ok("GET", "/v1/dead-letters?limit=2&queue=%s&group=%s&cursor=%s" % (self.q, group, page["next"]))
        self.assertEqual(sorted(d["dlq_id"] for d in page["items"] + rest["items"]), sorted(d["dlq_id"] for d in items))
        history = server.ok("GET", "/v1/dead-letters/" + items[0]["dlq_id"])["history"]
        self.assertEqual(history[0]["worker_version"], "2.4.0")
        self.problem(400, "bad_request", "GET", "/v1/dead-letters?queue=elsewhere&group=" + group)
        self.problem(404, "not_found", "GET", "/v1/dead-letters?group=" + NO_GROUP)
        self.problem(404, "not_found", "GET", "/v1/dead-letters?group=nonsense")

    def test_fingerprint_of_the_worker(self):
        for message in ("one", "quite another text"):
            self.fail_all(1, error={"type": "T", "message": message, "fingerprint": "billing-down"})
        (g,) = self.groups()
        self.assertEqual(g["dead"], 2)
        self.problem(400, "bad_request", "POST", "/v1/queues/%s/settle" % self.q,
                     {"results": [{"receipt": "x", "outcome": "permanent", "error": {"fingerprints": "x"}}]})

    def test_filters_and_pages(self):
        for i in range(5):
            self.fail_all(1, error={"type": "Type" + "ABCDE"[i], "message": "m"})
        self.assertEqual([g["error_type"] for g in self.groups()], ["TypeE", "TypeD", "TypeC", "TypeB", "TypeA"])
        page = server.ok("GET", "/v1/groups?queue=%s&limit=3" % self.q)
        rest = server.ok("GET", "/v1/groups?queue=%s&limit=3&cursor=%s" % (self.q, page["next"]))
        self.assertEqual([g["error_type"] for g in page["items"] + rest["items"]], ["TypeE", "TypeD", "TypeC", "TypeB", "TypeA"])
        server.ok("POST", "/v1/groups/%s/acknowledge" % page["items"][0]["group"])
        self.assertEqual(len(self.groups(status="acknowledged")), 1)
        self.assertEqual(len(self.groups(status="new,acknowledged")), 5)
        (d,) = server.dead(self.q, error_type="TypeA")
        server.ok("POST", "/v1/dead-letters/%s/discard" % d["dlq_id"], {"reason": "x"})
        self.assertEqual(len(self.groups(dead="true")), 4)
        for bad in ("status=loud", "dead=maybe", "limit=0", "cursor=zzz", "state=dead"):
            self.problem(400, "bad_request", "GET", "/v1/groups?" + bad)

    def test_status(self):
        self.fail_all(1)
        group = self.one_group()
        path = "/v1/groups/" + group
        for verb, status in (("acknowledge", "acknowledged"), ("resolve", "resolved"), ("reopen", "new"), ("mute", "muted")):
            g = server.ok("POST", "%s/%s" % (path, verb), {"reason": "because"})
            self.assertEqual((g["group"], g["status"]), (group, status))
        server.ok("POST", path + "/resolve")
        self.fail_all(1)
        self.assertEqual(server.ok("GET", path)["status"], "regressed")
        g = server.ok("POST", path + "/mute", {"for": "2h", "deaths": 2})
        self.assertTrue(g["muted_until"])
        self.fail_all(2)
        self.assertEqual(server.ok("GET", path)["status"], "new", "the number of deaths is reached")
        rows = [r for r in server.ok("GET", "/v1/audit?limit=1000")["items"] if r.get("target") == group]
        self.assertEqual([r["action"] for r in reversed(rows)][:4], ["group.acknowledge", "group.resolve", "group.reopen", "group.mute"])
        self.assertEqual({r["reason"] for r in rows[-4:]}, {"because"})
        for body in ({"for": "soon"}, {"deaths": 0}, {"reason": " "}, {"until": "x"}):
            self.problem(400, "bad_request", "POST", path + "/mute", body)
        self.problem(404, "not_found", "POST", "/v1/groups/%s/mute" % NO_GROUP)
        self.problem(404, "not_found", "GET", "/v1/groups/nonsense")

    def test_note(self):
        self.fail_all(1)
        path = "/v1/groups/" + self.one_group()
        g = server.ok("POST", path + "/note", {"note": "ticket OPS-12", "owner": "ada"})
        self.assertEqual((g["note"], g["owner"]), ("ticket OPS-12", "ada"))
        g = server.ok("POST", path + "/note", {"owner": None})
        self.assertEqual((g["note"], g.get("owner")), ("ticket OPS-12", None))
        for body in ({}, {"note": "x" * 4001}, {"owner": "x" * 129}, {"text": "x"}):
            self.problem(400, "bad_request", "POST", path + "/note", body)

    def test_merge_and_split(self):
        self.fail_all(3, error={"type": "A", "message": "m"})
        self.fail_all(4, error={"type": "B", "message": "m"})
        b, a = (g["group"] for g in self.groups())
        g = server.ok("POST", "/v1/groups/%s/merge" % a, {"into": b, "reason": "one cause"})
        self.assertTrue(g["is_merged"])
        (g,) = self.groups()
        self.assertEqual((g["group"], g["dead"], g["merged"]), (b, 7, 1))
        self.assertEqual([m["group"] for m in server.ok("GET", "/v1/groups/" + b)["merged_groups"]], [a])
        self.assertEqual(len(server.ok("GET", "/v1/dead-letters?group=" + b)["items"]), 7)
        self.problem(409, "conflict", "POST", "/v1/groups/%s/merge" % b, {"into": b})
        self.problem(400, "bad_request", "POST", "/v1/groups/%s/merge" % b, {})
        self.problem(400, "bad_request", "POST", "/v1/groups/%s/merge" % b, {"into": "abc"})
        server.ok("POST", "/v1/groups/%s/split" % a)
        self.assertEqual(sorted(g["dead"] for g in self.groups()), [3, 4])

    def test_rights(self):
        self.fail_all(2)
        group, viewer = self.one_group(), self.token("viewer")
        mine, theirs = self.token("operator", queues=[self.q]), self.token("operator", queues=["elsewhere"])
        self.assertEqual(server.api("GET", "/v1/groups/" + group, token=viewer)[0], 200)
        self.problem(403, "forbidden", "POST", "/v1/groups/%s/resolve" % group, token=viewer)
        self.problem(403, "forbidden", "GET", "/v1/groups/" + group, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/groups/%s/resolve" % group, token=theirs)
        self.problem(403, "forbidden", "GET", "/v1/dead-letters?group=" + group, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"group": group, "reason": "x"}, token=theirs)
        self.problem(403, "forbidden", "GET", "/v1/audit/verify", token=mine)
        self.assertEqual(server.ok("GET", "/v1/groups?limit=1000", token=theirs)["items"], [])
        self.assertEqual(server.ok("GET", "/v1/groups/" + group)["status"], "new")
        self.assertEqual(server.ok("POST", "/v1/groups/%s/acknowledge" % group, token=mine)["status"], "acknowledged")
        self.assertEqual(server.ok("POST", "/v1/redrives", {"group": group, "reason": "x"}, token=mine)["total"], 2)


class Guarded(Case):
    def start(self, **body):
        return server.ok("POST", "/v1/redrives", dict({"reason": "try"}, **body))

    def state(self, r, *states):
        def check():
            now = server.ok("GET", "/v1/redrives/" + r["redrive_id"])
            return now if now["state"] in states else None
        return wait_until(check, what="state " + " or ".join(states))

    def items(self, r, **params):
        query = "&".join("%s=%s" % kv for kv in params.items())
        return server.ok("GET", "/v1/redrives/%s/items?%s" % (r["redrive_id"], query))

    def ready(self, n):
        wait_until(lambda: server.counts(self.q)["ready"] == n, what="%d ready" % n)

    def test_bad_canary_halts(self):
        self.fail_all(20)
        group = self.one_group()
        r = self.start(group=group, first=5, stop_at="10%", rate="600/m")
        self.assertEqual((r["group"], r["queue"], r["total"], r["first"], r["rate"], r["stop_at"]), (group, self.q, 20, 5, "10/s", "10%"))
        self.ready(5)
        now = wait_until(lambda: (lambda d: d if d["phase"] == "waiting" else None)(server.ok("GET", "/v1/redrives/" + r["redrive_id"])))
        self.assertEqual((now["state"], now["sent"]), ("running", 5))
        self.work(lambda d: {"outcome": "permanent", "error": {"type": "SmtpError", "message": "mailbox not found: ada@example.org"}})
        now = self.state(r, "halted")
        self.assertEqual((now["sent"], now["failed_again"], now["succeeded"]), (5, 5, 0))
        self.assertIn("5 of 5", now["halted_why"])
        self.assertNotIn("phase", now)
        self.assertEqual(server.counts(self.q)["dead"], 20)
        ledger = self.items(r, limit=1000)["items"]
        self.assertEqual([i["state"] for i in ledger], ["failed_again"] * 5)
        for i in ledger:
            self.assertLessEqual(i["sent_at"], i["outcome_at"])
        self.assertEqual(server.api("POST", "/v1/redrives/%s/resume" % r["redrive_id"])[0], 200)
        wait_until(lambda: server.ok("GET", "/v1/redrives/" + r["redrive_id"])["sent"] > 5)
        now = server.ok("POST", "/v1/redrives/%s/cancel" % r["redrive_id"])
        self.assertEqual((now["state"], now["sent"] + now["cancelled"]), ("cancelled", 20))

    def test_good_canary_goes_on(self):
        self.fail_all(12)
        r = self.start(group=self.one_group(), first=3)
        self.ready(3)
        self.work(lambda d: {"outcome": "ok"})
        self.ready(9)
        self.assertEqual(self.state(r, "done")["sent"], 12)
        self.work(lambda d: {"outcome": "ok"})
        wait_until(lambda: server.ok("GET", "/v1/redrives/" + r["redrive_id"])["succeeded"] == 12)
        page = self.items(r, limit=7)
        rest = self.items(r, limit=7, cursor=page["next"])
        self.assertIsNone(rest["next"])
        states = [i["state"] for i in page["items"] + rest["items"]]
        self.assertEqual(states, ["succeeded"] * 12)
        self.assertEqual(len({i["dlq_id"] for i in page["items"] + rest["items"]}), 12)
        g = server.ok("GET", "/v1/groups/" + r["group"])
        self.assertEqual((g["dead"], g["redriven"]), (0, 12))

    def test_dry_run_of_a_group(self):
        self.fail_all(4)
        doc = self.start(group=self.one_group(), dry_run=True)
        self.assertEqual(doc["total"], 4)
        self.assertEqual(server.counts(self.q)["dead"], 4)

    def test_bad_guards(self):
        self.fail_all(1)
        group = self.one_group()
        for body in ({"rate": "fast"}, {"rate": "0/s"}, {"rate": "-1/s"}, {"rate": "1/d"}, {"rate": "1e400/s"}, {"rate": 5}, {"rate": "10"},
                     {"first": 0}, {"first": 1.5}, {"stop_at": 0}, {"stop_at": "0%"}, {"stop_at": "101%"}, {"stop_at": "ten"}, {"stop_at": "5"},
                     {"canary_wait": "1m"}, {"first": 1, "canary_wait": "8d"}, {"override": "yes"}, {"queue": self.q}, {"group": "x"},
                     {"group": group.upper()}, {"ids": ["x"]}):
            self.problem(400, "bad_request", "POST", "/v1/redrives", dict({"group": group, "reason": "x"}, **body))
        self.problem(400, "bad_request", "POST", "/v1/redrives", {"reason": "x"})
        self.problem(404, "not_found", "POST", "/v1/redrives", {"group": NO_GROUP, "reason": "x"})
        self.problem(404, "not_found", "GET", "/v1/redrives/01ARZ3NDEKTSV4RRFFQ69G5FAV/items")
        self.assertEqual(server.counts(self.q)["dead"], 1)

    def test_max_redrives_and_override(self):
        server.put_queue(self.q, policy={"max_attempts": 1, "max_redrives": 0})
        self.fail_all(2)
        (one, two) = server.dead(self.q)
        path = "/v1/dead-letters/%s/redrive" % one["dlq_id"]
        self.assertIn("max_redrives", self.problem(409, "conflict", "POST", path, {"reason": "x"})["detail"])
        self.problem(409, "conflict", "POST", "/v1/redrives", {"ids": [two["dlq_id"]], "reason": "x"})
        server.ok("POST", path, {"reason": "all the same", "override": True})
        self.ready(1)
        server.ok("POST", "/v1/redrives", {"ids": [two["dlq_id"]], "reason": "this, too", "override": True})
        self.ready(2)


class Restore(Case):
    def test_discard_and_back(self):
        self.fail_all(1)
        (d,) = server.dead(self.q)
        path = "/v1/dead-letters/" + d["dlq_id"]
        self.problem(409, "conflict", "POST", path + "/restore", {"reason": "x"})
        server.ok("POST", path + "/discard", {"reason": "oops"})
        self.problem(400, "bad_request", "POST", path + "/restore", {})
        self.assertEqual(server.ok("POST", path + "/restore", {"reason": "was no test"}), {"dlq_id": d["dlq_id"], "state": "dead"})
        self.assertEqual((server.counts(self.q)["dead"], self.groups()[0]["dead"], self.groups()[0]["discarded"]), (1, 1, 0))
        self.problem(404, "not_found", "POST", "/v1/dead-letters/01ARZ3NDEKTSV4RRFFQ69G5FAV/restore", {"reason": "x"})


class Audit(Case):
    def test_chain_holds(self):
        for _ in range(3):
            server.ok("POST", "/v1/queues/%s/pause" % self.q)
        rows = server.ok("GET", "/v1/audit?limit=1000")["items"]
        self.assertTrue(all(re.fullmatch("[0-9a-f]{64}", r["hash"]) for r in rows))
        self.assertEqual(len({r["hash"] for r in rows}), len(rows))
        doc = server.ok("GET", "/v1/audit/verify")
        self.assertEqual((doc["ok"], doc["rows"] >= len(rows)), (True, True))
        self.assertEqual((doc["newest"], doc["hash"]), (rows[0]["n"], rows[0]["hash"]))


if __name__ == "__main__":
    unittest.main()
