"""Export and import: full records, nothing lost on the way, line by line what was wrong."""
import base64
import json
import unittest

from dlqtest import Server, wait_until
from lib_dead import NO_ID, DeadCase

CONFIG = "limits: {max_batch_bytes: 1MiB, max_message_bytes: 256KiB}\n"
EXPORT, IMPORT = "/v1/dead-letters/export", "/v1/dead-letters/import"
# What an import cannot keep: where it is and what this server makes of it.
PLACE = ("dlq_id", "imported_id", "queue", "group", "expires_at", "expires_soon", "redrive_id", "died_at", "state", "operator", "why")


def setUpModule():
    DeadCase.start(CONFIG)


def tearDownModule():
    DeadCase.server.stop()


class TransferCase(DeadCase):
    def export(self, token=None, server=None, **params):
        """All pages -> the lines."""
        lines, cursor, scanned = [], None, 0
        while True:
            query = "&".join("%s=%s" % kv for kv in dict(params, **({"cursor": cursor} if cursor else {})).items())
            status, data, head = (server or self.server).api("GET", EXPORT + "?" + query, token=token)
            self.assertEqual((status, head["content-type"]), (200, "application/x-ndjson"), data)
            self.assertLessEqual(data.count(b"\n"), int(params.get("limit", 50)))
            lines += data.splitlines()
            self.scanned = scanned = scanned + int(head["dlq-scanned"])
            cursor = head.get("dlq-next")
            if not cursor:
                return lines

    def import_lines(self, lines, query="", token=None, server=None):
        data = lines if isinstance(lines, bytes) else b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
        return (server or self.server).ok("POST", IMPORT + query, data, token=token)

    def mixed(self):
        """Dead letters of every kind, one of them edited and dead again."""
        ids = self.kill(
            {"id": "json", "key": "k1", "body": {"a": 1.5, "t": "caf\u00e9"}, "headers": {"tenant": "acme", "n": "\u2603"}, "content_type": "application/json"},
            {"id": "raw", "body": b"\x00\xff\xfe" + bytes(range(256))}, {"id": "empty", "body": ""}, {"id": "text", "body": 'quotes " and \\ and\nlines'},
            {"id": "edited", "body": {"v": 1}, "headers": {"h": "1"}, "error": {"type": "E", "message": "m", "detail": "d" * 500, "http_status": 503, "exit_code": 3}})
        self.server.ok("POST", "/v1/dead-letters/%s/redrive" % ids["edited"], {"reason": "x", "edit": {"jq": ".v = 2", "set_headers": {"h": "2"}}})
        self.fail_again(1, message="again")
        return ids


