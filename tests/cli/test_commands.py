"""Every subcommand that talks to a server, against a real one."""
import os
import pty
import re
import subprocess
import tempfile
import unittest

import dlqtest
from clitest import CliTest
from dlqtest import Server, run_cli


class Case(CliTest):
    def bury(self, queue, body=b"broken", error=None, **headers):
        """One message that died at once -> its dlq_id."""
        self.server.send(queue, body, **headers)
        (d,) = self.server.receive(queue, wait="5s")
        result = self.server.settle(queue, d["receipt"], "permanent",
                                    error=error or {"type": "Broken", "message": "no such shop", "detail": "line 1\nline 2"})
        self.assertEqual(result["result"], "dead")
        return result["dlq_id"]

    def fresh(self, **settings):
        """A queue of this test."""
        name = re.sub(r"[^a-z0-9]+", "-", self.id().rsplit(".", 1)[1])
        self.server.put_queue(name, **settings)
        return name


class Messages(Case):
    def test_send_prints_the_id(self):
        q = self.fresh()
        message_id = self.cli("send", q, "hello").strip()
        self.assertEqual([d["id"] for d in self.server.receive(q)], [message_id])

    def test_send_takes_all_facts(self):
        q = self.fresh()
        self.cli("send", q, "x", "--id", "m-1", "--key", "k", "--header", "Shop=eu", "--header", "trace-id=a b", "--content-type", "text/x")
        (d,) = self.server.receive(q)
        self.assertEqual((d["id"], d["key"], d["body"], d["content_type"]), ("m-1", "k", "x", "text/x"))
        self.assertEqual(d["headers"], {"shop": "eu", "trace-id": "a b"})
        self.assertEqual(self.lines("send", q, "x", "--id", "m-1"), [{"id": "m-1", "duplicate": True}])

    def test_send_any_bytes_from_stdin_and_file(self):
        q = self.fresh()
        body = bytes(range(256))
        self.cli("send", q, input=body)
        with tempfile.NamedTemporaryFile() as f:
            f.write(body)
            f.flush()
            self.cli("send", q, "--file", f.name)
        for _ in range(2):
            got = subprocess.run([dlqtest.BINARY, "receive", q, "--ack"], capture_output=True,
                                 env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token))
            self.assertEqual((got.returncode, got.stdout), (0, body))

    def test_send_delay_and_ttl(self):
        q = self.fresh()
        self.cli("send", q, "later", "--delay", "1h")
        self.cli("receive", q, code=1)
        self.assertIn("no message", self.err)
        self.cli("send", q, "x", "--delay", "soon", code=2)
        self.assertIn("bad_request", self.err)

    def test_send_batch_stores_the_good_lines(self):
        q = self.fresh()
        text = '{"body": "a", "id": "1"}\n\nnot json\n{"body": "b", "id": "2"}\n{"id": "3"}\n'
        self.cli("send", q, "--batch", input=text, code=1)
        self.assertIn("line 3: ", self.err)
        self.assertIn("sent 2, duplicates 0, refused ", self.out)
        self.assertEqual(sorted(d["id"] for d in self.server.receive(q, max=10)), ["1", "2"])

    def test_send_lines_in_several_calls(self):
        q = self.fresh()
        self.cli("send", q, "--lines", input="".join("body %d\n" % i for i in range(1203)))
        self.assertEqual(self.out, "sent 1203, duplicates 0, refused 0\n")
        bodies = [d["body"] for d in self.server.receive(q, max=1000)]
        self.assertEqual(bodies, ["body %d" % i for i in range(1000)])

    def test_send_errors(self):
        self.cli("send", "no-such-queue", "x", code=3)
        self.assertIn("dlq: not_found: ", self.err)
        self.cli("send", "bad name", "x", code=2)
        q = self.fresh(max_messages=1)
        self.cli("send", q, "x")
        self.cli("send", q, "x", code=6)
        self.assertIn("dlq: queue_full: ", self.err)
        self.cli("send", q, "--file", "/nonexistent", code=3)

    def test_wrong_token(self):
        self.cli("queues", code=0)
        code, _, err = run_cli(["queues"], env={"DLQ_URL": self.server.url, "DLQ_TOKEN": "wrong"})
        self.assertEqual(code, 4)
        self.assertIn("dlq: unauthenticated: ", err)

    def test_receive_and_settle(self):
        q = self.fresh(policy={"max_attempts": 2})
        self.cli("send", q, "one", "--id", "one")
        (d,) = self.lines("receive", q, "--worker", "me")
        self.assertEqual((d["id"], d["attempts"]), ("one", 0))
        self.server.settle(q, d["receipt"], "release")
        delivery, result = self.lines("receive", q, "--nack", "permanent", "--error-type", "T", "--error", "m")
        self.assertEqual((result["result"], result["reason"]), ("dead", "permanent"))
        shown = self.server.ok("GET", "/v1/dead-letters/" + result["dlq_id"])
        self.assertEqual(shown["error"], {"type": "T", "message": "m"})

    def test_output_that_is_lost_settles_nothing(self):
        q = self.fresh()
        env = dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token)
        for body, options in ((b"x", []), (b"x" * 300000, []), (b"x", ["--json"])):
            self.server.send(q, body)
            with open("/dev/full", "w") as full:
                got = subprocess.run([dlqtest.BINARY, "receive", q, "--ack", *options], stdout=full, stderr=subprocess.PIPE, env=env)
            self.assertEqual(got.returncode, 7)
            self.assertIn(b"nothing was settled", got.stderr)
        self.assertEqual((self.server.totals(q)["done"], self.server.counts(q)["leased"]), (0, 3))

    def test_body_that_is_lost_is_an_error(self):
        dead = self.bury(self.fresh(), b"x" * 300000)
        env = dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token)
        with open("/dev/full", "w") as full:
            got = subprocess.run([dlqtest.BINARY, "show", dead, "--body"], stdout=full, stderr=subprocess.PIPE, env=env)
        self.assertEqual(got.returncode, 7)
        reader, writer = os.pipe()
        os.close(reader)
        got = subprocess.run([dlqtest.BINARY, "show", dead, "--body"], stdout=writer, stderr=subprocess.PIPE, env=env)
        os.close(writer)
        self.assertEqual((got.returncode, got.stderr), (0, b""), "a reader that had enough")

    def test_bytes_that_are_no_text(self):
        q = self.fresh()
        dead = self.bury(q)
        self.cli("token", "create", "no-text", "--queue", b"\xff".decode(errors="surrogateescape"), code=2)
        self.assertNotIn("no-text", self.cli("token"))
        self.cli("receive", q, "--worker", b"\xff".decode(errors="surrogateescape"), code=2)
        self.cli("redrive", "-", "--reason", "r", "--yes", input=dead.encode() + b"\n\xff\n", code=2)
        self.assertEqual(len(self.server.dead(q)), 1)

    def test_send_many_refuses_what_is_for_one(self):
        q = self.fresh()
        for option in ("--key", "--delay"):
            self.cli("send", q, "--lines", option, "1h", input="x\n", code=2)
            self.assertIn(option + " is for one message", self.err)
        self.cli("send", q, "--lines", "--file", "/", code=7)
        self.assertIn("cannot read /: Is a directory", self.err)
        self.assertEqual(self.server.totals(q)["sent"], 0)

    def test_receive_retry_after(self):
        q = self.fresh()
        self.cli("send", q, "x")
        _, result = self.lines("receive", q, "--nack", "transient", "--retry-after", "1h")
        self.assertEqual((result["result"], result["attempts"]), ("retry", 1))
        self.cli("receive", q, code=1)

    def test_receive_waits(self):
        q = self.fresh()
        p = subprocess.Popen([dlqtest.BINARY, "receive", q, "--wait", "30s", "--ack"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token))
        self.server.send(q, b"came late")
        out, _ = p.communicate(timeout=30)
        self.assertEqual((p.returncode, out), (0, b"came late"))
        self.assertEqual(self.server.totals(q)["done"], 1)


