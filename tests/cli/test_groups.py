"""dlq groups, guarded redrives, restore, audit verify: as an operator types them."""
import json
import os
import pty
import re
import sqlite3
import subprocess
import threading
import unittest

import dlqtest
from clitest import CliTest
from dlqtest import Server, run_cli, wait_until


class Case(CliTest):
    def fresh(self, n, error=None):
        """A queue of this test with n dead letters of one cause -> its name, its group."""
        q = re.sub(r"[^a-z0-9]+", "-", self.id().rsplit(".", 1)[1])
        self.server.put_queue(q, policy={"max_attempts": 1})
        self.server.ok("POST", "/v1/queues/%s/batch" % q, "\n".join('{"body": "%d"}' % i for i in range(n)))
        self.error = error or {"type": "SmtpError", "message": "mailbox not found: ada@example.org"}
        self.work(q, "permanent")
        (g,) = self.server.ok("GET", "/v1/groups?queue=" + q)["items"]
        return q, g["group"]

    def work(self, q, outcome):
        """All that is ready now, not what comes because of it."""
        got = self.server.receive(q, max=1000, worker="w1")
        results = [{"receipt": d["receipt"], "outcome": outcome, "error": self.error} for d in got]
        self.server.ok("POST", "/v1/queues/%s/settle" % q, {"worker": "w1", "results": results})

    def worker(self, q, outcome):
        """Works until the test ends."""
        stop = threading.Event()

        def loop():
            while not stop.is_set():
                for d in self.server.receive(q, max=100, wait="100ms"):
                    self.server.settle(q, d["receipt"], outcome, error=self.error)
        thread = threading.Thread(target=loop)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)


class Groups(Case):
    def test_list(self):
        q, group = self.fresh(11)
        (row,) = self.cli("groups", "list", q).splitlines()
        cells = row.split("\t")
        self.assertEqual((cells[0], cells[1], cells[2], cells[4]), (group, q, "11", "new"))
        self.assertIn("SmtpError: mailbox not found: <email>", row)
        self.assertEqual([g["group"] for g in self.lines("groups", "--queue", q, "--dead")], [group])
        self.assertEqual(self.cli("groups", "--queue", q, "--status", "resolved"), "")
        self.assertIn("no group that fits", self.err)
        self.assertEqual(len(self.cli("list", "--group", group[:10]).splitlines()), 11)

    def test_show(self):
        q, group = self.fresh(6)
        out = self.cli("groups", "show", group[:12])
        self.assertIn(group, out)
        for text in ("diagnosis", "6 of 6 messages failed on every attempt", "usually: ", "dead now       6", "last hour", "compared as:",
                     "mailbox not found: <email>", "w1", "what to type next", "dlq redrive --group %s --first 5" % group[:12],
                     "dlq groups ack " + group[:12]):
            self.assertIn(text, out)
        self.assertRegex(out, "[\u2581-\u2588]", "a histogram")
        self.assertEqual(out.count("dlq show "), 1)
        (doc,) = self.lines("groups", "show", group)
        self.assertEqual((doc["group"], doc["dead"]), (group, 6))
        self.assertIn("dlq groups show " + group[:12], self.cli("show", doc["samples"][0]["dlq_id"]))

    def test_verbs(self):
        q, group = self.fresh(1)
        for verb, status in (("ack", "acknowledged"), ("resolve", "resolved"), ("reopen", "new"), ("mute", "muted")):
            self.assertIn(group[:12], self.cli("groups", verb, group[:8], "--reason", "r"))
            self.assertEqual(self.lines("groups", "show", group)[0]["status"], status)
        (doc,) = self.lines("groups", "mute", group, "--for", "2h", "--deaths", "5")
        self.assertTrue(doc["muted_until"] and doc["muted_deaths"])
        (doc,) = self.lines("groups", "note", group, "ticket 12", "--owner", "ada")
        self.assertEqual((doc["note"], doc["owner"]), ("ticket 12", "ada"))
        self.assertIn("ticket 12", self.cli("groups", "show", group))

    def test_merge_and_split(self):
        q, group = self.fresh(2)
        self.error = {"type": "Other", "message": "no"}
        self.server.send(q, b"x")
        self.work(q, "permanent")
        other = [g["group"] for g in self.lines("groups", "list", q) if g["group"] != group][0]
        self.cli("groups", "merge", other[:12], group[:12])
        (g,) = self.lines("groups", "list", q)
        self.assertEqual((g["group"], g["dead"]), (group, 3))
        self.assertIn("merged into it: " + other[:12], self.cli("groups", "show", group))
        self.cli("groups", "split", other)
        self.assertEqual(len(self.lines("groups", "list", q)), 2)

    def test_mistakes(self):
        for args, code, text in ((["show"], 2, "which group"), (["shwo", "x"], 2, "is wanted"), (["show", "zzzz"], 2, "is no group"),
                                 (["show", "abc"], 2, "is no group"), (["show", "0" * 32], 3, "not_found"), (["show", "0000"], 3, "no group begins"),
                                 (["merge", "0000"], 2, "two groups"), (["note", "0000"], 2, "a text is wanted"),
                                 (["mute", "0" * 32, "--deaths", "0"], 2, "whole number"), (["list", "a", "b"], 2, "one queue")):
            self.cli("groups", *args, code=code)
            self.assertIn(text, self.err)