class Export(TransferCase):
    def test_a_full_record_a_line(self):
        ids = self.mixed()
        lines = self.export(queue=self.q)
        docs = {d["id"]: d for d in map(json.loads, lines)}
        self.assertEqual(set(docs), set(ids))
        self.assertEqual(self.scanned, 5)
        for name, d in docs.items():
            shown = self.show(ids[name])
            for key in shown:
                if key != "expires_at": # made of a clock at each look
                    self.assertEqual(d.get(key), shown[key], (name, key))
        self.assertEqual(json.loads(docs["json"]["body"]), {"a": 1.5, "t": "caf\u00e9"})
        self.assertEqual(base64.b64decode(docs["raw"]["body_base64"]), b"\x00\xff\xfe" + bytes(range(256)))
        self.assertNotIn("edited_body", docs["json"])
        e = docs["edited"]
        self.assertEqual((json.loads(e["body"]), json.loads(e["edited_body"])), ({"v": 1}, {"v": 2}))
        self.assertEqual((e["headers"], e["original_headers"]), ({"h": "2"}, {"h": "1"}))
        self.assertEqual([h["error"]["message"] for h in e["history"]], ["m", "again"])
        self.assertEqual((e["history"][0]["error"]["http_status"], e["history"][0]["error"]["exit_code"]), (503, 3))

    def test_pages_and_filters(self):
        n = 230
        self.kill(*({"id": "p%d" % i, "body": {"n": i}, "headers": {"odd": str(i % 2)}} for i in range(n)))
        ids = [json.loads(line)["id"] for line in self.export(queue=self.q, limit=50)]
        self.assertEqual((len(ids), len(set(ids))), (n, n))
        self.assertEqual(len(self.export(queue=self.q, header="odd=1", limit=100)), 115)
        self.assertEqual(len(self.export(queue=self.q, where=".body.n%20%3C%2010", limit=3)), 10)
        self.assertEqual(self.export(queue=self.q, state="discarded"), [])
        status, data, head = self.server.api("GET", EXPORT + "?queue=%s&where=.body.n.x" % self.q)
        self.assertEqual((status, data, head["dlq-errors"]), (200, b"", str(n)), "a number has no fields")

    def test_large_bodies_come_in_steps(self):
        n = 60
        for i in range(0, n, 3):
            self.send(self.q, [{"id": "b%d" % k, "body": "x" * 250000} for k in range(i, i + 3)])
        got = []
        wait_until(lambda: got.extend(self.server.receive(self.q, max=1000)) or len(got) >= n)
        self.settle_all(got, lambda d: {"outcome": "permanent"})
        ids = [json.loads(line)["id"] for line in self.export(queue=self.q, limit=1000)]
        self.assertEqual((len(ids), len(set(ids))), (n, n))

    def test_rights(self):
        self.kill({"id": "m"})
        mine = self.token("viewer", queues=[self.q])
        self.assertEqual(len(self.export(queue=self.q, token=mine)), 1)
        self.problem(403, "forbidden", "GET", EXPORT, token=mine)
        self.problem(403, "forbidden", "GET", EXPORT + "?queue=other", token=mine)
        self.problem(401, "unauthenticated", "GET", EXPORT, token="x")
        self.assertEqual(self.server.api("DELETE", EXPORT)[0], 405)