class Queues(Case):
    def test_life_of_a_queue(self):
        self.cli("queues", "create", "life", "--max-attempts", "3", "--backoff", "10s,1m", "--dedup-window", "1h", "--push", "http://127.0.0.1:9/x")
        config = self.server.queue("life")["config"]
        self.assertEqual(config["policy"]["max_attempts"], 3)
        self.assertEqual(config["policy"]["backoff"], ["10s", "1m"])
        self.assertEqual((config["dedup_window"], config["push"]), ("1h", "http://127.0.0.1:9/x"))
        self.cli("queues", "create", "life", code=5)
        self.assertIn("`dlq queues put` changes it", self.err)
        self.cli("queues", "put", "life", "--settings", '{"policy": {"max_attempts": 7}}', "--jitter", "full")
        config = self.server.queue("life")["config"]
        self.assertEqual((config["policy"]["max_attempts"], config["policy"]["jitter"]), (7, "full"))
        self.cli("queues", "pause", "life")
        self.assertTrue(self.server.queue("life")["paused"])
        self.assertIn("paused", self.cli("queues", "list"))
        self.assertFalse(self.lines("queues", "resume", "life")[0]["paused"])
        self.cli("send", "life", "x")
        self.cli("queues", "delete", "life", code=5)
        self.cli("receive", "life", "--ack")
        self.cli("queues", "delete", "life")
        self.cli("queues", "show", "life", code=3)

    def test_settings_from_yaml(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write("ordered: true\npolicy:\n  max_attempts: 4\n  backoff: {initial: 2s, multiplier: 2, max: 30s}\n"
                    "  classify:\n    - {http_status: 409, outcome: permanent}\n")
            f.flush()
            self.cli("queues", "put", "from-yaml", "--file", f.name)
        config = self.server.queue("from-yaml")["config"]
        self.assertTrue(config["ordered"])
        self.assertEqual(config["policy"]["backoff"]["initial"], "2s")
        self.assertEqual(config["policy"]["max_attempts"], 4)

    def test_bad_settings(self):
        self.cli("queues", "create", "bad", "--max-attempts", "0", code=2)
        self.assertIn("invalid_setting", self.err)
        self.cli("queues", "show", "bad", code=3)
        self.cli("queues", "create", "bad", "--settings", "[1]", code=2)
        self.cli("queues", "create", "kept", "--max-attempts", "7")
        for text in ("- a\n", "hello\n", ""):
            self.cli("queues", "put", "kept", "--file", "-", input=text, code=2)
        self.cli("queues", "put", "kept", "--file", "-", "--settings", "{}", input="{}", code=2)
        for policy in ("[]", '"x"', "3"):
            self.cli("queues", "put", "kept", "--settings", '{"policy": %s}' % policy, "--max-attempts", "3", code=2)
            self.assertIn('"policy" in the settings is a map', self.err)
        self.assertEqual(self.server.queue("kept")["config"]["policy"]["max_attempts"], 7)
        self.cli("queues", "put", "kept", "--settings", '{"policy": null}', "--max-attempts", "3")
        self.assertEqual(self.server.queue("kept")["config"]["policy"]["max_attempts"], 3)

    def test_names_that_are_none(self):
        for name in ("", "..", "."):
            for args in (["queues", "show", name], ["queues", "create", name], ["send", name, "x"], ["receive", name]):
                self.cli(*args, code=2)
                self.assertRegex(self.err, "^dlq: invalid_name: queue name: [^\n]*1 to 128 characters out of", args)
                self.assertEqual(self.err.count("1 to 128"), 1)

    def test_list_and_show(self):
        q = self.fresh()
        self.cli("send", q, "x")
        row = [line.split("\t") for line in self.cli("queues").splitlines() if line.startswith(q + "\t")][0]
        self.assertEqual(row[1], "1")
        self.assertEqual([x["counts"]["ready"] for x in self.lines("queues") if x["name"] == q], [1])
        (d,) = self.server.receive(q)
        self.server.settle(q, d["receipt"], "transient")
        self.cli("send", q, "y")
        self.cli("send", q, "z")
        row = [line.split("\t") for line in self.cli("queues").splitlines() if line.startswith(q + "\t")][0]
        self.assertEqual(row[1:3], ["2", "1"], "each message in one column")
        self.assertEqual([x["counts"]["ready"] for x in self.lines("queues") if x["name"] == q], [3])
        shown = self.cli("queues", "show", q)
        self.assertRegex(shown, r"ready +2\n +retrying +1\n")
        self.assertIn('"max_attempts": 5', shown)


class DeadLetters(Case):
    def test_list_filters_and_pages(self):
        q = self.fresh()
        ids = [self.bury(q, b"%d" % i, {"type": "Even" if i % 2 == 0 else "Odd", "message": "m"}) for i in range(7)]
        self.assertEqual([d["dlq_id"] for d in self.lines("list", q)], ids[::-1])
        self.assertEqual(len(self.lines("list", q, "--limit", "3")), 3)
        self.assertEqual([d["dlq_id"] for d in self.lines("list", "--queue", q, "--error-type", "Even")], ids[::-2])
        self.assertEqual(self.lines("list", q, "--state", "discarded"), [])
        row = self.cli("list", q).splitlines()[0].split("\t")
        self.assertEqual(row[:5], [ids[-1], q, "dead", "permanent", "1"])
        self.assertEqual(row[6], "Even: m")
        self.cli("list", q, "--state", "undead", code=2)

    def test_list_over_many_pages(self):
        q = self.fresh(policy={"max_attempts": 1})
        self.cli("send", q, "--lines", input="x\n" * 2100)
        for _ in range(3):
            got = self.server.receive(q, max=1000)
            self.server.ok("POST", "/v1/queues/%s/settle" % q,
                           {"results": [{"receipt": d["receipt"], "outcome": "transient"} for d in got]})
        ids = [d["dlq_id"] for d in self.lines("list", q, "--limit", "2050")]
        self.assertEqual((len(ids), len(set(ids))), (2050, 2050))

    def test_show(self):
        q = self.fresh()
        dead = self.bury(q, b"pay \x1b[2Jload\nline", Dlq_Id="m-show", Dlq_Key="k")
        out = self.cli("show", dead)
        self.assertIn("The worker said that trying again would not help.", out)
        self.assertRegex(out, r"attempt 1  permanent  Broken: no such shop")
        self.assertIn("| line 1\n", out)
        self.assertIn("pay \\x1b[2Jload\nline", out)
        self.assertNotIn("\x1b", out)
        self.assertEqual(self.lines("show", "m-show")[0]["dlq_id"], dead)
        self.assertEqual(self.cli("show", dead, "--body"), "pay \x1b[2Jload\nline")
        self.cli("show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        self.cli("send", q, "--batch", input='{"body": "x", "id": "m-type", "content_type": "a/b\\u009b0m"}\n')
        self.cli("receive", q, "--nack", "permanent")
        self.assertIn("a/b\\u009b0m", self.cli("show", "m-type"))

    def test_redrive_one_with_another_body(self):
        q = self.fresh()
        dead = self.bury(q, b"old", Dlq_Id="edit-me")
        self.assertIn("1 put back", self.cli("redrive", dead, "--body", "-", "--reason", "corrected", input="new"))
        (d,) = self.server.receive(q, wait="5s")
        self.assertEqual((d["id"], d["body"], d["attempts"], d["redrives"]), ("edit-me", "new", 0, 1))
        self.assertEqual(self.cli("show", dead, "--original"), "old")
        self.assertEqual(self.cli("show", dead, "--body"), "new")
        self.assertEqual(self.server.settle(q, d["receipt"])["result"], "done")
        self.assertEqual(self.server.ok("GET", "/v1/dead-letters/" + dead)["state"], "redriven")

    def test_redrive_a_queue(self):
        q = self.fresh()
        for i in range(5):
            self.bury(q, b"%d" % i)
        self.assertEqual(self.cli("redrive", "--queue", q, "--dry-run"), "5 dead letters would be put back\n")
        self.assertEqual(len(self.server.dead(q)), 5)
        self.cli("redrive", "--queue", q, "--reason", "fixed", code=2)
        self.assertIn("redrive 5 dead letters; say --yes", self.err)
        (r,) = self.lines("redrive", "--queue", q, "--reason", "fixed", "--yes")
        self.assertEqual((r["state"], r["total"], r["sent"], r["reason"]), ("done", 5, 5, "fixed"))
        self.assertEqual(len(self.server.receive(q, max=10, wait="5s")), 5)
        self.assertIn(r["redrive_id"], self.cli("redrives"))
        self.assertEqual(self.lines("redrives", "show", r["redrive_id"])[0]["redrive_id"], r["redrive_id"])
        self.assertRegex(self.cli("redrives", "show", r["redrive_id"]), r"put back +5\n")
        self.cli("redrives", "cancel", r["redrive_id"], code=5)
        self.assertEqual(self.cli("redrive", "--queue", q, "--reason", "again", "--yes"), "")

    def test_redrive_ids_from_stdin(self):
        q = self.fresh()
        for i in range(3):
            self.bury(q)
        out = self.cli("redrive", "-", "--reason", "r", "--yes", input=self.cli("list", q))
        self.assertIn("3 put back, 0 skipped", out)
        self.cli("redrive", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--reason", "r", code=3)

    def test_discard(self):
        q = self.fresh()
        one, two, three = [self.bury(q) for _ in range(3)]
        self.cli("discard", one, "--dry-run", "--reason", "r")
        self.assertEqual(self.lines("discard", one, "--reason", "test order"), [{"dlq_id": one, "state": "discarded"}])
        self.cli("discard", two, three, "--reason", "r", code=2)
        self.cli("discard", one, "--reason", "again", code=5)
        self.assertIn("dlq: conflict: ", self.err)
        self.cli("discard", two, one, "--reason", "r", "--yes", code=1)
        self.assertEqual(self.out, "1 discarded, 0 skipped (done)\n")
        self.assertIn("there is nothing to discard", self.err)
        self.assertEqual([d["dlq_id"] for d in self.server.dead(q)], [three])
        shown = self.server.ok("GET", "/v1/dead-letters/" + one)
        self.assertEqual((shown["operator"], shown["why"]), ("admin", "test order"))

    def test_asks_on_a_terminal(self):
        q = self.fresh()
        for _ in range(2):
            self.bury(q)
        for answer, left, code in ((b"n\n", 2, 1), (b"y\n", 0, 0)):
            master, slave = pty.openpty()
            p = subprocess.Popen([dlqtest.BINARY, "redrive", "--queue", q, "--reason", "r"], stdin=slave, stdout=slave, stderr=slave,
                                 env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token, TERM="xterm"))
            os.close(slave)
            seen = b""
            while b"[y/N]" not in seen:
                seen += os.read(master, 1000)
            self.assertIn(b"redrive 2 dead letters?", seen)
            os.write(master, answer)
            self.assertEqual(p.wait(30), code)
            os.close(master)
            self.assertEqual(len(self.server.dead(q)), left)

    def test_table_on_a_terminal(self):
        q = self.fresh()
        dead = self.bury(q, error={"type": "T", "message": "evil \x1b]0;title\x07 text"})
        for env, colour in (({}, True), ({"NO_COLOR": "1"}, False)):
            master, slave = pty.openpty()
            subprocess.run([dlqtest.BINARY, "list", q], stdout=slave, check=True,
                           env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token, TERM="xterm", **env))
            os.close(slave)
            text = b""
            while b"ago" not in text or not text.endswith(b"\n"):
                text += os.read(master, 65536)
            os.close(master)
            self.assertIn(b"DLQ_ID", text)
            self.assertIn(dead.encode(), text)
            self.assertEqual(b"\x1b[1m" in text, colour)
            self.assertNotIn(b"\x1b]0", text)
            self.assertNotIn(b"\x07", text)


class Administration(Case):
    def test_tokens(self):
        self.server.put_queue("tok-a")
        token = self.cli("token", "create", "ada", "--role", "viewer", "--queue", "tok-*").strip()
        self.assertRegex(token, r"^\S{40,}$")
        code, out, err = run_cli(["send", "tok-a", "x"], env={"DLQ_URL": self.server.url, "DLQ_TOKEN": token})
        self.assertEqual(code, 4)
        self.assertIn("forbidden", err)
        self.cli("token", "create", "ada", code=5)
        self.cli("token", "create", "eve", "--role", "king", code=2)
        self.cli("token", "revoke", "ada")
        self.assertEqual(run_cli(["queues"], env={"DLQ_URL": self.server.url, "DLQ_TOKEN": token})[0], 4)
        self.cli("token", "revoke", "nobody", code=3)
        self.assertNotIn(token, self.cli("audit", "--json"))

    def test_token_list(self):
        self.cli("token", "create", "bob", "--role", "viewer", "--queue", "tok-*", "--expires-in", "1d")
        self.assertIn("bob\tviewer\ttok-*", self.cli("token", "list"))
        self.assertIn("bob", [t["name"] for t in self.lines("token")])

    def test_audit(self):
        self.cli("queues", "create", "audited")
        rows = self.lines("audit", "--limit", "5")
        self.assertTrue(any(r.get("queue") == "audited" and r["operator"] == "admin" for r in rows), rows)
        self.assertLessEqual(len(rows), 5)
        self.assertIn("audited", self.cli("audit"))

    def test_finds_the_local_server(self):
        env = {k: v for k, v in os.environ.items() if k not in ("DLQ_URL", "DLQ_TOKEN")}
        done = subprocess.run([dlqtest.BINARY, "queues", "--data", self.server.data], env=env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.replace("no queue yet; make one with `dlq queues create NAME`\n", "")), (0, ""))
        done = subprocess.run([dlqtest.BINARY, "queues"], env=dict(env, DLQ_DATA=self.server.data), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)


