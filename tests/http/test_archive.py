"""What reached the end of its retention: the index and the records."""
import os
import time
import unittest

from dlqtest import wait_until
from lib_dead import NO_ID, DeadCase


def setUpModule():
    DeadCase.start()


def tearDownModule():
    DeadCase.server.stop()


class Archive(DeadCase):
    def expire(self, *messages, queue=None):
        """Dead letters whose retention is over: they are in the archive and nowhere else."""
        queue = queue or self.q
        ids = self.kill(*messages, queue=queue)
        wait_until(lambda: not self.found(queue=queue, state="any"), what="the end of retention")
        return ids

    def setUp(self):
        self.q = self.queue(policy={"max_attempts": 1, "retention": "1s"})

    def test_list_and_show(self):
        day = time.strftime("%Y-%m-%d", time.gmtime())
        ids = self.expire({"id": "a", "key": "k", "body": {"n": 1}, "headers": {"h": "1"}, "error": {"type": "E", "message": "m"}}, {"id": "b", "body": b"\xff\x00"})
        items = {i["id"]: i for i in self.pages("/v1/archive", queue=self.q)}
        self.assertEqual(set(items), {"a", "b"})
        a = items["a"]
        self.assertEqual((a["dlq_id"], a["queue"], a["key"], a["state"], a["reason"], a["error_type"]), (ids["a"], self.q, "k", "dead", "permanent", "E"))
        self.assertIn(a["file"], ["archive/%s/%s.jsonl.zst" % (self.q, d) for d in (day, time.strftime("%Y-%m-%d", time.gmtime()))])
        self.assertTrue(os.path.exists(os.path.join(self.server.data, a["file"])))
        self.assertLessEqual(a["died_at"], a["archived_at"])
        self.assertNotIn("key", items["b"])
        for name in (ids["a"], "a"):
            status, record, head = self.server.api("GET", "/v1/archive/" + name)
            self.assertEqual((status, head["content-type"]), (200, "application/json"))
            self.assertEqual((record["dlq_id"], record["body"], record["headers"], record["queue"]), (ids["a"], '{"n": 1}', {"h": "1"}, self.q))
            self.assertEqual(record["archived_at"], a["archived_at"])
            self.assertEqual(record["history"][0]["error"]["type"], "E")
        self.assertEqual(self.server.ok("GET", "/v1/archive/" + ids["b"])["body_base64"], "/wA=")
        self.assertGreaterEqual(self.server.totals(self.q)["archived"], 2)

    def test_states(self):
        ids = self.kill({"id": "kept"}, {"id": "dropped"})
        self.server.ok("POST", "/v1/dead-letters/%s/discard" % ids["dropped"], {"reason": "no use"})
        wait_until(lambda: not self.found(queue=self.q, state="any"), what="the end of retention")
        self.assertEqual({i["id"]: i["state"] for i in self.pages("/v1/archive", queue=self.q)}, {"kept": "dead", "dropped": "discarded"})
        self.assertEqual(self.server.ok("GET", "/v1/archive/dropped")["why"], "no use")

    def test_filters_and_pages(self):
        self.expire(*({"id": "f%d" % i} for i in range(25)))
        self.assertEqual(len(self.pages("/v1/archive", queue=self.q, limit=4)), 25)
        self.assertEqual(len({i["id"] for i in self.pages("/v1/archive", queue=self.q, limit=4)}), 25)
        (one,) = self.pages("/v1/archive", queue=self.q, id="f7")
        self.assertEqual(self.pages("/v1/archive", id=one["dlq_id"]), [one])
        self.assertEqual(self.pages("/v1/archive", queue=self.q, to="2020-01-01"), [])
        self.assertEqual(len(self.pages("/v1/archive", queue=self.q, **{"from": "2020-01-01", "to": "2999-12-31"})), 25)
        self.assertEqual(self.pages("/v1/archive", queue=self.q, **{"from": "2999-01-01"}), [])
        self.assertEqual(self.pages("/v1/archive", queue="never-heard-of"), [])
        self.assertGreaterEqual(len(self.pages("/v1/archive", limit=1000)), 25)

    def test_refused(self):
        for query in ("from=yesterday", "to=2026-13-01", "to=2026-12-1", "from=2026-12-01T00:00:00Z", "limit=0", "cursor=x", "cursor=MXph", "id=a%20b",
                      "state=dead", "day=2026-12-01", "from=../../x", "from=2026/12/01"):
            self.problem(400, "bad_request", "GET", "/v1/archive?" + query)
        self.problem(400, "invalid_name", "GET", "/v1/archive?queue=..%2F..%2Fetc")
        self.problem(404, "not_found", "GET", "/v1/archive/" + NO_ID)
        self.problem(404, "not_found", "GET", "/v1/archive/..%2F..%2Fadmin.token")
        self.problem(400, "bad_request", "GET", "/v1/archive/a%20b")
        self.assertEqual(self.server.api("POST", "/v1/archive", {})[0], 405)

    def test_rights(self):
        ids = self.expire({"id": "r"})
        other = self.queue(policy={"max_attempts": 1, "retention": "1s"})
        self.expire({"id": "s"}, queue=other)
        mine = self.token("viewer", queues=[self.q])
        self.assertEqual({i["id"] for i in self.pages("/v1/archive", token=mine, limit=1000)}, {"r"})
        self.assertEqual(len(self.pages("/v1/archive", token=mine, queue=self.q)), 1)
        self.problem(403, "forbidden", "GET", "/v1/archive?queue=" + other, token=mine)
        self.assertEqual(self.server.api("GET", "/v1/archive/" + ids["r"], token=mine)[0], 200)
        self.problem(403, "forbidden", "GET", "/v1/archive/s", token=mine)
        self.problem(401, "unauthenticated", "GET", "/v1/archive", token="x")

    def test_a_restart_keeps_it(self):
        ids = self.expire({"id": "late", "body": "still here"})
        self.server.kill()
        self.server.restart()
        self.assertEqual(self.server.ok("GET", "/v1/archive/" + ids["late"])["body"], "still here")


if __name__ == "__main__":
    unittest.main()
