"""Edits on the way back: jq programs and headers, for one and for many, and what a preview says about them."""
import json
import unittest

from lib_dead import NO_GROUP, NO_ID, DeadCase


def setUpModule():
    DeadCase.start()


def tearDownModule():
    DeadCase.server.stop()


class One(DeadCase):
    def test_body_keeps_the_bytes_it_can(self):
        body = '{ "sku": "A-1",\t"price": 1.10, "big": 12345678901234567890, "name": "caf\\u00e9", "list": [1,  2] }'
        ids = self.kill({"id": "m", "body": body, "headers": {"tenant": "acme", "trace": "t1"}, "content_type": "application/json"})
        r = self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["m"], {"reason": "wrong sku", "edit": {
            "jq": '.sku = "B-2"', "set_headers": {"Tenant": "umbrella", "new": "1"}, "remove_headers": ["trace", "absent"]}})
        self.assertEqual(r["action"], "redrive")
        (d,) = self.take(1)
        self.assertEqual(d["body"], body.replace("A-1", "B-2"))
        self.assertEqual(d["headers"], {"tenant": "umbrella", "new": "1"})
        self.assertEqual((d["id"], d["content_type"]), ("m", "application/json"))
        self.settle_all([d], lambda d: {"outcome": "permanent", "error": {"type": "Bad", "message": "again"}})
        doc = self.show(ids["m"])
        self.assertIs(doc["edited"], True)
        self.assertEqual(doc["headers"], {"tenant": "umbrella", "new": "1"})
        self.assertEqual(doc["original_headers"], {"tenant": "acme", "trace": "t1"})
        self.assertEqual(self.body(ids["m"], original=True), json.loads(body))
        self.assertEqual(self.body(ids["m"])["sku"], "B-2")
        now = self.done(r)
        self.assertEqual(now["edited"], {"changed": 1, "unchanged": 0, "failed": 0})

    def test_what_changes_nothing(self):
        ids = self.kill({"id": "m", "body": {"a": 1}, "headers": {"h": "1"}})
        r = self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["m"],
                           {"reason": "x", "edit": {"jq": ".", "set_headers": {"h": "1"}, "remove_headers": ["absent"]}})
        (d,) = self.take(1)
        self.assertEqual((d["body"], d["headers"]), ('{"a": 1}', {"h": "1"}))
        self.assertIs(self.show(ids["m"])["edited"], False)
        self.assertEqual(self.done(r)["edited"], {"changed": 0, "unchanged": 1, "failed": 0})

    def test_a_failed_edit_is_not_sent(self):
        ids = self.kill({"id": "m", "body": "not JSON"})
        r = self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["m"], {"reason": "x", "edit": {"jq": ".a = 1"}})
        now = self.done(r)
        self.assertEqual((now["sent"], now["skipped"], now["edited"]), (0, 1, {"changed": 0, "unchanged": 0, "failed": 1}))
        item = self.ledger(r)[ids["m"]]
        self.assertEqual(item["state"], "skipped")
        self.assertIn("JSON", item["note"])
        self.assertEqual(self.show(ids["m"])["state"], "dead")

    def test_body_and_headers(self):
        ids = self.kill({"id": "m", "body": "not JSON", "headers": {"h": "1"}})
        self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["m"],
                       {"reason": "x", "body": "by hand", "edit": {"set_headers": {"h": "2"}}})
        (d,) = self.take(1)
        self.assertEqual((d["body"], d["headers"]), ("by hand", {"h": "2"}))

    def test_to_another_queue(self):
        to = self.queue()
        ids = self.kill({"id": "m", "body": {"a": 1}, "key": "k"}, {"id": "n", "body": {"a": 2}})
        self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["m"], {"reason": "x", "to": to, "edit": {"jq": ".a += 1"}})
        r = self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["n"], {"reason": "x", "to": to})
        self.assertEqual(r["to"], to)
        got = {d["id"]: (d["body"].replace(" ", ""), d.get("key")) for d in self.take(2, to)}
        self.assertEqual(got, {"m": ('{"a":2}', "k"), "n": ('{"a":2}', None)})
        self.assertEqual(self.server.counts(self.q)["ready"], 0)

    def test_refused(self):
        ids = self.kill({"id": "m"})
        path = "/v1/dead-letters/%s/redrive" % ids["m"]
        for more, code, text in (
                ({"edit": {}}, "bad_request", "the edit is empty"), ({"edit": {"jqq": "."}}, "bad_request", 'did you mean "jq"?'),
                ({"edit": "."}, "bad_request", "an object"), ({"edit": {"jq": ""}}, "bad_request", "empty"),
                ({"edit": {"jq": 1}}, "bad_request", "text"), ({"edit": {"jq": ". = ("}}, "bad_request", "syntax error"),
                ({"edit": {"jq": "."}, "body": "x"}, "bad_request", "exclude each other"),
                ({"edit": {"jq": "#" * 65537}}, "bad_request", "at most 65536"),
                ({"edit": {"set_headers": {}}}, "bad_request", "empty"), ({"edit": {"set_headers": {"a b": "x"}}}, "bad_request", "name"),
                ({"edit": {"set_headers": {"a": 1}}}, "bad_request", "text"), ({"edit": {"set_headers": {"a": "1", "A": "2"}}}, "bad_request", "twice"),
                ({"edit": {"set_headers": {"h%d" % i: "x" for i in range(65)}}}, "bad_request", "at most 64"),
                ({"edit": {"remove_headers": []}}, "bad_request", "empty"), ({"edit": {"remove_headers": "a"}}, "bad_request", "list"),
                ({"edit": {"remove_headers": ["h%d" % i for i in range(65)]}}, "bad_request", "at most 64"),
                ({"edit": {"remove_headers": ["a"], "set_headers": {"A": "1"}}}, "bad_request", "both set and removed"),
                ({"to": "a b"}, "invalid_name", "to"), ({"to": 3}, "bad_request", "text"), ({"too": "x"}, "bad_request", 'did you mean "to"?')):
            self.problem(400, code, "POST", path, dict({"reason": "x"}, **more), text=text)
        self.problem(404, "not_found", "POST", path, {"reason": "x", "to": "no-such-queue"}, text="no-such-queue")
        self.problem(403, "forbidden", "POST", path, {"reason": "x", "to": "elsewhere"}, token=self.token(queues=[self.q]))
        d = self.show(ids["m"])
        self.assertEqual((d["state"], d["redrives"]), ("dead", 0))
        # At the limits it is taken.
        self.server.ok("POST", path, {"reason": "x", "edit": {"jq": "." + " " * 65535, "set_headers": {"h%d" % i: "x" for i in range(64)}}})
        (d,) = self.take(1)
        self.assertEqual(len(d["headers"]), 64)

    def test_headers_past_the_limit(self):
        ids = self.kill({"id": "m", "headers": {"own": "1"}}, {"id": "n"})
        edit = {"set_headers": {"h%d" % i: "x" for i in range(64)}}
        self.problem(400, "bad_request", "POST", "/v1/dead-letters/%s/redrive" % ids["m"], {"reason": "x", "edit": edit}, text="65 headers")
        r = self.run_job(queue=self.q, edit=edit)
        self.assertEqual((r["sent"], r["skipped"], r["edited"]), (1, 1, {"changed": 1, "unchanged": 0, "failed": 1}))
        self.assertIn("64", self.ledger(r)[ids["m"]]["note"])