class Demo(unittest.TestCase):
    def test_standalone_balances(self):
        code, out, err = run_cli(["demo", "--standalone", "--fast", "--orders", "500", "--bad", "71"], timeout=120)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("500 sent = 500 done", out)
        self.assertIn("poison", out)
        self.assertIn("71 of 71 messages failed on every attempt", out)
        self.assertIn("halted by itself: 5 of 5 canary messages failed again", out)
        self.assertIn("5 touched, 66 still dead as they were", out)
        self.assertIn("71 dead letters = 71 redriven, 5 of which died twice", out)
        self.assertIn("500 of 500 orders were worked successfully exactly once", out)
        self.assertEqual(out.count("EncodeError: cannot encode SKU"), 5)  # the group, the three attempts of one, why it halted
        self.assertRegex(out, r'\.sku: "AB%2F\d{4}-X" -> "AB/\d{4}-X"')
        self.assertRegex(out, r"(?m)^  changed +71$")
        self.assertIn("71 of 71 in the ledger of the repair succeeded", out)
        self.assertIn("the bodies as they were sent are kept beside the repaired ones", out)
        self.assertNotIn("\033", out)

    def test_twice_on_a_running_server(self):
        with Server() as server:
            for _ in range(2):
                code, out, err = run_cli(["demo", "--fast", "--orders", "50", "--bad", "5", "--queue", "shop"], server=server)
                self.assertEqual(code, 0, out + err)
            self.assertEqual(server.totals("shop")["done"], 100)
            server.send("shop", b"somebody's own")
            code, out, err = run_cli(["demo", "--fast", "--queue", "shop"], server=server)
            self.assertEqual(code, 5)
            self.assertIn("has messages of its own", err)


if __name__ == "__main__":
    unittest.main()
