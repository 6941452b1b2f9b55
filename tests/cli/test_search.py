"""dlq list: every filter, alone and combined; scans that say what they looked at; mistakes."""
import json
import os
import signal
import subprocess
import unittest

import dlqtest
from clitest import CliTest


class Filters(CliTest):
    def setUp(self):
        super().setUp()
        self.q = self.fresh(policy={"max_attempts": 2, "backoff": ["0s"]})

    def found(self, *args, **more):
        return [d["dlq_id"] for d in self.lines("list", *args, **more)]

    def test_each_filter(self):
        q = self.q
        one = self.bury(q, {"total": 5, "sku": "AB%2F1"}, {"type": "EncodeError", "message": "bad"}, Dlq_Id="one", Dlq_Key="k1",
                        Dlq_Header_Region="eu")
        two = self.bury(q, {"total": 500}, {"type": "SmtpError", "message": "no mailbox"}, Dlq_Id="two", Dlq_Key="k2", Dlq_Header_Region="us",
                        Dlq_Header_Tenant="acme")
        group = self.get(one)["group"]
        died = self.get(two)["died_at"]
        for args, want in ((["--group", group[:10]], [one]), (["--state", "any"], [two, one]), (["--reason", "permanent"], [two, one]),
                           (["--dead-reason", "max_attempts"], []), (["--error-type", "SmtpError"], [two]), (["--key", "k1"], [one]),
                           (["--id", "two"], [two]), (["--header", "region=eu"], [one]), (["--header", "Region=us", "--header", "tenant=acme"], [two]),
                           (["--header", "region=us", "--header", "tenant=other"], []), (["--from", died], [two]), (["--to", died], [one]),
                           (["--died-from", "1h"], [two, one]), (["--died-to", "1h"], []), (["--died-to", "2001-01-01"], []),
                           (["--expires-within", "31d"], [two, one]), (["--expires-soon"], []), (["--text", "AB%2F"], [one]),
                           (["--where", ".body.total > 100"], [two]), (["--where", '.headers.region == "eu" and .id == "one"'], [one]),
                           (["--where", ".body.total > 100", "--error-type", "EncodeError"], [])):
            with self.subTest(args=args):
                self.assertEqual(self.found(q, *args), want)

    def test_last_redrive(self):
        dead = self.bury(self.q)
        other = self.bury(self.q)
        self.cli("redrive", dead, "--reason", "try")
        self.work(self.q, "permanent")
        redrive = self.get(dead)["redrive_id"]
        self.assertEqual(self.found("--redrive", redrive), [dead])
        self.assertEqual(self.get(other)["state"], "dead")

    def test_archived_are_listed_as_such(self):
        dead = self.bury(self.q)
        self.cli("archive", "give-up", dead, "--reason", "nobody wants it")
        self.assertEqual(self.found(self.q), [])
        self.assertEqual(self.found(self.q, "--state", "archived"), [dead])
        self.assertIn("It was given up", self.cli("show", dead))

    def test_pipe_has_the_end_of_retention(self):
        dead = self.bury(self.q)
        row = self.cli("list", self.q)[:-1].split("\t")
        self.assertEqual((row[0], row[6]), (dead, "Broken: no such shop"))
        self.assertRegex(row[7], r"^\d{4}-\d\d-\d\dT")

    def test_soon_shows_on_a_terminal(self):
        q = self.fresh("-soon", policy={"retention": "2d"})
        self.bury(q)
        seen = self.terminal("list", q)
        self.assertIn("EXPIRES", seen)
        self.assertRegex(seen, r"in (2d|1d 23h)")
        self.bury(self.q)
        self.assertNotIn("EXPIRES", self.terminal("list", self.q))