class Import(TransferCase):
    def same(self, a, b):
        """Two records that are the same dead letter, apart from where it is."""
        self.assertEqual({k: v for k, v in a.items() if k not in PLACE}, {k: v for k, v in b.items() if k not in PLACE})

    def test_another_server_loses_nothing(self):
        ids = self.mixed()
        lines = self.export(queue=self.q)
        with Server(config=CONFIG) as other:
            doc = self.import_lines(lines, server=other)
            self.assertEqual((doc["imported"], {r["error"]["code"] for r in doc["results"]}), (0, {"not_found"}), "the queue must be there")
            other.put_queue(self.q, policy={"max_attempts": 1})
            doc = self.import_lines(lines, query="?reason=moved", server=other)
            self.assertEqual((doc["imported"], [r["queue"] for r in doc["results"]]), (5, [self.q] * 5), doc)
            again = self.import_lines(lines, server=other)
            self.assertEqual((again["imported"], [r.get("exists") for r in again["results"]]), (0, [True] * 5), again)
            self.assertEqual([r["dlq_id"] for r in again["results"]], [r["dlq_id"] for r in doc["results"]])
            there = {d["id"]: d for d in map(json.loads, self.export(queue=self.q, server=other))}
            for line in lines:
                d = json.loads(line)
                self.same(d, there[d["id"]])
                self.assertEqual(there[d["id"]]["imported_id"], d["dlq_id"])
                status, found, _ = other.api("GET", "/v1/dead-letters/" + d["dlq_id"])
                self.assertEqual((status, found["id"]), (200, d["id"]), "the old dlq_id finds it")
            self.assertEqual((other.counts(self.q)["dead"], other.totals(self.q)["imported"]), (5, 5))
            groups = [(g["group"], g["error_type"], g["dead"]) for g in other.ok("GET", "/v1/groups?queue=" + self.q)["items"]]
            here = [(g["group"], g["error_type"], g["dead"]) for g in self.server.ok("GET", "/v1/groups?queue=" + self.q)["items"] if g["dead"]]
            self.assertEqual(sorted(groups), sorted(here), "the same groups")
            rows = [r for r in other.ok("GET", "/v1/audit")["items"] if r.get("reason") == "moved"]
            self.assertTrue(rows)
            # What came in works like any other.
            other.ok("POST", "/v1/redrives", {"queue": self.q, "reason": "go on"})
            wait_until(lambda: other.counts(self.q)["ready"] == 5)
            got = {d["id"]: d for d in other.receive(self.q, max=10)}
            self.assertEqual(json.loads(got["edited"]["body"]), {"v": 2})
            self.assertEqual(got["edited"]["headers"], {"h": "2"})
            self.assertEqual(base64.b64decode(got["raw"]["body_base64"])[:3], b"\x00\xff\xfe")

    def test_into_a_named_queue(self):
        ids = self.kill({"id": "m"}, {"id": "n"})
        to = self.queue()
        doc = self.import_lines(self.export(queue=self.q), query="?queue=" + to)
        self.assertEqual(doc["imported"], 0, "they are here already")
        self.assertEqual([r.get("exists") for r in doc["results"]], [True, True])
        records = [dict(json.loads(line), dlq_id=NO_ID[:-1] + "ABCDEFGH"[i], id="other%d" % i) for i, line in enumerate(self.export(queue=self.q))]
        doc = self.import_lines(records, query="?queue=" + to)
        self.assertEqual((doc["imported"], [r["queue"] for r in doc["results"]]), (2, [to, to]))
        self.assertEqual(sorted(self.found(queue=to)), ["other0", "other1"])
        self.assertNotIn(doc["results"][0]["dlq_id"], ids.values())

    def test_line_by_line(self):
        self.kill({"id": "m"})
        (line,) = self.export(queue=self.q)
        good = json.loads(line)
        def record(**more):
            return json.dumps(dict(good, **more)).encode()
        fresh = NO_ID[:-1]
        lines = [b"", record(dlq_id=fresh + "1", id="i1"), b"{", b"  ", b'{"queue": "%s", }' % self.q.encode(), b"[1]", b'"x"', record(dlq_id=fresh + "2", id="i2"),
                 b'{"queue": "a", "queue": "%s"}' % self.q.encode(), record(queue="no-such-queue", dlq_id=fresh + "3", id="i3"), record(dlq_id=5),
                 record(id=""), record(died_at="yesterday"), record(history="x"), record(body_base64="!"), b'\xff', b'{}', record(unknown_of_a_newer_dlq={"a": [1]})]
        status, doc, _ = self.server.api("POST", IMPORT, b"\n".join(lines))
        self.assertEqual(status, 200, doc)
        results = doc["results"]
        self.assertEqual(len(results), len([x for x in lines if x.strip()]))
        self.assertEqual(doc["imported"], 2, results)
        self.assertEqual([bool("error" in r) for r in results], [False, True, True, True, True, False] + [True] * 9 + [False])
        errors = {r["error"]["line"]: r["error"] for r in results if "error" in r}
        self.assertEqual(sorted(errors), [3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17])
        self.assertEqual((errors[3]["code"], errors[3]["column"]), ("invalid_json", 2))
        self.assertEqual((errors[5]["code"], errors[5]["column"]), ("invalid_json", 15 + len(self.q)))
        self.assertEqual((errors[9]["code"], errors[16]["code"]), ("invalid_json", "invalid_json"))
        self.assertEqual(errors[10]["code"], "not_found")
        self.assertIn("no-such-queue", errors[10]["detail"])
        for n in (11, 12, 13, 14, 15, 17):
            self.assertEqual(errors[n]["code"], "bad_request", errors[n])
        self.assertIn("dlq_id", errors[11]["detail"])
        self.assertIn("history", errors[14]["detail"])
        self.assertTrue(results[-1]["exists"], "a record of a newer dlq is read")
        self.assertEqual(sorted(self.found(queue=self.q)), ["i1", "i2", "m"])

    def test_limits(self):
        self.problem(400, "bad_request", "POST", IMPORT, b"", text="empty")
        self.problem(400, "bad_request", "POST", IMPORT, b"\n \n", text="empty")
        self.assertEqual(self.problem(413, "too_large", "POST", IMPORT, b"{}\n" * 1001)["limit"], 1000)
        self.assertEqual(self.problem(413, "too_large", "POST", IMPORT, b" " * (1 << 20) + b"{}")["limit"], 1 << 20)
        doc = self.import_lines(b"{}\n" * 1000)
        self.assertEqual((doc["imported"], len(doc["results"])), (0, 1000))
        self.assertIn("error", self.import_lines(b"[" * 1000 + b"]" * 1000)["results"][0])
        (deep,) = self.import_lines(b'{"queue": "x", "deep": ' + b"[" * 1000 + b"]" * 1000 + b"}")["results"]
        self.assertEqual(deep["error"]["code"], "invalid_json")
        for query, code in (("?queue=a%20b", "invalid_name"), ("?reason=%20", "bad_request"), ("?reason=" + "x" * 1001, "bad_request"),
                            ("?to=x", "bad_request"), ("?queue=a&queue=b", "bad_request")):
            self.problem(400, code, "POST", IMPORT + query, b"{}")

    def test_rights(self):
        self.kill({"id": "m"})
        (line,) = self.export(queue=self.q)
        other = self.queue()
        lines = [dict(json.loads(line), dlq_id=NO_ID[:-1] + c, id="r" + c, queue=q) for c, q in (("W", self.q), ("X", other), ("Y", "nowhere"), ("Z", self.q))]
        mine = self.token(queues=[self.q])
        self.problem(403, "forbidden", "POST", IMPORT, line, token=self.token("viewer"))
        self.problem(403, "forbidden", "POST", IMPORT + "?queue=" + other, line, token=mine)
        doc = self.import_lines(lines, token=mine)
        self.assertEqual(doc["imported"], 2)
        self.assertEqual([r.get("error", {}).get("code") for r in doc["results"]], [None, "forbidden", "forbidden", None])
        self.assertEqual(doc["results"][1]["error"]["line"], 2)
        self.assertEqual(self.found(queue=other), [])
        self.assertEqual(sorted(self.found(queue=self.q)), ["m", "rW", "rZ"])
        self.assertTrue(self.audit(action="refused", target="POST " + IMPORT, queue=other))
        doc = self.import_lines([lines[1]], query="?queue=" + self.q, token=mine)
        self.assertEqual((doc["imported"], doc["results"][0]["queue"]), (1, self.q), "with ?queue= it goes there whatever its own was")

    def test_from_the_archive(self):
        q = self.queue(policy={"max_attempts": 1, "retention": "1s"})
        ids = self.kill({"id": "gone", "body": {"a": 1}, "headers": {"h": "1"}}, queue=q)
        wait_until(lambda: self.server.api("GET", "/v1/dead-letters/" + ids["gone"])[0] == 404, what="the end of retention")
        record = self.server.ok("GET", "/v1/archive/" + ids["gone"])
        self.assertEqual((record["dlq_id"], record["id"], record["body"]), (ids["gone"], "gone", '{"a": 1}'))
        self.server.put_queue(q, policy={"max_attempts": 1})
        doc = self.import_lines([record])
        self.assertEqual(doc["results"], [{"dlq_id": ids["gone"], "queue": q}], "it gets its own dlq_id again")
        back = self.show(ids["gone"])
        self.assertEqual((back["state"], back["headers"], len(back["history"])), ("dead", {"h": "1"}, 1))
        self.assertNotIn("imported_id", back)
        self.assertEqual(self.body(ids["gone"]), b'{"a": 1}')


if __name__ == "__main__":
    unittest.main()
