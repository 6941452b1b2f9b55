"""dlq discard, archive, restore and redrive of a selection: counted, confirmed, done as jobs, undone."""
import os
import signal
import subprocess
import unittest

import dlqtest
from clitest import CliTest
from dlqtest import run_cli, wait_until


class Jobs(CliTest):
    def setUp(self):
        super().setUp()
        self.q = self.fresh()

    def states(self, ids):
        return [self.get(i)["state"] for i in ids]

    def job(self, action):
        return [r for r in self.lines("redrives") if r["action"] == action and r.get("queue") == self.q][0]

    def test_discard_a_filter_and_undo_it(self):
        ids = self.bury_many(self.q, [{"env": "test" if i % 2 else "live"} for i in range(10)])
        where = ["--queue", self.q, "--where", '.body.env == "test"']
        self.assertEqual(self.cli("discard", *where, "--dry-run"), "5 dead letters would be discarded\n")
        self.cli("discard", *where, "--reason", "tests", code=2)
        self.assertIn("this would discard 5 dead letters; say --yes", self.err)
        self.assertEqual(self.server.counts(self.q)["dead"], 10)
        self.cli("discard", *where, "--reason", "tests", "--yes")
        self.assertEqual(self.out, "5 discarded, 0 skipped (done)\n")
        said = self.err
        self.assertEqual(self.states(ids), ["dead", "discarded"] * 5)
        r = self.job("discard")
        self.assertIn("dlq restore --undo " + r["redrive_id"], said)
        out = self.cli("redrives", "show", r["redrive_id"])
        self.assertIn("discard, done", out)
        self.assertIn("dlq restore --undo", out)
        self.cli("restore", "--undo", r["redrive_id"], "--reason", "oops", code=2)
        self.assertIn("this would restore 5 dead letters", self.err)
        self.cli("restore", "--undo", r["redrive_id"], "--reason", "oops", "--yes")
        self.assertEqual(self.out, "5 dead again, 0 skipped (done)\n")
        self.assertEqual(self.states(ids), ["dead"] * 10)

    def test_archive_a_group(self):
        ids = self.bury_many(self.q, ["a", "b"], {"type": "One", "message": "m"}) + [self.bury(self.q, "c", {"type": "Two", "message": "m"})]
        group = self.get(ids[0])["group"]
        self.cli("archive", "give-up", "--group", group[:12], "--reason", "closed", "--yes")
        self.assertEqual(self.out, "2 given up, 0 skipped (done)\n")
        self.assertEqual(self.states(ids), ["archived", "archived", "dead"])
        self.cli("restore", "--queue", self.q, "--reason", "open again", "--yes")
        self.assertEqual(self.states(ids), ["dead"] * 3)

    def test_several_ids_are_one_job(self):
        ids = self.bury_many(self.q, ["a", "b", "c"])
        self.assertEqual(self.cli("discard", *ids, "--dry-run"), "3 dead letters would be discarded\n")
        (r,) = self.lines("discard", *ids, "--reason", "r", "--yes")
        self.assertEqual((r["action"], r["state"], r["total"], r["sent"]), ("discard", "done", 3, 3))
        self.assertEqual(self.lines("restore", ids[0], "--reason", "r"), [{"dlq_id": ids[0], "state": "dead"}])
        self.assertEqual(self.lines("archive", "give-up", ids[0], "--reason", "r"), [{"dlq_id": ids[0], "state": "archived"}])

    def test_ids_that_do_not_fit_are_named_and_left_out(self):
        ids = self.bury_many(self.q, ["x"] * 30)
        self.cli("discard", ids[0], "--reason", "r")
        self.cli("discard", *ids[:2], "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--reason", "r", "--yes", code=1)
        self.assertEqual(self.out, "1 discarded, 0 skipped (done)\n")
        self.assertIn("dead letter %s is discarded: there is nothing to discard" % ids[0], self.err)
        self.assertIn("01ARZ3NDEKTSV4RRFFQ69G5FAV", self.err)
        self.cli("discard", *ids[:2], "--reason", "r", "--yes", code=5)
        self.assertIn("nothing was discarded", self.err)
        self.cli("discard", *ids[:25], "--reason", "r", "--yes", code=1)
        self.cli("discard", *ids, "--reason", "r", "--yes", code=5)
        self.assertIn("nothing was discarded; too many do not fit", self.err)
        self.assertEqual(self.server.counts(self.q)["dead"], 5)

    def test_skipped_ones_say_why(self):
        ids = self.bury_many(self.q, [{"n": 1}, "no json"])
        self.cli("redrive", "--queue", self.q, "--jq", ".n += 1", "--reason", "r", "--yes", code=1)
        self.assertRegex(self.err, ids[1] + r"  .*JSON")
        self.assertIn("what became of them: dlq redrives show", self.err)

    def test_nothing_fits(self):
        self.cli("discard", "--queue", self.q, "--reason", "r", "--yes")
        self.assertIn("queue %s has no dead letter" % self.q, self.err)
        self.cli("discard", "--queue", self.q, "--where", "true", "--reason", "r")
        self.assertIn("nothing fits", self.err)
        self.cli("discard", "--queue", self.q, "--where", "true", "--reason", "r", "--yes")
        self.assertIn("nothing fits", self.err)
        self.cli("restore", "--queue", self.q, "--reason", "r", "--yes")
        self.assertIn("no discarded or archived one was dead again", self.err)

    def test_expression_that_fails_on_all(self):
        self.bury_many(self.q, ["a", "b"])
        self.cli("discard", "--queue", self.q, "--where", ".body.x.y", "--reason", "r", code=1)
        self.assertIn("failed on 2 of 2", self.err)
        self.assertEqual(self.server.counts(self.q)["dead"], 2)

    def test_redrive_into_another_queue(self):
        other = self.fresh("-other")
        ids = self.bury_many(self.q, [{"country": c} for c in ("no", "se", "no")])
        self.cli("redrive", "--queue", self.q, "--where", '.body.country == "no"', "--to", other, "--reason", "other warehouse", "--yes")
        self.assertEqual(sorted(d["id"] for d in self.work(other)), ["m-0", "m-2"])
        wait_until(lambda: self.states(ids) == ["redriven", "dead", "redriven"])
        self.assertIn("into queue " + other, self.cli("redrives", "show", self.job("redrive")["redrive_id"]))

    def test_limit_of_redrives(self):
        q = self.fresh("-limit", policy={"max_redrives": 1, "max_attempts": 1})
        dead = self.bury(q, "x")
        self.cli("redrive", dead, "--reason", "r")
        self.work(q, "permanent")
        wait_until(lambda: self.get(dead)["state"] == "archived")
        self.assertIn("as many redrives as its queue allows", self.cli("show", dead))
        self.cli("redrive", dead, "--reason", "r", code=5)
        self.assertIn("nothing fits: it is not dead now", self.cli("edit", dead, "--jq", ".a = 1") + self.err)
        self.assertRegex(self.cli("edit", dead, "--set-header", "a=1", "--override"), r"(?m)^  chosen +1\n  changed +1$")
        self.assertIn("--set-header a=1 --override --reason", self.out)
        self.cli("redrive", "--id", self.get(dead)["id"], "--reason", "r", "--override", "--dry-run")
        self.assertEqual(self.out, "1 dead letter would be put back\n")
        self.cli("redrive", dead, "--reason", "r", "--override")
        self.assertEqual(len(self.work(q)), 1)

    def test_selecting_shows_in_the_progress(self):
        self.bury_many(self.q, [{"n": n} for n in range(2000)])
        seen = self.terminal("redrive", "--queue", self.q, "--where", "[limit(500; repeat(1))] | length > 0", "--jq", ".n += 1", "--reason", "r", "--yes")
        self.assertRegex(seen, r"selecting: looked at [\d,]+, [\d,]+ chosen")
        self.assertIn("2,000 put back", seen)

    def test_asks_with_the_count(self):
        ids = self.bury_many(self.q, ["a", "b", "c"])
        seen = self.terminal("discard", "--queue", self.q, "--text", "a", "--reason", "r")  # one: no question
        self.assertIn("1 discarded", seen)
        seen = self.terminal("archive", "give-up", "--queue", self.q, "--died-from", "1h", "--reason", "r", answer=b"n\n", code=1)
        self.assertIn("archive 2 dead letters? [y/N]", seen)
        self.assertEqual(self.states(ids), ["discarded", "dead", "dead"])

    def test_ctrl_c_leaves_the_job_to_the_server(self):
        self.bury_many(self.q, ["a", "b", "c"])
        p = subprocess.Popen([dlqtest.BINARY, "redrive", "--queue", self.q, "--first", "1", "--reason", "r", "--yes"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token))
        (d,) = self.server.receive(self.q, wait="10s")  # the canary; the command waits for its outcome
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (1, b""))
        self.assertIn(b"interrupted; the job goes on: dlq redrives show", err)
        self.server.settle(self.q, d["receipt"])
        self.assertEqual(len(self.server.receive(self.q, max=10, wait="10s")), 2)

    def test_no_wait(self):
        self.bury_many(self.q, ["a", "b"])
        redrive_id = self.cli("discard", "--queue", self.q, "--reason", "r", "--yes", "--no-wait").strip()
        wait_until(lambda: self.server.ok("GET", "/v1/redrives/" + redrive_id)["state"] == "done")