class Scans(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.q = "many"
        cls.server.put_queue(cls.q)

    def setUp(self):
        if not self.server.counts(self.q)["dead"]:
            self.bury_many(self.q, [{"n": n, "text": "x" * 100} for n in range(3000)])

    def test_goes_on_until_the_limit(self):
        found = self.lines("list", self.q, "--where", ".body.n % 1000 == 7", "--limit", "3")
        self.assertEqual([int(d["id"][2:]) for d in found], [2007, 1007, 7])
        self.cli("list", self.q, "--where", ".body.n % 1000 == 7")
        self.assertIn("looked at 3,000, 3 fit", self.err)
        self.cli("list", self.q, "--text", "no such text")
        self.assertIn("no dead letter that fits", self.err)
        self.assertIn("looked at 3,000, 0 fit", self.err)

    def test_errors_of_the_expression(self):
        self.cli("list", self.q, "--where", 'if .body.n < 2990 then error("nope") else true end')
        self.assertEqual(len(self.out.splitlines()), 10)
        self.assertIn("warning: the expression failed on 2,990 of 3,000 looked at", self.err)
        self.assertIn("nope", self.err)
        self.cli("list", self.q, "--where", ".body.text.more", code=1)
        self.assertIn("failed on 3,000 of 3,000", self.err)
        self.assertEqual(self.out, "")

    def test_ctrl_c_keeps_what_was_found(self):
        # Slow enough that the signal comes in the middle: every body is looked at for a while, the first ones fit.
        program = ".body.n > 2900 or ([limit(30000; repeat(1))] | length == 0)"
        p = subprocess.Popen([dlqtest.BINARY, "list", self.q, "--limit", "3000", "--json", "--where", program], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token))
        first = p.stdout.readline()
        self.assertEqual(json.loads(first)["id"], "m-2999")
        p.send_signal(signal.SIGINT)
        out, err = p.stdout.read(), p.stderr.read()
        p.stdout.close()
        p.stderr.close()
        self.assertEqual(p.wait(60), 1, err)
        self.assertIn(b"interrupted after", err)
        for line in out.splitlines():
            json.loads(line)

    def test_progress_on_a_terminal(self):
        seen = self.terminal("list", self.q, "--where", ".body.n == 3")
        self.assertRegex(seen, r"looked at 3,000, 1 fit")


class Mistakes(CliTest):
    def test_values(self):
        q = self.fresh()
        self.bury(q)
        self.refused((
            (["--header", "region"], "NAME=VALUE is wanted"), (["--header", "=x"], "NAME=VALUE is wanted"),
            (["--header", "a=1", "--header", "A=2"], "there twice"), ([x for i in range(9) for x in ("--header", "h%d=1" % i)], "at most 8"),
            (["--from", "yesterday"], "--from yesterday: a time such as"), (["--died-to", "2026-13-01"], "a time such as"),
            (["--from", "1h", "--to", "2h"], "nothing can have died then"), (["--expires-within", "soon"], "a duration is"),
            (["--expires-soon", "--expires-within", "1d"], "which one is it"), (["--text", ""], "--text is empty"), (["--where", ""], "--where is empty"),
            (["--state", "undead"], "state must be"), (["--reason", "bad"], "reason must be"), (["--group", "xyz"], "is no group"),
            (["--where", ".body | foo"], "foo"), (["--where", "env"], "env"), (["--redrive", "a b"], "redrive"), (["--id", ""], "--id is empty"),
        ), "list", q)
        self.refused(((["--key", "k"], "of which queue"), (["a", "b"], "one queue, please"), (["a", "--queue", "b"], "one queue, please"),
                      (["--limit", "0"], "whole number")), "list")
        self.cli("list", q, "--redrive", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        self.cli("list", "no-such-queue", code=3)

    def test_program_that_runs_away(self):
        q = self.fresh()
        dead = self.bury(q, {"n": 1})
        self.cli("list", q, "--where", "first(repeat(1) | select(. == 2))", code=6)
        self.assertIn(dead, self.err)


if __name__ == "__main__":
    unittest.main()
