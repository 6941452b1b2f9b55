"""The HTTP API of docs/api.md against a real server: what it answers, and what it refuses and how."""
import base64
import json
import os
import re
import socket
import threading
import unittest

from dlqtest import SLOW, SOURCE, Server, wait_until

CONFIG = """
limits:
  max_message_bytes: 64KiB
  max_batch_bytes: 1MiB
  max_header_bytes: 8KiB
  max_headers: 32
"""
server = None


def setUpModule():
    global server
    server = Server(config=CONFIG)


def tearDownModule():
    server.stop()


class Case(unittest.TestCase):
    queues = 0

    def setUp(self):
        Case.queues += 1
        self.q = "q%d" % Case.queues
        server.put_queue(self.q)

    def tearDown(self):
        # Whatever was done to it: the server still answers.
        self.assertEqual(server.api("GET", "/healthz", token="")[0], 200)

    def problem(self, status, code, method, path, body=None, headers=None, token=None):
        got, doc, head = server.api(method, path, body, headers, token)
        self.assertEqual((got, doc.get("code") if isinstance(doc, dict) else doc), (status, code), doc)
        self.assertEqual(head["content-type"], "application/problem+json")
        self.assertEqual(head["x-content-type-options"], "nosniff")
        for key in ("type", "title", "status", "detail"):
            self.assertIn(key, doc)
        return doc, head

    def post(self, what, body, **kw):
        return server.api("POST", "/v1/queues/%s/%s" % (self.q, what), body, **kw)

    def raw(self, data, timeout=30):
        """Sends bytes as they are; returns all that comes until the server closes."""
        s = socket.create_connection(("127.0.0.1", server.port), timeout * SLOW)
        with s:
            try:
                s.sendall(data)
            except OSError:
                pass  # the answer may come before everything is sent
            s.settimeout(timeout * SLOW)
            out = b""
            while True:
                try:
                    part = s.recv(65536)
                except ConnectionResetError:
                    break
                if not part:
                    break
                out += part
            return out

    def kill_one(self, body=b"x", **headers):
        """Makes one dead letter; its dlq_id."""
        server.send(self.q, body, **headers)
        d = server.receive(self.q)[0]
        r = server.settle(self.q, d["receipt"], "permanent", error={"type": "Bad", "message": "no"})
        self.assertEqual(r["result"], "dead")
        return r["dlq_id"]