class Many(DeadCase):
    def setUp(self):
        super().setUp()
        self.ids = self.kill(*(
            [{"id": "old%d" % i, "body": {"v": 1, "n": i}, "headers": {"tenant": "acme"}} for i in range(30)] +
            [{"id": "new%d" % i, "body": {"v": 2, "n": i}, "headers": {"tenant": "acme"}} for i in range(10)] +
            [{"id": "bad%d" % i, "body": "no JSON %d" % i, "headers": {"tenant": "acme"}} for i in range(5)] +
            [{"id": "other", "body": {"v": 1}, "headers": {"tenant": "umbrella"}}]))
        self.filter = {"queue": self.q, "headers": {"tenant": "acme"}}
        self.edit = {"jq": "if .v == 1 then .v = 2 | .was = 1 else . end"}

    def test_preview_then_redrive(self):
        before = self.pages("/v1/dead-letters", queue=self.q, limit=1000)
        p = self.preview(filter=self.filter, edit=self.edit, limit=100)
        self.assertEqual((p["selected"], p["changed"], p["unchanged"], p["failed"], p["over_limit"]), (45, 30, 10, 5, 0))
        self.assertGreaterEqual(p["looked"], 45)
        items = {i["id"]: i for i in p["items"]}
        self.assertEqual(items["old3"]["changes"], [{"path": ".v", "old": "1", "new": "2"}, {"path": ".was", "new": "1"}])
        self.assertEqual((items["old3"]["queue"], items["old3"]["dlq_id"]), (self.q, self.ids["old3"]))
        self.assertIn("JSON", items["bad0"]["error"])
        self.assertNotIn("other", items)
        self.assertEqual(self.pages("/v1/dead-letters", queue=self.q, limit=1000), before, "a preview changes nothing")
        r = self.job(filter=self.filter, edit=self.edit)
        self.assertEqual((r["queue"], r["state"]), (self.q, "running"))
        self.assertIn("acme", r["selection"])
        self.assertNotIn("group", r)
        now = self.done(r)
        self.assertEqual((now["total"], now["sent"], now["skipped"], now["edited"]), (45, 40, 5, {"changed": 30, "unchanged": 10, "failed": 5}))
        self.assertGreaterEqual(now["looked"], 45)
        ledger = self.ledger(r)
        self.assertEqual(set(ledger), {v for k, v in self.ids.items() if k != "other"})
        for k in self.ids:
            if k.startswith("bad"):
                self.assertEqual(ledger[self.ids[k]]["state"], "skipped")
                self.assertIn("JSON", ledger[self.ids[k]]["note"])
        got = {d["id"]: json.loads(d["body"]) for d in self.take(40)}
        self.assertEqual(got["old7"], {"v": 2, "n": 7, "was": 1})
        self.assertEqual(got["new7"], {"v": 2, "n": 7})
        self.assertEqual(sorted(self.found(queue=self.q)), ["bad0", "bad1", "bad2", "bad3", "bad4", "other"])

    def test_limits_of_a_preview(self):
        self.assertEqual(self.preview(filter=self.filter, edit=self.edit, limit=0)["items"], [])
        step = self.server.ok("POST", "/v1/redrives/preview", {"filter": self.filter, "edit": self.edit})
        self.assertEqual(len(step["items"]), 5, "the default")
        p = self.preview(filter=self.filter, limit=100)
        self.assertEqual((p["selected"], p["changed"], p["failed"]), (45, 0, 0))
        self.assertEqual(len(p["items"]), 45)
        self.assertNotIn("changes", p["items"][0])
        for choice, want in (({"queue": self.q}, 46), ({"ids": [self.ids["old1"], self.ids["other"]]}, 2),
                             ({"group": self.show(self.ids["old1"])["group"]}, 46), ({"filter": dict(self.filter, where=".body.n == 3")}, 2),
                             ({"filter": dict(self.filter, text='"v": 2')}, 10), ({"filter": {"queue": self.q, "id": "new4"}}, 1)):
            self.assertEqual(self.preview(**choice)["selected"], want, choice)
        p = self.preview(filter=dict(self.filter, where=".body.v > 1"))
        self.assertEqual((p["selected"], p["errors"]), (10, 5))
        self.assertIn("string", p["first_error"])

    def test_preview_of_headers(self):
        p = self.preview(ids=[self.ids["old1"], self.ids["other"]], limit=10, edit={
            "set_headers": {"tenant": "umbrella", "new": "1"}, "remove_headers": ["absent"]})
        items = {i["id"]: i for i in p["items"]}
        self.assertEqual((p["changed"], p["unchanged"]), (2, 0))
        self.assertEqual(items["old1"]["headers_set"], {"tenant": "umbrella", "new": "1"})
        self.assertEqual(items["other"]["headers_set"], {"new": "1"}, "what it has already is no change")
        self.assertNotIn("headers_removed", items["old1"])
        p = self.preview(ids=[self.ids["old1"]], edit={"remove_headers": ["TENANT"]})
        self.assertEqual(p["items"][0]["headers_removed"], ["tenant"])

    def test_numbers_that_jq_cannot_carry(self):
        ids = self.kill({"id": "big", "body": '{"a": 12345678901234567890, "keep": 98765432109876543210}'})
        (item,) = self.preview(ids=[ids["big"]], edit={"jq": ".b = .a"})["items"]
        self.assertIn("12345678901234567890", item["warning"])
        (item,) = self.preview(ids=[ids["big"]], edit={"jq": ".c = 1"})["items"]
        self.assertNotIn("warning", item)
        self.assertEqual(item["changes"], [{"path": ".c", "new": "1"}])

    def test_many_changes_of_one(self):
        ids = self.kill({"id": "wide", "body": {"n": list(range(150))}})
        (item,) = self.preview(ids=[ids["wide"]], edit={"jq": ".n |= map(. + 1000)"})["items"]
        self.assertEqual((len(item["changes"]) <= 100, len(item["changes"]) + item.get("more_changes", 0) >= 2), (True, True), item)

    def test_over_the_limit(self):
        q = self.queue()
        ids = self.kill({"id": "m"}, {"id": "n"}, queue=q)
        self.run_job(queue=q)
        self.fail_again(2, q)
        self.server.put_queue(q, policy={"max_attempts": 1, "max_redrives": 1})
        p = self.preview(queue=q)
        self.assertEqual((p["selected"], p["over_limit"]), (2, 2))
        self.assertTrue(all(i["over_limit"] for i in p["items"]))
        r = self.run_job(filter={"queue": q, "id": "m"})
        self.assertEqual((r["sent"], r["skipped"]), (0, 1))
        self.assertIn("max_redrives", self.ledger(r)[ids["m"]]["note"])
        self.assertEqual(self.run_job(filter={"queue": q, "id": "m"}, override=True)["sent"], 1)

    def test_members_are_fixed_at_the_start(self):
        r = self.job(filter=self.filter, edit=self.edit, rate="200/s")
        late = self.kill({"id": "late", "body": {"v": 1}, "headers": {"tenant": "acme"}}, queue=self.queue())
        self.assertEqual(self.done(r)["total"], 45)
        self.assertNotIn(late["late"], self.ledger(r))

    def test_another_queue_for_many(self):
        to = self.queue()
        r = self.run_job(filter=dict(self.filter, where='.body | type == "object"'), edit=self.edit, to=to)
        self.assertEqual((r["to"], r["sent"]), (to, 40))
        self.assertEqual(len(self.take(40, to)), 40)

    def test_canary_with_an_edit(self):
        r = self.job(filter=dict(self.filter, text='"v": 1'), edit=self.edit, first=3, stop_at=1)
        self.fail_again(3)
        now = self.done(r, "halted")
        self.assertEqual((now["sent"], now["failed_again"], now["total"]), (3, 3, 30))
        self.server.ok("POST", "/v1/redrives/%s/cancel" % r["redrive_id"])
        self.assertEqual(len(self.found(queue=self.q)), 46)

    def test_refused(self):
        one = self.ids["old1"]
        for body, code, text in (
                ({}, "bad_request", "one of"), ({"queue": self.q, "filter": self.filter}, "bad_request", "one of"),
                ({"ids": [one], "filter": self.filter}, "bad_request", "one of"), ({"filter": {}}, "bad_request", "the filter is empty"),
                ({"filter": None}, "bad_request", "an object"), ({"filter": []}, "bad_request", "an object"), ({"filter": {"queues": "x"}}, "bad_request", 'did you mean "queue"?'),
                ({"filter": {"header": {"a": "b"}}}, "bad_request", 'did you mean "headers"?'), ({"filter": {"error_type": ""}}, "bad_request", "empty"),
                ({"filter": {"key": "k"}}, "bad_request", "queue or group"), ({"filter": {"where": ""}}, "bad_request", "empty"),
                ({"filter": {"queue": self.q, "where": ".a ="}}, "bad_request", "syntax error"), ({"filter": {"where": "x" * 65537}}, "bad_request", "at most 65536"),
                ({"filter": {"text": "x" * 1025}}, "bad_request", "at most 1024"), ({"filter": {"text": 1}}, "bad_request", "text"),
                ({"filter": {"headers": {"h%d" % i: "x" for i in range(9)}}}, "bad_request", "at most 8"), ({"filter": {"headers": {}}}, "bad_request", "empty"),
                ({"filter": {"reason": "bad luck"}}, "bad_request", "max_attempts"), ({"filter": {"from": 5}}, "bad_request", "text"),
                ({"filter": {"to": "tomorrow"}}, "bad_request", "RFC 3339"), ({"filter": {"expires_within": "0s"}}, "bad_request", "duration"),
                ({"filter": {"queue": "a b"}}, "invalid_name", "queue"), ({"filter": {"group": "x"}}, "bad_request", "0-9 a-f"), ({"filter": {"id": "a b"}}, "bad_request", "id"),
                ({"filter": {"queue": self.q, "queue ": 1}}, "bad_request", "unknown key"), ({"ids": []}, "bad_request", "empty"), ({"ids": ["a b"]}, "bad_request", "dlq_id"),
                ({"queue": self.q, "edit": {}}, "bad_request", "the edit is empty"), ({"queue": self.q, "edit": {"jq": "nope(1)"}}, "bad_request", "nope/1"),
                ({"queue": self.q, "action": "delete"}, "bad_request", "archive"), ({"queue": self.q, "action": 3}, "bad_request", "text")):
            self.problem(400, code, "POST", "/v1/redrives", dict(body, reason="x"), text=text)
            self.problem(400, code, "POST", "/v1/redrives/preview", body, text=text)
        for body, text in (({"limit": 101}, "100"), ({"limit": -1}, "100"), ({"cursor": ""}, "cursor"), ({"cursor": "MXI5"}, "cursor"),
                           ({"reason": "x"}, "unknown key"), ({"dry_run": True}, "unknown key")):
            self.problem(400, "bad_request", "POST", "/v1/redrives/preview", dict({"queue": self.q}, **body), text=text)
        for body, text in (({"filter": self.filter, "dry_run": True}, "preview"), ({"queue": self.q, "edit": {"jq": "."}, "dry_run": True}, "preview"),
                           ({"filter": self.filter, "limit": 3}, "unknown key")):
            self.problem(400, "bad_request", "POST", "/v1/redrives", dict({"reason": "x"}, **body), text=text)
        self.problem(413, "too_large", "POST", "/v1/redrives/preview", {"ids": [NO_ID] * 1001})
        for path in ("/v1/redrives", "/v1/redrives/preview"):
            more = {"reason": "x"} if path.endswith("s") else {}
            self.problem(404, "not_found", "POST", path, dict({"filter": {"group": NO_GROUP}}, **more))
            self.problem(404, "not_found", "POST", path, dict({"filter": {"redrive": NO_ID}}, **more))
            self.problem(404, "not_found", "POST", path, dict({"filter": {"queue": "no-such-queue", "text": "x"}}, **more))
            self.problem(400, "bad_request", "POST", path, dict({"filter": {"group": self.show(one)["group"], "queue": "elsewhere"}}, **more))
        self.assertEqual(len(self.found(queue=self.q)), 46)

    def test_rights(self):
        group = self.show(self.ids["old1"])["group"]
        other = self.queue()
        mine, theirs, viewer = self.token(queues=[self.q]), self.token(queues=[other]), self.token("viewer", queues=[self.q])
        for path in ("/v1/redrives", "/v1/redrives/preview"):
            more = {"reason": "x"} if path == "/v1/redrives" else {}
            for choice in ({"filter": self.filter}, {"filter": {"group": group, "text": "v"}}, {"queue": self.q}, {"group": group}, {"ids": [self.ids["old1"]]},
                           {"filter": {"headers": {"tenant": "acme"}}}):
                self.problem(403, "forbidden", "POST", path, dict(choice, **more), token=theirs)
            for choice in ({"ids": [self.ids["old1"]]}, {"filter": {"headers": {"tenant": "acme"}}}, {"filter": {"queue": other, "text": "x"}}):
                self.problem(403, "forbidden", "POST", path, dict(choice, **more), token=mine)
        self.assertEqual(self.preview(token=viewer, filter=self.filter)["selected"], 45)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"filter": self.filter, "reason": "x"}, token=viewer)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"filter": self.filter, "reason": "x", "to": other}, token=mine)
        r = self.job(token=mine, filter=dict(self.filter, id="old1"))
        self.done(r)
        path = "/v1/redrives/" + r["redrive_id"]
        self.assertEqual(self.server.api("GET", path, token=mine)[0], 200)
        self.assertEqual(self.server.api("GET", path + "/items", token=mine)[0], 200)
        self.assertIn(r["redrive_id"], [d["redrive_id"] for d in self.pages("/v1/redrives", token=mine, limit=1000)])
        self.problem(403, "forbidden", "GET", path, token=theirs)
        self.problem(403, "forbidden", "GET", path + "/items", token=theirs)
        self.assertNotIn(r["redrive_id"], [d["redrive_id"] for d in self.pages("/v1/redrives", token=theirs, limit=1000)])
        rows = self.audit(action="refused", target="POST /v1/redrives")
        self.assertIn(self.q, [row.get("queue") for row in rows], "a refused change leaves a row")
        self.assertEqual(self.audit(action="refused", target="POST /v1/redrives/preview"), [], "a preview changes nothing")


if __name__ == "__main__":
    unittest.main()
