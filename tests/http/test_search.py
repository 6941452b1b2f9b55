"""GET /v1/dead-letters with every filter there is, alone and together, and what it refuses."""
import json
import time
import unittest
import urllib.parse

from dlqtest import SLOW, wait_until
from lib_dead import NO_GROUP, NO_ID, DeadCase


def setUpModule():
    DeadCase.start()


def tearDownModule():
    DeadCase.server.stop()


class Filters(DeadCase):
    def setUp(self):
        super().setUp()
        smtp, db = {"type": "SmtpError", "message": "mailbox not found"}, {"type": "DbError", "message": "deadlock"}
        self.ids = self.kill(
            {"id": "a1", "key": "k1", "body": {"amount": 5, "who": "ada"}, "headers": {"tenant": "acme", "region": "eu"}, "error": smtp},
            {"id": "a2", "key": "k1", "body": {"amount": 50, "who": "bob"}, "headers": {"tenant": "acme", "region": "us"}, "error": db},
            {"id": "a3", "key": "k2", "body": {"amount": 500, "who": "cyd"}, "headers": {"tenant": "umbrella"}, "error": smtp},
            {"id": "a4", "body": "plain text, no JSON", "headers": {"tenant": "acme", "note": "a=b=c"}, "error": db},
            {"id": "a5", "body": b"\xff\x00\xfe raw", "error": smtp})

    def test_each_alone_and_together(self):
        for params, want in (
                ({}, "a1 a2 a3 a4 a5"), ({"error_type": "SmtpError"}, "a1 a3 a5"), ({"error_type": "smtperror"}, ""),
                ({"key": "k1"}, "a1 a2"), ({"id": "a3"}, "a3"), ({"id": "a"}, ""), ({"reason": "permanent"}, "a1 a2 a3 a4 a5"),
                ({"reason": "expired"}, ""), ({"header": "tenant=acme"}, "a1 a2 a4"), ({"header": "Tenant=acme"}, "a1 a2 a4"),
                ({"header": "tenant=Acme"}, ""), ({"header": "tenant="}, ""), ({"header": "note=a=b=c"}, "a4"),
                ({"header": ["tenant=acme", "region=eu"]}, "a1"), ({"header": ["tenant=acme", "tenant=umbrella"]}, ""),
                ({"header": "tenant=acme", "error_type": "DbError"}, "a2 a4"),
                ({"text": "amount"}, "a1 a2 a3"), ({"text": "no JSON"}, "a4"), ({"text": "AMOUNT"}, ""), ({"text": " raw"}, "a5"),
                ({"text": "amount", "header": "tenant=acme", "error_type": "SmtpError"}, "a1"),
                ({"where": ".body.amount >= 50"}, "a2 a3"), ({"where": '.headers.tenant == "acme"'}, "a1 a2 a4"),
                ({"where": '.key == "k1" and .body.who == "bob"'}, "a2"), ({"where": '.body | type == "string"'}, "a4"),
                ({"where": ".body_base64"}, "a5"), ({"where": "empty"}, ""), ({"where": "null"}, ""), ({"where": "true"}, "a1 a2 a3 a4 a5"),
                ({"where": ".error.type", "error_type": "DbError"}, "a2 a4"), ({"where": "false, true"}, ""),
                ({"where": '.body.amount? // 0 | . > 5', "text": "ob", "header": "tenant=acme"}, "a2"),
                ({"state": "any"}, "a1 a2 a3 a4 a5"), ({"state": "archived"}, ""), ({"state": "discarded"}, "")):
            self.assertEqual(sorted(self.found(queue=self.q, **params)), want.split(), params)

    def test_group(self):
        group = self.show(self.ids["a2"])["group"]
        self.assertEqual(sorted(self.found(group=group)), ["a2", "a4"])
        self.assertEqual(self.found(group=group, key="k1"), ["a2"], "a group says the queue, too")
        self.assertEqual(self.found(group=group, where='.body | type == "string"'), ["a4"])
        self.assertEqual(self.found(group=group, text="who"), ["a2"])
        self.problem(404, "not_found", "GET", "/v1/dead-letters?where=true&group=" + NO_GROUP)
        self.problem(404, "not_found", "GET", "/v1/dead-letters?where=true&group=x")
        self.problem(400, "bad_request", "GET", "/v1/dead-letters?where=true&queue=other&group=" + group)

    def test_times(self):
        from_1970, to_1971 = "1970-01-02T00:00:00Z", "1971-01-01T00:00:00Z"
        self.assertEqual(len(self.found(queue=self.q, **{"from": from_1970})), 5)
        self.assertEqual(self.found(queue=self.q, to=to_1971), [])
        died = self.show(self.ids["a1"])["died_at"]
        self.assertIn("a1", self.found(queue=self.q, **{"from": died}))

    def test_expires(self):
        self.assertEqual(self.found(queue=self.q, expires_within="29d"), [])
        self.assertEqual(len(self.found(queue=self.q, expires_within="31d")), 5)
        q = self.queue(policy={"max_attempts": 1, "retention": "1h"})
        self.kill({"id": "s1"}, queue=q)
        self.assertEqual(self.found(queue=q, expires_within="30m"), [])
        self.assertEqual(self.found(queue=q, expires_within="61m", where="true"), ["s1"])
        (soon,), (late,) = (self.get("/v1/dead-letters", queue=x, limit=1)["items"] for x in (q, self.q))
        self.assertIs(soon["expires_soon"], True)
        self.assertNotIn("expires_soon", late)
        self.assertLess(soon["expires_at"], late["expires_at"])
        self.assertIs(self.show(soon["dlq_id"])["expires_soon"], True)
        doc = self.get("/v1/dead-letters", queue=q, where=".expires_soon")
        self.assertEqual([d["id"] for d in doc["items"]], ["s1"], "the document of `where` is the item")

    def test_redrive(self):
        r = self.job(ids=[self.ids["a1"], self.ids["a3"]])
        self.fail_again(2)
        for params in ({}, {"queue": self.q}, {"where": "true", "queue": self.q}, {"text": "amount", "queue": self.q}):
            self.assertEqual(sorted(self.found(redrive=r["redrive_id"], **params)), ["a1", "a3"], params)
        self.assertEqual(self.found(redrive=r["redrive_id"], key="k2", queue=self.q), ["a3"])
        self.problem(404, "not_found", "GET", "/v1/dead-letters?redrive=" + NO_ID)
        self.problem(404, "not_found", "GET", "/v1/dead-letters?redrive=nonsense")

    def test_an_edited_body_is_looked_at(self):
        self.job(ids=[self.ids["a1"]], edit={"jq": '.who = "zoe"', "set_headers": {"tenant": "initech"}})
        self.fail_again(1)
        self.assertEqual(self.found(queue=self.q, text="zoe"), ["a1"])
        self.assertEqual(self.found(queue=self.q, text="ada"), [])
        self.assertEqual(self.found(queue=self.q, where='.body.who == "zoe"'), ["a1"])
        self.assertEqual(self.found(queue=self.q, header="tenant=initech"), ["a1"])
        self.assertEqual(sorted(self.found(queue=self.q, header="tenant=acme")), ["a2", "a4"])

    def test_errors_are_counted(self):
        doc = self.get("/v1/dead-letters", queue=self.q, where=".body.amount > 5")
        self.assertEqual(sorted(d["id"] for d in doc["items"]), ["a2", "a3"])
        self.assertEqual((doc["scanned"], doc["errors"]), (5, 1), doc)  # null of a5 has no amount: null > 5 is false; text fails
        self.assertIn("string", doc["first_error"])
        doc = self.get("/v1/dead-letters", queue=self.q, where="true")
        self.assertEqual(doc["errors"], 0)
        self.assertNotIn("first_error", doc)
        self.assertNotIn("errors", self.get("/v1/dead-letters", queue=self.q))

    def test_refused(self):
        long_text = "x" * 1025
        for params, code, text in (
                ({"header": "tenant"}, "bad_request", "name=value"), ({"header": "=x"}, "bad_request", "name=value"),
                ({"header": "a b=x"}, "bad_request", "name=value"), ({"header": ["h%d=x" % i for i in range(9)]}, "bad_request", "at most 8"),
                ({"text": ""}, "bad_request", "1 to 1024"), ({"text": long_text}, "bad_request", "1 to 1024"),
                ({"where": ""}, "bad_request", "where"), ({"where": ".a ++ 1"}, "bad_request", "syntax error"),
                ({"where": "nonsense(1)"}, "bad_request", "nonsense/1"), ({"expires_within": "soon"}, "bad_request", "duration"),
                ({"expires_within": "0s"}, "bad_request", "longer than 0"), ({"expires_within": "20000d"}, "bad_request", "duration"),
                ({"redrive": "a b"}, "bad_request", "redrive"), ({"state": "gone"}, "bad_request", "archived"),
                ({"reason": "none"}, "bad_request", "max_attempts"), ({"from": "yesterday"}, "bad_request", "RFC 3339"),
                ({"queue": "a b"}, "invalid_name", "rule"), ({"limit": "0"}, "bad_request", "1000"), ({"limit": "1001"}, "bad_request", "1000"),
                ({"cursor": ""}, "bad_request", "cursor"), ({"cursor": "MXA5"}, "bad_request", "cursor"),
                ({"wher": "true"}, "bad_request", 'did you mean "where"?'), ({"headers": "a=b"}, "bad_request", 'did you mean "header"?'),
                ({"expire_within": "1d"}, "bad_request", 'did you mean "expires_within"?'), ({"key": "k1"}, "bad_request", "queue")):
            for path in ("/v1/dead-letters", "/v1/dead-letters/export"):
                self.problem(400, code, "GET", path + "?" + urllib.parse.urlencode(params, doseq=True), text=text)
        for name in ("where", "text", "queue", "redrive", "expires_within"):
            self.problem(400, "bad_request", "GET", "/v1/dead-letters?%s=1&%s=1" % (name, name), text="twice")
        self.assertEqual(len(self.found(queue=self.q, header=["tenant=acme"] * 8)), 3)

    def test_rights(self):
        other = self.queue()
        self.kill({"id": "x1", "body": {"amount": 7}, "headers": {"tenant": "acme"}}, queue=other)
        mine = self.token("viewer", queues=[self.q])
        group = self.show(self.ids["a1"])["group"]
        def ids(**params):
            return sorted(d["id"] for d in self.pages("/v1/dead-letters", token=mine, **params))
        self.assertEqual(ids(header="tenant=acme"), ["a1", "a2", "a4"])
        self.assertEqual(ids(queue=self.q, where=".body.amount > 50"), ["a3"])
        self.assertEqual(ids(group=group, text="amount"), ["a1", "a3"])
        for query in ("where=true", "text=a", "queue=%s&where=true" % other, "queue=%s&header=a=b" % other):
            self.problem(403, "forbidden", "GET", "/v1/dead-letters?" + query, token=mine)
            self.problem(403, "forbidden", "GET", "/v1/dead-letters/export?" + query, token=mine)
        self.problem(403, "forbidden", "GET", "/v1/dead-letters/export?header=a=b", token=mine)
        self.problem(403, "forbidden", "GET", "/v1/dead-letters?where=true&group=" + group, token=self.token(queues=[other]))
        self.problem(401, "unauthenticated", "GET", "/v1/dead-letters?where=true", token="nobody")