class Messages(Case):
    def test_send_receive_settle(self):
        status, doc, head = self.post("messages", b"hello", headers={
            "Content-Type": "text/plain", "Dlq-Key": "k1", "Dlq-Header-Trace": "t1", "Dlq-Header-a": "b"})
        self.assertEqual(status, 201)
        self.assertEqual(head["content-type"], "application/json")
        self.assertRegex(doc["id"], "^[0-9A-Z]{26}$")
        d = server.receive(self.q, worker="w1")[0]
        self.assertEqual((d["id"], d["body"], d["content_type"], d["key"]), (doc["id"], "hello", "text/plain", "k1"))
        self.assertEqual(d["headers"], {"a": "b", "trace": "t1"})
        self.assertEqual((d["attempts"], d["redrives"]), (0, 0))
        self.assertRegex(d["lease_until"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(server.settle(self.q, d["receipt"]), {"result": "done"})
        self.assertEqual(server.settle(self.q, d["receipt"]), {"result": "gone"})

    def test_duplicate(self):
        self.assertEqual(self.post("messages", b"1", headers={"Dlq-Id": "ev-1"})[0], 201)
        status, doc, _ = self.post("messages", b"1", headers={"Dlq-Id": "ev-1"})
        self.assertEqual((status, doc), (200, {"id": "ev-1", "duplicate": True}))
        self.assertEqual(server.counts(self.q)["ready"], 1)

    def test_control_characters(self):
        path = "/v1/queues/%s/messages" % self.q
        for name, what in (("Dlq-Key", "Dlq-Key"), ("Content-Type", "Content-Type"), ("Dlq-Header-Trace", "header's value")):
            doc, _ = self.problem(400, "bad_request", "POST", path, b"x", {name: "a\tb"})
            self.assertIn(what, doc["detail"])
            self.assertIn("control characters", doc["detail"])
        lines = [{"body": "good", "key": "k \u00e9", "content_type": "text/plain; a=b", "headers": {"h": "v \u2603"}}]
        for bad in ("a\nb", "\t", "\x1f", "a\x7f", "\r\nX: y"):
            lines += [{"body": "bad", "key": bad}, {"body": "bad", "content_type": bad}, {"body": "bad", "headers": {"h": bad}}]
        status, doc, _ = self.post("batch", "\n".join(json.dumps(line) for line in lines))
        self.assertEqual(status, 200)
        self.assertIn("id", doc["results"][0])
        for i, result in enumerate(doc["results"][1:]):
            self.assertEqual((result["error"]["code"], result["error"]["line"]), ("bad_request", i + 2), result)
            self.assertIn("control characters", result["error"]["detail"])
            self.assertIn((": key: ", ": content_type: ", ": headers: ")[i % 3], result["error"]["detail"])
        self.assertEqual([d["key"] for d in server.receive(self.q, max=100)], ["k \u00e9"])

    def test_bodies_byte_for_byte(self):
        for body in (b"", b"\x00", b"a\x00b", b"\xff\xfe\xc3", bytes(range(256)) * 200, "h\u00e9\u2603".encode(), b'"\\\n'):
            server.send(self.q, body)
            d = server.receive(self.q)[0]
            got = d["body"].encode() if "body" in d else base64.b64decode(d["body_base64"], validate=True)
            self.assertEqual(got, body)
            server.settle(self.q, d["receipt"])

    def test_body_at_the_limit_and_past_it(self):
        self.assertEqual(self.post("messages", b"x" * 65536)[0], 201)
        doc, _ = self.problem(413, "too_large", "POST", "/v1/queues/%s/messages" % self.q, b"x" * 65537)
        self.assertEqual(doc["limit"], 65536)
        doc, _ = self.problem(413, "too_large", "POST", "/v1/queues/%s/messages" % self.q, b"x" * 3000000)
        self.assertEqual(doc["limit"], 65536)

    def test_chunked(self):
        head = ("POST /v1/queues/%s/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n"
                "Connection: close\r\n\r\n" % (self.q, server.token)).encode()
        self.assertIn(b" 201 ", self.raw(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
        self.assertEqual(server.receive(self.q)[0]["body"], "abcde")
        chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        answer = self.raw(head + chunk * 5 + b"0\r\n\r\n")
        self.assertIn(b" 413 ", answer)
        self.assertIn(b'"limit":65536', answer)
        self.assertIn(b" 413 ", self.raw(head + chunk * 100))
        self.assertIn(b" 400 ", self.raw(head + b"zz\r\nabc\r\n"))

    def test_where_a_request_ends_is_never_in_doubt(self):
        line = "POST /v1/queues/%s/messages HTTP/1.%d\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n"
        chunks, next_one = b"3\r\nabc\r\n0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for minor, header, body in ((1, "Content-Length : 3", b"abc"), (1, "Transfer-Encoding : chunked", chunks),
                                    (1, "Transfer-Encoding: gzip, chunked", chunks), (0, "Transfer-Encoding: chunked", chunks),
                                    (1, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", chunks),
                                    (1, "Transfer-Encoding: chunked", b"3\r\nabcXX0\r\n\r\n"),
                                    (1, "Transfer-Encoding: chunked", b"3\r\nabc\rX0\r\n\r\n")):
            answer = self.raw((line % (self.q, minor, server.token, header)).encode() + body + next_one)
            self.assertRegex(answer, rb"^HTTP/1.1 400 ", header)
            self.assertEqual(len(re.findall(rb"HTTP/1.1 \d", answer)), 1, header)
        self.assertEqual(server.counts(self.q)["ready"], 0)
        with socket.create_connection(("127.0.0.1", server.port), 20 * SLOW) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in (line % (self.q, 1, server.token, "Transfer-Encoding: Chunked")).encode() + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n":
                s.send(bytes([byte]))
            self.assertIn(b" 201 ", s.recv(1000))
        self.assertEqual(server.receive(self.q)[0]["body"], "abc")

    def test_expect_continue(self):
        head = ("POST /v1/queues/%s/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 5\r\n"
                "Expect: 100-continue\r\nConnection: close\r\n\r\n" % (self.q, server.token)).encode()
        with socket.create_connection(("127.0.0.1", server.port), 20 * SLOW) as s:
            s.sendall(head)
            self.assertEqual(s.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(b"hello")
            self.assertIn(b" 201 ", s.recv(1000))
        refused = head.replace(b"Content-Length: 5", b"Content-Length: 99999999")
        self.assertTrue(self.raw(refused).startswith(b"HTTP/1.1 413 "))

        for line in (b"Expect: 200-ok", b"Expect: 100-continue\r\nExpect: more", b"Expect:"):
            answer = self.raw(head.replace(b"Expect: 100-continue", line) + b"hello")
            self.assertRegex(answer, rb"^HTTP/1.1 417 Expectation Failed\r\n", line)
            self.assertIn(b'"code":"expectation_failed"', answer)
        old = head.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"100-continue", b"200-ok")
        self.assertIn(b" 201 ", self.raw(old + b"hello"), "HTTP/1.0 knows no Expect")

    def test_one_host(self):
        get = b"GET /healthz HTTP/1.1\r\n%sConnection: close\r\n\r\n"
        for hosts, what in ((b"", b"missing"), (b"Host: a\r\nHost: a\r\n", b"twice"), (b"Host: a\r\nhost: b\r\n", b"twice"),
                            (b"Host: a b\r\n", b"HOST:PORT"), (b"Host: a/b\r\n", b"HOST:PORT"), (b"Host: me@a\r\n", b"HOST:PORT")):
            answer = self.raw(get % hosts)
            self.assertRegex(answer, rb"^HTTP/1.1 400 ", hosts)
            self.assertIn(what, answer)
        self.assertRegex(self.raw((get % b"Host: a\r\nHost: b\r\n").replace(b"1.1", b"1.0")), rb"^HTTP/1.1 400 ")
        for hosts in (b"Host:\r\n", b"Host: [::1]:80\r\n", b"HOST: a-b.c_d:8\r\n"):
            self.assertRegex(self.raw(get % hosts), rb"^HTTP/1.1 200 ", hosts)
        self.assertRegex(self.raw((get % b"").replace(b"1.1", b"1.0")), rb"^HTTP/1.1 200 ", "HTTP/1.0 has no Host")

    def test_pipelined(self):
        one = ("POST /v1/queues/%s/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1\r\n\r\n"
               % (self.q, server.token)).encode()
        last = one.replace(b"Host: x", b"Host: x\r\nConnection: close")
        answer = self.raw(b"".join(one + b"%d" % i for i in range(9)) + last + b"9")
        self.assertEqual(answer.count(b"HTTP/1.1 201 "), 10)
        self.assertEqual([d["body"] for d in server.receive(self.q, max=10)], list("0123456789"))

    def test_headers_past_the_limits(self):
        path = "/v1/queues/" + self.q
        doc, _ = self.problem(431, "headers_too_large", "GET", path, headers={"X-Big": "x" * 9000})
        self.assertEqual(doc["limit"], 8192)
        doc, _ = self.problem(431, "headers_too_large", "GET", path, headers={"X-Big": "x" * 60000})
        doc, _ = self.problem(431, "headers_too_large", "GET", path, headers={"X-%d" % i: "1" for i in range(40)})
        self.assertEqual(doc["limit"], 32)
        self.problem(431, "headers_too_large", "GET", "/v1/queues/" + "a" * 20000)

    def test_bad_message_headers(self):
        path = "/v1/queues/%s/messages" % self.q
        for headers in ({"Dlq-Delay": "5 parsecs"}, {"Dlq-Ttl": "0s"}, {"Dlq-Id": "with space"}, {"Dlq-Id": "x" * 129},
                        {"Dlq-Key": "k" * 600}, {"Dlq-Nonsense": "1"}, {"Dlq-Header-a(b": "1"}):
            try:
                self.problem(400, "bad_request", "POST", path, b"x", headers)
            except AssertionError as e:
                raise AssertionError("%r: %s" % (headers, e))
        self.assertEqual(server.counts(self.q)["ready"], 0)

    def test_batch(self):
        lines = ['{"body": "a"}', "", '{"body_base64": "AAEC", "id": "b1", "key": "k", "headers": {"h": "1"}, "content_type": "x/y"}',
                 '{"bdy": "c"}', '{"body": "d"', '{"body_base64": "!"}', '{"body": "%s"}' % ("x" * 65537), '{"body": "e"}']
        status, doc, _ = self.post("batch", "\n".join(lines))
        self.assertEqual(status, 200)
        r = doc["results"]
        self.assertEqual(len(r), 7)
        self.assertEqual([("id" in x) for x in r], [True, True, False, False, False, False, True])
        self.assertEqual(r[1]["id"], "b1")
        self.assertEqual([x["error"]["line"] for x in r[2:6]], [4, 5, 6, 7])
        self.assertIn('did you mean "body"', r[2]["error"]["detail"])
        self.assertEqual(r[3]["error"]["code"], "invalid_json")
        self.assertEqual(r[3]["error"]["column"], 13)
        self.assertEqual(r[5]["error"]["code"], "too_large")
        got = server.receive(self.q, max=10)
        self.assertEqual([d.get("body", d.get("body_base64")) for d in got], ["a", "AAEC", "e"])
        self.assertEqual(self.post("batch", '{"body":"1"}\n{"body":"2"}\n')[0], 201)
        status, doc, _ = self.post("batch", "nonsense\n")
        self.assertEqual((status, doc["results"][0]["error"]["line"]), (400, 1))
        self.problem(400, "bad_request", "POST", "/v1/queues/%s/batch" % self.q, "\n\n")
        doc, _ = self.problem(413, "too_large", "POST", "/v1/queues/%s/batch" % self.q, '{"body":""}\n' * 1001)
        self.assertEqual(doc["limit"], 1000)
        self.assertEqual(self.post("batch", '{"body":""}\n' * 1000)[0], 201)

    def test_invalid_json(self):
        path = "/v1/queues/%s/receive" % self.q
        for body, line, column in (('{"max": }', 1, 9), ('{\n  "max": 1,\n  "wait" "0s"\n}', 3, 10), ('{"max":1} x', 1, 11),
                                   ('{"max":1,"max":2}', 1, 10), ('["max"]', None, None), ('{"worker": "\u00e9\u00e9", "max": 01}', 1, 25),
                                   ('{' * 100, None, None), ('{"worker":"\\ud800"}', None, None)):
            status, doc, _ = server.api("POST", path, body)
            self.assertEqual(status, 400, body)
            self.assertIn(doc["code"], ("invalid_json", "bad_request"))
            self.assertIn("line", doc)
            if line:
                self.assertEqual((doc["line"], doc["column"]), (line, column), (body, doc))
        doc, _ = self.problem(400, "invalid_json", "POST", path, b'{"worker": "\xff"}')
        self.assertIn("UTF-8", doc["detail"])

    def test_receive_input(self):
        path = "/v1/queues/%s/receive" % self.q
        for body in ({"max": 0}, {"max": 1001}, {"max": "1"}, {"max": 1.5}, {"wait": "61s"}, {"wait": 5}, {"wait": "5 parsecs"},
                     {"visibility_timeout": "0s"}, {"visibility_timeout": "13h"}, {"worker": "w" * 200}, {"mx": 1}):
            doc, _ = self.problem(400, "bad_request", "POST", path, body)
        self.assertIn('"max"', doc["detail"])
        self.assertEqual(self.post("receive", b"")[1], {"deliveries": []})
        self.problem(404, "not_found", "POST", "/v1/queues/nosuch/receive", {})

    def test_settle_input(self):
        path = "/v1/queues/%s/settle" % self.q
        for body in ({}, {"results": []}, {"results": [{}]}, {"results": [{"receipt": "x"}]}, {"results": [{"receipt": "x", "outcome": "great"}]},
                     {"results": [{"receipt": "x", "outcome": "lease_expired"}]}, {"results": {}},
                     {"results": [{"receipt": "x", "outcome": "ok", "error": {"http_status": 5}}]}):
            self.problem(400, "bad_request", "POST", path, body)
        self.problem(413, "too_large", "POST", path, {"results": [{"receipt": "x", "outcome": "ok"}] * 1001})
        self.assertEqual(server.settle(self.q, "nonsense"), {"result": "gone"})
        self.assertEqual(server.settle(self.q, "A" * 44), {"result": "gone"})
        other = self.q + "-other"
        server.put_queue(other)
        server.send(other, b"x")
        receipt = server.receive(other)[0]["receipt"]
        self.assertEqual(server.settle(self.q, receipt), {"result": "gone"}, "a receipt of another queue")
        self.assertEqual(server.settle(other, receipt), {"result": "done"})

    def test_settle_outcomes(self):
        for i in range(4):
            server.send(self.q, b"%d" % i)
        d = server.receive(self.q, max=4)
        outcomes = ["ok", "transient", "permanent", "release"]
        r = server.ok("POST", "/v1/queues/%s/settle" % self.q, {"results": [
            {"receipt": x["receipt"], "outcome": o, "error": {"type": "T", "message": "m", "detail": "d", "http_status": 500}}
            for x, o in zip(d, outcomes)]})["results"]
        self.assertEqual([x["result"] for x in r], ["done", "retry", "dead", "released"])
        self.assertEqual(r[1]["attempts"], 1)
        self.assertEqual((r[2]["reason"], r[2]["attempts"]), ("permanent", 1))

    def test_expired_receipt(self):
        server.send(self.q, b"x")
        receipt = server.receive(self.q, visibility_timeout="1s")[0]["receipt"]
        wait_until(lambda: server.counts(self.q)["leased"] == 0)
        self.assertEqual(server.settle(self.q, receipt), {"result": "gone"})
        self.problem(410, "gone", "POST", "/v1/queues/%s/extend" % self.q, {"receipt": receipt})

    def test_extend(self):
        server.send(self.q, b"x")
        d = server.receive(self.q)[0]
        doc = server.ok("POST", "/v1/queues/%s/extend" % self.q, {"receipt": d["receipt"], "visibility_timeout": "10m"})
        self.assertGreater(doc["lease_until"], d["lease_until"])
        self.problem(400, "bad_request", "POST", "/v1/queues/%s/extend" % self.q, {})

    def test_long_poll_is_woken(self):
        got = []
        t = threading.Thread(target=lambda: got.extend(server.receive(self.q, wait="30s")))
        t.start()
        wait_until(lambda: server.ok("GET", "/v1/stats")["parked_receives"] >= 1)
        server.send(self.q, b"now")
        t.join(20 * SLOW)
        self.assertEqual([d["body"] for d in got], ["now"])

    def test_long_poll_whose_client_left(self):
        body = b'{"wait":"50s"}'
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(b"POST /v1/queues/%s/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                      % (self.q.encode(), server.token.encode(), len(body), body))
            wait_until(lambda: server.ok("GET", "/v1/stats")["parked_receives"] >= 1)
        wait_until(lambda: server.ok("GET", "/v1/stats")["parked_receives"] == 0)
        server.send(self.q, b"x")
        self.assertEqual(len(server.receive(self.q)), 1, "nobody else has it")


class Queues(Case):
    def test_names(self):
        for name in ("a%20b", "..", ".hidden", "-x", "a" * 300, "%00", "%ff", "a%2Fb", "%C3%A9"):
            doc, _ = self.problem(400, "invalid_name", "GET", "/v1/queues/" + name)
            self.assertEqual(doc["detail"].count("1 to 128 characters out of"), 1, "the rule, once")
            self.problem(400, "invalid_name", "POST", "/v1/queues/%s/messages" % name, b"x")
        for path in ("/v1/queues/", "/v1/queues//messages", "/v1/queues//", "/v1/queues/?limit=1"):
            doc, _ = self.problem(400, "invalid_name", "GET", path)
            self.assertIn("1 to 128 characters out of", doc["detail"])
        self.problem(404, "not_found", "GET", "/v1/queues/a/b")
        self.problem(400, "bad_request", "GET", "/v1/queues/a%2")
        self.problem(404, "not_found", "GET", "/v1/queues/nosuch")

    def test_put_input(self):
        path = "/v1/queues/" + self.q
        for settings, word in (({"policy": {"max_attempts": 0}}, "max_attempts"), ({"policy": {"max_attempts": "unlimited"}}, "max_attempts"),
                               ({"policy": {"max_attempts": -1}}, "max_attempts"), ({"policy": {"backoff": []}}, "backoff"),
                               ({"policy": {"visibility_timeout": "5 parsecs"}}, "visibility_timeout"), ({"polcy": {}}, "policy")):
            doc, _ = self.problem(400, "invalid_setting", "PUT", path, settings)
            self.assertIn(word, doc["detail"])
        doc, _ = self.problem(400, "invalid_json", "PUT", path, '{"policy": {]}')
        self.assertEqual((doc["line"], doc["column"]), (1, 13))

    def test_life(self):
        path = "/v1/queues/%s-x" % self.q
        self.assertEqual(server.api("PUT", path, {})[0], 201)
        status, doc, _ = server.api("PUT", path, {"policy": {"max_attempts": 7}})
        self.assertEqual((status, doc["config"]["policy"]["max_attempts"]), (200, 7))
        self.problem(409, "conflict", "PUT", path, {"ordered": True})
        self.assertTrue(server.ok("POST", path + "/pause")["paused"])
        server.send(self.q + "-x", b"x")
        self.assertEqual(server.receive(self.q + "-x"), [])
        self.assertFalse(server.ok("POST", path + "/resume", {})["paused"])
        self.problem(409, "conflict", "DELETE", path)
        d = server.receive(self.q + "-x")[0]
        server.settle(self.q + "-x", d["receipt"])
        status, doc, _ = server.api("DELETE", path)
        self.assertEqual((status, doc), (204, b""))
        self.problem(404, "not_found", "DELETE", path)

    def test_full(self):
        server.put_queue(self.q, max_messages=1)
        server.send(self.q, b"1")
        doc, head = self.problem(429, "queue_full", "POST", "/v1/queues/%s/messages" % self.q, b"2")
        self.assertIn("retry-after", head)

    def test_pages(self):
        names, cursor = [], ""
        while cursor is not None:
            page = server.ok("GET", "/v1/queues?limit=1" + ("&cursor=" + cursor if cursor else ""))
            names += [q["name"] for q in page["items"]]
            cursor = page["next"]
        self.assertEqual(names, sorted(set(names)))
        self.assertIn(self.q, names)
        for bad in ("limit=0", "limit=1001", "limit=x", "limit=", "cursor=x", "cursor=", "cursor=%21", "limt=1", "limit=1&limit=2", "a=%zz"):
            self.problem(400, "bad_request", "GET", "/v1/queues?" + bad)
        dead_cursor = base64.urlsafe_b64encode(b"1d5").decode().rstrip("=")
        self.problem(400, "bad_request", "GET", "/v1/queues?cursor=" + dead_cursor)


class DeadLetters(Case):
    def test_list_and_show(self):
        ids = [self.kill_one(b"%d" % i, Dlq_Id="m%d" % i) for i in range(3)]
        page = server.ok("GET", "/v1/dead-letters?queue=%s&limit=2" % self.q)
        self.assertEqual([d["dlq_id"] for d in page["items"]], [ids[2], ids[1]])
        rest = server.ok("GET", "/v1/dead-letters?queue=%s&limit=2&cursor=%s" % (self.q, page["next"]))
        self.assertEqual(([d["dlq_id"] for d in rest["items"]], rest["next"]), ([ids[0]], None))
        self.assertIn("scanned", rest)
        one = server.ok("GET", "/v1/dead-letters/" + ids[0])
        self.assertEqual((one["id"], one["queue"], one["reason"], one["error"]), ("m0", self.q, "permanent", {"type": "Bad", "message": "no"}))
        self.assertEqual(len(one["history"]), 1)
        self.assertEqual(one["history"][0]["error"]["type"], "Bad")
        self.assertEqual(server.ok("GET", "/v1/dead-letters/m0")["dlq_id"], ids[0], "found by the message id")
        for query, n in (("error_type=Bad", 3), ("error_type=Good", 0), ("reason=permanent", 3), ("reason=expired", 0), ("id=m1", 1),
                         ("state=any", 3), ("state=discarded", 0), ("to=2001-01-01T00:00:00Z", 0), ("from=2001-01-01T00:00:00Z", 3)):
            self.assertEqual(len(server.dead(self.q, **dict([query.split("=")]))), n, query)
        for bad in ("state=gone", "reason=x", "from=yesterday", "queue=a%20b", "key=k", "staet=dead"):
            self.assertEqual(server.api("GET", "/v1/dead-letters?" + bad)[0], 400, bad)
        self.problem(404, "not_found", "GET", "/v1/dead-letters/01ARZ3NDEKTSV4RRFFQ69G5FAV")

    def test_body(self):
        dlq_id = self.kill_one(b"\x00\xff", Content_Type="image/x")
        status, body, head = server.api("GET", "/v1/dead-letters/%s/body" % dlq_id)
        self.assertEqual((status, body, head["content-type"]), (200, b"\x00\xff", "image/x"))
        self.problem(400, "bad_request", "GET", "/v1/dead-letters/%s/body?original=maybe" % dlq_id)

    def test_redrive_one_edited(self):
        dlq_id = self.kill_one(b"old")
        path = "/v1/dead-letters/%s/redrive" % dlq_id
        self.problem(400, "bad_request", "POST", path, {})
        self.problem(400, "bad_request", "POST", path, {"reason": "  "})
        self.problem(400, "bad_request", "POST", path, {"reason": "r", "body": "a", "body_base64": "YQ=="})
        status, doc, _ = server.api("POST", path, {"reason": "fixed", "body": "new"})
        self.assertEqual((status, doc["total"], doc["operator"], doc["reason"]), (202, 1, "admin", "fixed"))
        d = wait_until(lambda: server.receive(self.q))[0]
        self.assertEqual((d["body"], d["redrives"], d["attempts"]), ("new", 1, 0))
        self.assertEqual(server.api("POST", path, {"reason": "again"})[0], 409)
        self.assertEqual(server.api("GET", "/v1/dead-letters/%s/body?original=true" % dlq_id)[1], b"old")
        self.assertEqual(server.api("GET", "/v1/dead-letters/%s/body" % dlq_id)[1], b"new")
        server.settle(self.q, d["receipt"])
        self.assertEqual(server.ok("GET", "/v1/dead-letters/" + dlq_id)["state"], "redriven")
        self.problem(404, "not_found", "POST", "/v1/dead-letters/01ARZ3NDEKTSV4RRFFQ69G5FAV/redrive", {"reason": "x"})

    def test_discard(self):
        dlq_id = self.kill_one()
        path = "/v1/dead-letters/%s/discard" % dlq_id
        self.problem(400, "bad_request", "POST", path, {})
        self.assertEqual(server.ok("POST", path, {"reason": "junk"}), {"dlq_id": dlq_id, "state": "discarded"})
        self.problem(409, "conflict", "POST", path, {"reason": "junk"})
        self.assertEqual([d["why"] for d in server.dead(self.q, state="discarded")], ["junk"])

    def test_redrive_queue(self):
        for i in range(5):
            self.kill_one(b"%d" % i)
        status, dry, _ = server.api("POST", "/v1/redrives", {"queue": self.q, "reason": "x", "dry_run": True})
        self.assertEqual((status, dry["total"]), (200, 5))
        for body in ({"reason": "x"}, {"queue": self.q}, {"queue": self.q, "ids": ["a"], "reason": "x"}, {"ids": [], "reason": "x"}):
            self.problem(400, "bad_request", "POST", "/v1/redrives", body)
        self.problem(404, "not_found", "POST", "/v1/redrives", {"queue": "nosuch", "reason": "x"})
        self.problem(404, "not_found", "POST", "/v1/redrives", {"ids": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"], "reason": "x"})
        status, doc, _ = server.api("POST", "/v1/redrives", {"queue": self.q, "reason": "all"})
        self.assertEqual(status, 202)
        path = "/v1/redrives/" + doc["redrive_id"]
        done = wait_until(lambda: (lambda d: d if d["state"] == "done" else None)(server.ok("GET", path)))
        self.assertEqual((done["total"], done["sent"], done["skipped"]), (5, 5, 0))
        self.assertEqual(server.counts(self.q)["ready"], 5)
        self.assertIn(doc["redrive_id"], [r["redrive_id"] for r in server.ok("GET", "/v1/redrives")["items"]])
        self.assertEqual(server.api("POST", path + "/pause")[0], 409)
        self.problem(404, "not_found", "POST", "/v1/redrives/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel")


class Rights(Case):
    def token(self, role, **more):
        Case.queues += 1
        return server.ok("POST", "/v1/tokens", dict(more, name="t%d" % Case.queues, role=role))["token"]

    def refused(self):
        return [r for r in server.ok("GET", "/v1/audit?limit=50")["items"] if r["action"] == "refused"]

    def test_no_and_wrong_token(self):
        path = "/v1/queues/" + self.q
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"},
                        {"Authorization": "Bearer " + "x" * 5000}):
            _, head = self.problem(401, "unauthenticated", "GET", path, headers=headers, token="")
            self.assertEqual(head["www-authenticate"], "Bearer")
        self.problem(401, "unauthenticated", "GET", "/metrics", token="")
        self.problem(404, "not_found", "GET", "/nosuch", token="")

    def test_roles(self):
        viewer, worker = self.token("viewer"), self.token("operator")
        self.assertEqual(server.api("GET", "/v1/queues/" + self.q, token=viewer)[0], 200)

        def row_of_refusal():  # again and again, since only ten a second are recorded
            self.problem(403, "forbidden", "POST", "/v1/queues/%s/messages" % self.q, b"x", token=viewer)
            return [r for r in self.refused() if r["outcome"] == "forbidden" and r.get("queue") == self.q]
        row = wait_until(row_of_refusal)[0]
        self.assertEqual(row["target"], "POST /v1/queues/{queue}/messages")
        self.assertEqual(server.api("POST", "/v1/queues/%s/messages" % self.q, b"x", token=worker)[0], 201)
        self.problem(403, "forbidden", "PUT", "/v1/queues/" + self.q, {}, token=worker)
        self.problem(403, "forbidden", "POST", "/v1/tokens", {"name": "x", "role": "admin"}, token=worker)
        self.assertEqual(server.counts(self.q)["ready"], 1)

    def test_refusals_are_recorded_but_do_not_flood(self):
        before = len(server.ok("GET", "/v1/audit?limit=1000")["items"])
        for _ in range(100):
            self.problem(401, "unauthenticated", "DELETE", "/v1/queues/" + self.q, token="wrong")
        rows = len(server.ok("GET", "/v1/audit?limit=1000")["items"]) - before
        self.assertLess(rows, 100)

        def told():
            self.problem(401, "unauthenticated", "DELETE", "/v1/queues/" + self.q, token="wrong")
            return [r for r in self.refused() if "more that were not recorded" in r.get("detail", "")]
        self.assertRegex(wait_until(told)[0]["detail"], r"and \d+ more")

    def test_queue_limits(self):
        mine = self.token("operator", queues=[self.q, "team-*"])
        other = self.q + "-other"
        server.put_queue(other)
        dlq_id = self.kill_one()
        self.assertEqual(server.api("GET", "/v1/queues/" + self.q, token=mine)[0], 200)
        self.problem(403, "forbidden", "GET", "/v1/queues/" + other, token=mine)
        self.problem(403, "forbidden", "POST", "/v1/queues/%s/messages" % other, b"x", token=mine)
        self.assertEqual([q["name"] for q in server.ok("GET", "/v1/queues?limit=1000", token=mine)["items"]], [self.q])
        self.problem(403, "forbidden", "GET", "/v1/dead-letters?queue=" + other, token=mine)
        self.assertEqual({d["queue"] for d in server.ok("GET", "/v1/dead-letters?limit=1000", token=mine)["items"]}, {self.q})
        server.put_queue("team-a")
        self.assertEqual(server.api("GET", "/v1/queues/team-a", token=mine)[0], 200)
        theirs = self.token("operator", queues=[other])
        self.problem(403, "forbidden", "GET", "/v1/dead-letters/" + dlq_id, token=theirs)
        self.problem(403, "forbidden", "GET", "/v1/dead-letters/%s/body" % dlq_id, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/dead-letters/%s/discard" % dlq_id, {"reason": "x"}, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"queue": self.q, "reason": "x"}, token=theirs)
        self.problem(403, "forbidden", "POST", "/v1/redrives", {"ids": [dlq_id], "reason": "x"}, token=theirs)
        self.assertEqual(server.counts(self.q)["dead"], 1)
        self.assertNotIn('queue="%s"' % self.q, server.api("GET", "/metrics", token=theirs)[1].decode())

    def test_revoked(self):
        secret = self.token("operator")
        name = "t%d" % Case.queues
        self.assertEqual(server.api("GET", "/v1/queues", token=secret)[0], 200)
        self.assertEqual(server.api("DELETE", "/v1/tokens/" + name)[0], 204)
        self.problem(401, "unauthenticated", "GET", "/v1/queues", token=secret)
        self.problem(404, "not_found", "DELETE", "/v1/tokens/nosuch")
        self.problem(409, "conflict", "POST", "/v1/tokens", {"name": "admin", "role": "viewer"})
        for body in ({}, {"name": "x"}, {"name": "x", "role": "king"}, {"name": "x", "role": "viewer", "queues": []},
                     {"name": "x", "role": "viewer", "expires_in": "5 parsecs"}):
            self.problem(400, "bad_request", "POST", "/v1/tokens", body)


class Rest(Case):
    def test_method_and_head(self):
        _, head = self.problem(405, "method_not_allowed", "PATCH", "/v1/queues/" + self.q)
        self.assertEqual({m.strip() for m in head["allow"].split(",")}, {"GET", "HEAD", "PUT", "DELETE"})
        status, body, head = server.api("HEAD", "/v1/queues/" + self.q)
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(head["content-length"]), 10)
        self.problem(400, "bad_request", "GET", "/v1/queues", b"body")

    def test_openapi(self):
        status, doc, _ = server.api("GET", "/v1/openapi.json")
        self.assertEqual((status, doc["openapi"]), (200, "3.1.0"))
        ids, operations = set(), 0
        for path, item in doc["paths"].items():
            wanted = set(re.findall(r"\{(\w+)\}", path))
            for method, op in item.items():
                operations += 1
                self.assertIn(method, ("get", "put", "post", "delete"))
                self.assertEqual({p["name"] for p in op["parameters"] if p["in"] == "path"}, wanted)
                self.assertTrue(op["summary"] and op["responses"])
                ids.add(op["operationId"])
                # Each is a real route: without a token it is 401, or open.
                status = server.api(method.upper(), re.sub(r"\{\w+\}", "x", path), token="")[0]
                self.assertEqual(status, 401 if op["security"] else 200, (method, path))
        self.assertEqual(len(ids), operations)
        for ref in set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(doc))):
            self.assertIn(ref, doc["components"]["schemas"])
        # Every documented address is there, and no other.
        documented = set()
        with open(os.path.join(SOURCE, "docs/api.md")) as f:
            text = f.read()
        for path in re.findall(r"(?:GET|PUT|POST|DELETE) (/[^\s`?]+)", text):
            documented.add(re.sub(r"\{\w+\}", "{}", re.sub(r"\[.*", "", path)))
        listed = {re.sub(r"\{\w+\}", "{}", p) for p in doc["paths"]}
        self.assertEqual(sorted(documented - listed), [])

    def test_figures(self):
        stats = server.ok("GET", "/v1/stats")
        for key in ("version", "uptime", "ready", "queues", "waiting_operations", "commits", "operations"):
            self.assertIn(key, stats)
        status, text, head = server.api("GET", "/metrics")
        self.assertTrue(head["content-type"].startswith("text/plain; version=0.0.4"))
        names = set()
        for line in text.decode().splitlines():
            if line.startswith("# TYPE "):
                name = line.split()[2]
                self.assertNotIn(name, names, "one block per name")
                names.add(name)
            elif not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?\d+$')
        self.assertIn('dlq_queue_messages{queue="%s",state="ready"} 0' % self.q, text.decode())
        self.assertEqual(server.api("GET", "/readyz", token="")[0], 200)

    def test_audit(self):
        server.ok("POST", "/v1/queues/%s/pause" % self.q)
        first = server.ok("GET", "/v1/audit?limit=1")
        self.assertEqual((first["items"][0]["queue"], first["items"][0]["operator"]), (self.q, "admin"))
        second = server.ok("GET", "/v1/audit?limit=1&cursor=" + first["next"])
        self.assertLess(second["items"][0]["n"], first["items"][0]["n"])

    def test_not_http(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100,
                     b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
            answer = self.raw(data)
            self.assertRegex(answer, rb"^HTTP/1.1 4\d\d ", data)
            self.assertIn(b"application/problem+json", answer)


if __name__ == "__main__":
    unittest.main()