class Redrive(Case):
    def test_unfixed_worker_halts_it(self):
        q, group = self.fresh(30)
        self.worker(q, "permanent")
        self.cli("redrive", "--group", group[:12], "--first", "5", "--stop-at", "10%", "--rate", "100/s", "--reason", "too early", "--yes", code=1)
        self.assertIn("halted: 5 of 5", self.out)
        self.assertIn("5 of 30 were put back", self.out)
        said = self.err
        self.assertIn("5 of 30 put back, 0 succeeded, 5 failed again", said)
        (r,) = [r for r in self.lines("redrives") if r.get("group") == group]
        self.assertIn("dlq redrives resume " + r["redrive_id"], said)
        out = self.cli("redrives", "show", r["redrive_id"])
        for text in ("halted: 5 of 5", "first 5", "more than 10%", "at most 100/s", group):
            self.assertIn(text, out)
        states = [i["state"] for i in self.lines("redrives", "show", r["redrive_id"], "--items")]
        self.assertEqual(states, ["failed_again"] * 5)
        self.assertEqual(len(self.cli("redrives", "show", r["redrive_id"], "--items").splitlines()), 5)
        self.cli("redrives", "cancel", r["redrive_id"])
        self.assertIn("not put back", self.out)

    def test_fixed_worker_and_all_go(self):
        q, group = self.fresh(30)
        self.worker(q, "ok")
        self.cli("redrive", "--group", group, "--first", "5", "--stop-at", "1", "--canary-wait", "1m", "--reason", "fixed", "--yes")
        self.assertIn("30 put back, 0 skipped (done)", self.out)
        wait_until(lambda: self.server.totals(q)["redriven"] == 30)
        self.cli("redrive", "--group", group, "--reason", "again", "--yes")
        self.assertIn("has no dead letter", self.err)

    def test_progress_on_a_terminal(self):
        q, group = self.fresh(8)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        p = subprocess.Popen([dlqtest.BINARY, "redrive", "--group", group, "--first", "2", "--reason", "x", "--yes"], stdout=subprocess.DEVNULL,
                             stderr=slave, env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token, TERM="xterm"))
        os.close(slave)
        seen = b""
        while b"waiting for the outcome of 2" not in seen:
            seen += os.read(master, 4096)
        self.work(q, "ok")
        wait_until(lambda: self.server.totals(q)["redriven"] == 2)
        try:
            while True:
                part = os.read(master, 4096)
                if not part:
                    break
                seen += part
        except OSError:  # it ended
            pass
        self.assertEqual(p.wait(60), 0)
        self.assertIn(b"8 of 8 put back, 2 succeeded", seen)

    def test_dry_run_and_question(self):
        q, group = self.fresh(4)
        self.assertEqual(self.lines("redrive", "--group", group, "--dry-run"), [{"dry_run": True, "total": 4}])
        self.cli("redrive", "--group", group, "--reason", "x", code=2)
        self.assertIn("say --yes", self.err)
        self.assertEqual(self.server.counts(q)["dead"], 4)

    def test_mistakes(self):
        q, group = self.fresh(1)
        for args, code, text in ((["x", "--group", group], 2, "which one"), (["--group", group, "--rate", "fast"], 2, "rate"),
                                 (["--group", group, "--stop-at", "0"], 2, "whole number"), (["--group", group, "--stop-at", "x%"], 2, "stop-at"),
                                 (["--group", group, "--first", "none"], 2, "whole number"), (["--group", "0" * 32], 3, "not_found"),
                                 (["--group", group, "--body", "/dev/null", "--first", "1"], 2, "--body goes with")):
            self.cli("redrive", *args, "--reason", "x", "--yes", code=code)
            self.assertIn(text, self.err)
        self.assertEqual(self.server.counts(q)["dead"], 1)