class Archive(CliTest):
    def test_what_reached_the_end_of_retention(self):
        q = self.fresh(policy={"retention": "1s"})
        dead = self.bury(q, '{"sku": "AB%2F1"}', Dlq_Id="gone-1")
        rows = wait_until(lambda: self.lines("archive", "list", "--queue", q), what="the archive's index")
        self.assertEqual([(r["dlq_id"], r["id"], r["state"]) for r in rows], [(dead, "gone-1", "dead")])
        day = rows[0]["archived_at"][:10]
        self.assertEqual(len(self.lines("archive", "--id", "gone-1", "--from", day, "--to", day)), 1)
        self.assertEqual(self.lines("archive", "--queue", q, "--to", "2001-01-01"), [])
        self.assertIn(dead + "\t" + q, self.cli("archive", "list", "--queue", q))
        record = self.cli("archive", "show", dead)
        self.assertEqual(len(record.splitlines()), 1)
        self.assertIn('"gone-1"', record)
        self.cli("show", dead, code=3)
        self.server.put_queue(q)
        self.cli("import", "-", "--reason", "still needed", input=record)
        self.assertEqual(self.out, "imported 1, here already 0, failed 0\n")
        self.assertEqual(self.cli("show", dead, "--body"), '{"sku": "AB%2F1"}')

    def test_mistakes(self):
        self.refused(((["01ARZ3NDEKTSV4RRFFQ69G5FAV"], "dlq archive give-up 01ARZ3NDEKTSV4RRFFQ69G5FAV"), (["--group", "abcd"], "give-up is wanted"),
                      (["list", "--key", "k"], "--key goes with give-up"), (["list", "x"], "list takes no id"), (["show"], "one dead letter"),
                      (["list", "--from", "today"], "a day such as"), (["--to", "2026-12-01T00:00:00Z"], "a day such as"), (["--limit", "0"], "whole number"),
                      (["give-up", "x"], "--reason is needed"), (["give-up", "--reason", "r"], "which dead letters?"),
                      (["give-up", "x", "--from", "2026-12-01", "--reason", "r"], "--from goes with list")), "archive")
        self.cli("archive", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        self.assertEqual(self.cli("archive", "list", "--queue", "never-was"), "")


class Mistakes(CliTest):
    def test_guards_are_checked_without_dead_letters(self):
        q = self.fresh()
        self.refused(((["--first", "0"], "whole number"), (["--first", "many"], "whole number"), (["--rate", "fast"], "--rate fast"), (["--rate", "0/s"], "--rate"),
                      (["--rate", "10/d"], "--rate"), (["--rate", "10"], "--rate"), (["--stop-at", "0"], "whole number"), (["--stop-at", "101%"], "--stop-at"),
                      (["--stop-at", "x"], "--stop-at x"), (["--canary-wait", "8d"], "1s to 7d"), (["--canary-wait", "1m"], "goes with --first N"), (["--canary-wait", "soon"], "a duration is"),
                      (["--to", "bad name"], "a queue is wanted"), (["--to", "2026-12-01T00:00:00Z"], "--died-to TIME"), (["--set-header", "x"], "NAME=VALUE"),
                      (["--jq", ""], "a program is wanted")),
                     "redrive", "--queue", q, "--reason", "r", "--yes")

    def test_selections(self):
        self.refused(((["discard", "--reason", "r"], "which dead letters?"), (["discard", "x", "--text", "a", "--reason", "r"], "which one is it"),
                      (["restore", "--undo", "x", "--queue", "q", "--reason", "r"], "--undo takes back"), (["restore", "--undo", "", "--reason", "r"], "is empty"),
                      (["discard", "--queue", self.fresh(), "--where", ".a |", "--reason", "r"], "where"),
                      (["redrive", "x", "--body", "f", "--jq", ".", "--reason", "r"], "--body goes with")))
        self.cli("restore", "--undo", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--reason", "r", code=3)
        self.cli("redrive", "--queue", self.fresh(), "--to", "no-such-queue", "--text", "x", "--reason", "r", "--yes", code=3)

    def test_no_server(self):
        code, _, err = run_cli(["discard", "x", "--reason", "r"], env={"DLQ_URL": "http://127.0.0.1:9", "DLQ_TOKEN": "t"})
        self.assertEqual(code, 6, err)


if __name__ == "__main__":
    unittest.main()
