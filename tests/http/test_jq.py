"""jq programs that mean no good, and bodies that hurt jq: refused or ended, while the server goes on as before."""
import json
import os
import signal
import socket
import threading
import time
import unittest

from dlqtest import SLOW, Server, run_cli, wait_until
from lib_dead import DeadCase

# ASan's quarantine makes the size of the process say nothing.
MEASURE = SLOW == 1


def setUpModule():
    DeadCase.start("limits: {jq_memory: 32MiB, jq_timeout: 500ms}\n")


def tearDownModule():
    DeadCase.server.stop()


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(next(line for line in f if line.startswith("VmRSS:")).split()[1])


def children(pid):
    """Process ids of what its threads started."""
    found = set()
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as f:
            found.update(f.read().split())
    return found


def runs(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Refused(DeadCase):
    def test_what_reaches_outside(self):
        self.kill({"id": "m", "body": {"a": 1}})
        for program, word in (("env", "env"), ("env.HOME", "env"), ("$ENV", "ENV"), ("$ENV.PATH", "ENV"), ("input_filename", "input_filename"),
                              ("input", "input"), ("inputs", "inputs"), ("[inputs]", "inputs"), ("input_line_number", "input_line_number"), ("debug", "debug"),
                              ("stderr", "stderr"), ("halt", "halt"), ("halt_error", "halt_error"), ("@sh", "@sh"), ('@sh "x \\(.)"', "@sh"),
                              ("get_search_list", "get_search_list"), ('import "a" as a; .', "import"), ('include "a"; .', "include"),
                              ('import "/etc/passwd" as $p; $p', "import"), ("def f: env; f", "env"), ('"\\(env.PATH)"', "env"), ("{a: $ENV}", "ENV"),
                              ("map(env)", "env"), ('try error("x") catch env', "env")):
            for what in ({"filter": {"queue": self.q, "where": program}}, {"queue": self.q, "edit": {"jq": program}}):
                doc = self.problem(400, "bad_request", "POST", "/v1/redrives/preview", what)
                self.assertIn(word, doc["detail"], program)
                self.problem(400, "bad_request", "POST", "/v1/redrives", dict(what, reason="x"))
        self.assertEqual(self.found(queue=self.q), ["m"])

    def test_words_that_only_look_like_it(self):
        self.kill({"id": "m", "body": {"env": 1, "input": {"debug": 2}, "text": "import stderr @sh $ENV"}})
        for program in (".body.env == 1", '.body["env"]', ".body.input.debug == 2", '.body.text == "import stderr @sh $ENV"', "# env\ntrue", ". as {body: {$env}} | $env == 1"):
            self.assertEqual(self.found(queue=self.q, where=program), ["m"], program)

    def test_syntax(self):
        for program in (".", "..", "(", "}", ".a.", "reduce", "def f:", '"\\(', "if . then", "." * 1000, "[" * 1000 + "]" * 1000, "(" * 5000, "-" * 5000 + "1",
                        "\u2603", "$x", "f(1;2)", ". as [$a] ?// $b | $c", "{(1)}", "label $x | break $y", "@unknown", "?", "#", " "):
            status, doc, _ = self.server.api("POST", "/v1/redrives/preview", {"filter": {"queue": self.q, "where": program}})
            self.assertIn((status, doc.get("code")), ((200, None), (400, "bad_request"), (504, "timeout")), (program, doc))
        self.problem(400, "invalid_json", "POST", "/v1/redrives/preview", '{"queue": "%s", "edit": {"jq": "a\\u0000b"}}' % self.q)


class Attacks(DeadCase):
    ATTACKS = ("range(infinite)", "[range(infinite)]", '"x" * 1e9', "def f: f; f", "def f: [f]; f", "def f: 1 + f; f", "last(range(infinite))",
               "reduce range(infinite) as $i (0; . + $i) ", "[limit(1e9; repeat(1))]", '[range(1e6)] | map(tostring * 100) | add', "until(false; .)",
               '"a" | until(false; . + .)', "[.[]?, recurse(.; true)]", "[range(1e5) | [range(1e5)]]", '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" | test("^(a+)+$")',
               "{} | .[(range(1e7) | tostring)] = 1", "[splits(\"a\")] | until(false; . + .)")

    def answered_meanwhile(self, work):
        """Runs work() while another client measures how long small requests take; the longest, in seconds."""
        over, worst, count = threading.Event(), [0.0], [0]
        def probe():
            while not over.is_set():
                for request in (("GET", "/v1/queues/" + self.q), ("GET", "/v1/dead-letters?queue=" + self.q),
                                ("POST", "/v1/queues/%s/messages" % self.probe_queue, b"x")):
                    began = time.monotonic()
                    self.server.ok(*request)
                    worst[0] = max(worst[0], time.monotonic() - began)
                    count[0] += 1
        t = threading.Thread(target=probe)
        t.start()
        try:
            work()
        finally:
            over.set()
            t.join()
        self.assertGreater(count[0], 100)
        return worst[0]

    def setUp(self):
        super().setUp()
        self.probe_queue = self.queue()

    def test_programs_that_run_away(self):
        self.kill(*({"id": "m%d" % i, "body": {"n": i}} for i in range(3)))
        self.found(queue=self.q, where="true")
        before = rss_kib(self.server.pid)
        def run():
            for program in self.ATTACKS:
                for what in ({"filter": {"queue": self.q, "where": program}}, {"queue": self.q, "edit": {"jq": program}}):
                    began = time.monotonic()
                    status, doc, _ = self.server.api("POST", "/v1/redrives/preview", what)
                    self.assertLess(time.monotonic() - began, 8 * SLOW, program)
                    if status == 200:
                        self.assertEqual(doc["failed"] + doc.get("errors", 0) + doc["selected"] > 0 or doc["next"] is not None, True, (program, doc))
                    else:
                        self.assertIn((status, doc["code"]), ((400, "bad_request"), (504, "timeout"), (413, "too_large")), (program, doc))
                        self.assertRegex(doc["detail"], r"[0-9A-HJKMNP-TV-Z]{26}", "it names the message: " + program)
        worst = self.answered_meanwhile(run)
        self.assertLess(worst, 0.25 * SLOW, "others are answered meanwhile")
        if MEASURE:
            self.assertLess(rss_kib(self.server.pid) - before, 8 * 1024)
        wait_until(lambda: len(children(self.server.pid)) <= 4, what="the end of jq's processes")
        self.assertEqual(sorted(self.found(queue=self.q, where=".body.n >= 1")), ["m1", "m2"], "jq works as before")

    def test_bodies_that_hurt(self):
        deep, wide = "[" * 1000 + "]" * 1000, json.dumps({"k%d" % i: i for i in range(20000)})
        ids = self.kill({"id": "deep", "body": deep}, {"id": "deeper", "body": '{"a":' * 5000 + "1" + "}" * 5000}, {"id": "open", "body": "[" * 100000},
                        {"id": "wide", "body": wide}, {"id": "long", "body": json.dumps("x" * 900000)}, {"id": "number", "body": "1" * 10000},
                        {"id": "huge", "body": "1e999999"}, {"id": "nan", "body": "NaN"}, {"id": "nul", "body": b'{"a": "\x00"}'}, {"id": "bom", "body": b"\xef\xbb\xbf{}"},
                        {"id": "two", "body": "{} {}"}, {"id": "surrogate", "body": '"\\ud800"'}, {"id": "latin", "body": b'"caf\xe9"'},
                        {"id": "good", "body": {"a": 1}})
        before = rss_kib(self.server.pid)
        found = self.found(queue=self.q, where='.body | type == "object" and .a == 1')
        self.assertEqual(found, ["good"])
        p = self.preview(queue=self.q, edit={"jq": "."}, limit=100)
        self.assertEqual(p["selected"], len(ids), p)
        failed = {i["id"] for i in p["items"] if "error" in i}
        self.assertLessEqual({"deep", "deeper", "open", "nan", "two", "latin"}, failed)
        self.assertNotIn("good", failed)
        self.assertNotIn("wide", failed)
        self.assertEqual(p["failed"], len(failed))
        self.assertEqual(p["changed"], 0, "the identity changes not a byte")
        if MEASURE:
            self.assertLess(rss_kib(self.server.pid) - before, 8 * 1024)

    def test_a_job_that_runs_away_ends(self):
        self.kill(*({"id": "m%d" % i, "body": {"n": i}} for i in range(5)))
        r = self.job(queue=self.q, edit={"jq": "if .n == 3 then range(infinite) | empty else .seen = true end"})
        now = wait_until(lambda: (lambda d: d if d["state"] != "running" else None)(self.server.ok("GET", "/v1/redrives/" + r["redrive_id"])), what="the end of the job")
        if now["state"] == "halted":
            self.assertEqual(now["sent"], 0, "nothing goes back before all were looked at")
            self.assertRegex(now["halted_why"], r"[0-9A-HJKMNP-TV-Z]{26}")
            self.server.ok("POST", "/v1/redrives/%s/cancel" % r["redrive_id"])
            self.assertEqual(len(self.found(queue=self.q)), 5)
        else:
            self.assertEqual((now["state"], now["sent"], now["skipped"]), ("done", 4, 1))

    def test_a_child_killed_while_it_waits(self):
        """By an operator or for want of memory: the next question gets a new one."""
        self.kill({"id": "m", "body": {"n": 1}})
        self.assertEqual(self.found(queue=self.q, where=".body.n == 1"), ["m"])
        for _ in range(2):
            before = children(self.server.pid)
            self.assertTrue(before)
            for pid in before:
                os.kill(int(pid), signal.SIGKILL)
            wait_until(lambda: not any(runs(pid) for pid in before), what="their end")
            self.assertEqual(self.found(queue=self.q, where=".body.n == 1"), ["m"])

    def test_clients_that_leave(self):
        self.kill({"id": "m"})
        for _ in range(20):
            s = socket.create_connection(("127.0.0.1", self.server.port))
            s.sendall(("GET /v1/dead-letters?queue=%s&where=range(infinite)%%7Cempty HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % (self.q, self.server.token)).encode())
            s.close()
        self.assertEqual(self.found(queue=self.q), ["m"])
        wait_until(lambda: self.found(queue=self.q, where="true") == ["m"], timeout=40, what="a scan after those that nobody waits for")


class Settings(unittest.TestCase):
    def test_bad_values(self):
        for line, text in (("jq_memory: 1KiB", "limits.jq_memory"), ("jq_memory: 8GiB", "limits.jq_memory"), ("jq_memory: much", "limits.jq_memory"),
                           ("jq_timeout: 0s", "limits.jq_timeout"), ("jq_timeout: 2m", "limits.jq_timeout"), ("jq_timeout: 5", "limits.jq_timeout"),
                           ("expires_soon: 0s", "limits.expires_soon"), ("expires_soon: soon", "limits.expires_soon"), ("expire_soon: 1d", 'did you mean "expires_soon"?'),
                           ("jq_mem: 64MiB", 'did you mean "jq_memory"?')):
            server = Server(config="limits:\n  %s\n" % line, start=False)
            self.addCleanup(server.close)
            with self.assertRaises(RuntimeError) as e:
                server.start()
            self.assertIn(":2: ", str(e.exception))
            self.assertIn(text, str(e.exception))

    def test_values_are_used(self):
        with Server(config="limits: {jq_timeout: 100ms, expires_soon: 1h, jq_memory: 16MiB}\n") as server:
            server.put_queue("q", policy={"max_attempts": 1, "retention": "2h"})
            server.put_queue("soon", policy={"max_attempts": 1, "retention": "50m"})
            for q in ("q", "soon"):
                server.send(q, b"{}")
                server.settle(q, server.receive(q)[0]["receipt"], "permanent")
            self.assertEqual(server.ok("GET", "/v1/stats")["expires_soon"], 1)
            (d,) = server.dead("soon")
            self.assertIs(d["expires_soon"], True)
            self.assertNotIn("expires_soon", server.dead("q")[0])
            began = time.monotonic()
            status, doc, _ = server.api("GET", "/v1/dead-letters?queue=q&where=range(infinite)%7Cempty")
            self.assertEqual(status, 504, doc)
            self.assertLess(time.monotonic() - began, 0.9 * SLOW, "100 ms, not the default of a second")
            code, out, _ = run_cli(["config", "show", "--json"], env={"DLQ_LIMITS_JQ_MEMORY": "128MiB"})
            self.assertEqual(code, 0)
            self.assertIn("128MiB", out)


if __name__ == "__main__":
    unittest.main()