class Restore(Case):
    def test_restore(self):
        q, _ = self.fresh(3)
        ids = [d["dlq_id"] for d in self.server.dead(q)]
        self.cli("discard", *ids, "--reason", "oops", "--yes")
        self.cli("restore", ids[0], code=2)
        self.assertIn("--reason is needed", self.err)
        self.assertEqual(self.lines("restore", ids[0], "--reason", "was no test"), [{"dlq_id": ids[0], "state": "dead"}])
        self.cli("restore", "-", "--reason", "all", "--yes", input="\n".join(ids), code=1)  # one is back already
        self.assertEqual(self.server.counts(q)["dead"], 3)


class WorkVersion(Case):
    def test_version_reaches_the_history(self):
        q = "work-version"
        self.server.put_queue(q, policy={"max_attempts": 1})
        self.server.send(q, b"x")
        self.cli("work", q, "--until-empty", "--worker-version", "2.5.0", "--", "false")
        (d,) = self.server.dead(q)
        self.assertEqual(self.server.ok("GET", "/v1/dead-letters/" + d["dlq_id"])["history"][0]["worker_version"], "2.5.0")


class Audit(unittest.TestCase):
    def test_verify_and_export(self):
        with Server() as server:
            def cli(*args):
                return run_cli(args, server=server)
            for i in range(5):
                server.put_queue("q%d" % i)
            code, out, _ = cli("audit", "verify")
            self.assertEqual((code, out.startswith("the chain holds: ")), (0, True), out)
            newest = out.splitlines()[1]
            rows = [json.loads(line) for line in cli("audit", "--export")[1].splitlines()]
            self.assertEqual(rows[0]["hash"], newest)
            self.assertEqual(len(rows), len(cli("audit", "--limit", "1000")[1].splitlines()))
            self.assertTrue(json.loads(cli("audit", "verify", "--json")[1])["ok"])
            self.assertEqual(cli("audit", "verfy")[0], 2)
            # Somebody edits the store beside dlq.
            server.terminate()
            target = rows[2]["n"]
            store = sqlite3.connect(os.path.join(server.data, "dlq.db"))
            with store:
                self.assertEqual(store.execute("UPDATE audit SET operator = 'nobody' WHERE n = ?", (target,)).rowcount, 1)
            store.close()
            server.restart()
            code, out, err = cli("audit", "verify")
            self.assertEqual(code, 1, out + err)
            self.assertIn("BROKEN at row %d" % target, out)
            code, out, _ = cli("audit", "verify", "--json")
            self.assertEqual((code, json.loads(out)["ok"], json.loads(out)["broken"]), (1, False, target))


if __name__ == "__main__":
    unittest.main()