class Steps(DeadCase):
    def test_a_scan_is_bounded_and_complete(self):
        n = 3000
        self.kill(*({"id": "n%d" % i, "body": {"n": i, "pad": "x" * 2000}} for i in range(n)))
        for params, want in (({"where": ".body.n % 1000 == 7"}, ["n2007", "n1007", "n7"]), ({"text": '"n": 2999,'}, ["n2999"]),
                             ({"where": ".body.n < 0"}, []), ({"text": "nowhere in here"}, [])):
            steps, items, scanned, cursor = 0, [], 0, None
            while True:
                began = time.monotonic()
                page = self.get("/v1/dead-letters", queue=self.q, limit=2, **dict(params, **({"cursor": cursor} if cursor else {})))
                self.assertLess(time.monotonic() - began, 2 * SLOW, "a step is bounded")
                self.assertLessEqual(len(page["items"]), 2)
                steps, items, scanned, cursor = steps + 1, items + page["items"], scanned + page["scanned"], page["next"]
                if not cursor:
                    break
            self.assertEqual(sorted(d["id"] for d in items), sorted(want), params)
            self.assertGreaterEqual(scanned, n, params)
            self.assertLess(scanned, n + 2 * steps + 2, "nothing is looked at twice")

    def test_pages_of_indexed_filters(self):
        n = 250
        self.kill(*({"id": "p%d" % i, "headers": {"tenant": "t%d" % (i % 2)}, "error": {"type": "E%d" % (i % 5), "message": "m"}} for i in range(n)))
        for params, want in (({"header": "tenant=t1"}, 125), ({"error_type": "E3"}, 50), ({"header": "tenant=t1", "error_type": "E3"}, 25)):
            ids = self.found(queue=self.q, limit=7, **params)
            self.assertEqual((len(ids), len(set(ids))), (want, want), params)


class Stats(DeadCase):
    def test_expires_soon(self):
        before = self.server.ok("GET", "/v1/stats")["expires_soon"]
        q = self.queue(policy={"max_attempts": 1, "retention": "2d"})
        self.kill({"id": "s1"}, {"id": "s2"}, queue=q)
        self.kill({"id": "l1"})
        self.assertEqual(self.server.ok("GET", "/v1/stats")["expires_soon"], before + 2)
        self.assertIn("\ndlq_expires_soon %d\n" % (before + 2), self.server.api("GET", "/metrics")[1].decode())
        for queues, want in (([q], 2), ([self.q], 0), ([q, self.q], 2), (["nothing-*"], 0)):
            token = self.token("viewer", queues=queues)
            self.assertEqual(self.server.ok("GET", "/v1/stats", token=token)["expires_soon"], want, queues)
            self.assertIn("\ndlq_expires_soon %d\n" % want, self.server.api("GET", "/metrics", token=token)[1].decode())


if __name__ == "__main__":
    unittest.main()
