"""dlq export and dlq import: full records out and in again, here and elsewhere, and what can go wrong with files."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import dlqtest
from clitest import CliTest
from dlqtest import Server, run_cli, wait_until

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class TransferTest(CliTest):
    def setUp(self):
        super().setUp()
        self.q = self.fresh()
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def env(self):
        return dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token)


class Export(TransferTest):
    def test_to_stdout(self):
        ids = self.bury_many(self.q, ["a", "b", "c"])
        records = [json.loads(line) for line in self.cli("export", "--queue", self.q).splitlines()]
        self.assertEqual([r["dlq_id"] for r in records], ids[::-1])
        self.assertEqual([r["body"] for r in records], ["c", "b", "a"])
        self.assertEqual([len(r["history"]) for r in records], [1, 1, 1])
        self.assertIn("exported 3 dead letters, ", self.err)
        self.assertEqual(len(self.cli("export", "--queue", self.q, "--limit", "2").splitlines()), 2)
        self.assertIn("--limit gives more", self.err)
        self.assertEqual([json.loads(x)["dlq_id"] for x in self.cli("export", ids[1], ids[0]).splitlines()], [ids[1], ids[0]])
        self.assertEqual(len(self.cli("export", "--queue", self.q, "--where", '.body == "b"').splitlines()), 1)

    def test_many_pages_to_a_file(self):
        self.bury_many(self.q, ["body %d" % i for i in range(2500)])
        self.cli("export", "--queue", self.q, "-o", self.path("x.jsonl"))
        self.assertEqual(self.out, "")
        self.assertEqual(len(set(json.loads(x)["id"] for x in self.read("x.jsonl").splitlines())), 2500)
        self.assertEqual(os.stat(self.path("x.jsonl")).st_mode & 0o777, 0o600)
        self.assertEqual(os.listdir(self.dir), ["x.jsonl"])
        (doc,) = self.lines("export", "--queue", self.q, "--output", self.path("y.jsonl.zst"))
        self.assertEqual(doc["exported"], 2500)
        packed = self.read("y.jsonl.zst")
        self.assertEqual((packed[:4], len(packed)), (ZSTD_MAGIC, doc["bytes"]))
        self.assertLess(len(packed) * 4, len(self.read("x.jsonl")))
        unpacked = subprocess.run([dlqtest.BINARY, "export", "--queue", self.q, "--zstd"], env=self.env(), capture_output=True)
        self.assertEqual(unpacked.stdout[:4], ZSTD_MAGIC)

    def test_does_not_write_over_a_file(self):
        self.bury(self.q)
        with open(self.path("x"), "w") as f:
            f.write("mine")
        self.cli("export", "--queue", self.q, "-o", self.path("x"), code=5)
        self.assertIn("exists; take another name, or --force", self.err)
        self.assertEqual((self.read("x"), os.listdir(self.dir)), (b"mine", ["x"]))
        self.cli("export", "--queue", self.q, "-o", self.path("x"), "--force")
        self.assertEqual(json.loads(self.read("x"))["queue"], self.q)

    def test_write_errors(self):
        self.bury_many(self.q, ["x" * 1000] * 50)
        for args in (["-o", "/dev/full"], ["-o", "/dev/full", "--zstd"]):
            self.cli("export", "--queue", self.q, *args, code=7)
            self.assertIn("cannot write /dev/full: No space left on device", self.err)
            self.assertIn("the export is not complete", self.err)
        with open("/dev/full", "w") as full:
            got = subprocess.run([dlqtest.BINARY, "export", "--queue", self.q], env=self.env(), stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(got.returncode, 7)
        self.assertIn(b"cannot write stdout", got.stderr)
        self.cli("export", "--queue", self.q, "-o", "/no/such/folder/x", code=7)
        self.cli("export", "--queue", "no-such-queue", "-o", self.path("none.jsonl"), code=3)
        self.assertIn("the export is not complete: 0 dead letters were written", self.err)
        self.assertEqual(os.listdir(self.dir), [], "nothing is left in the way of the next try")
        reader, writer = os.pipe()
        os.close(reader)
        got = subprocess.run([dlqtest.BINARY, "export", "--queue", self.q], stdout=writer, stderr=subprocess.PIPE, env=self.env())
        os.close(writer)
        self.assertEqual(got.returncode, 0, "a reader that had enough")

    def test_ctrl_c_keeps_what_was_found(self):
        self.bury_many(self.q, [{"n": n} for n in range(3000)])
        slow = ".body.n > 2900 or ([limit(30000; repeat(1))] | length == 0)"
        p = subprocess.Popen([dlqtest.BINARY, "export", "--queue", self.q, "--where", slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env())
        self.assertEqual(json.loads(p.stdout.readline())["id"], "m-2999")
        p.send_signal(signal.SIGINT)
        records, err = p.stdout.read().splitlines(), p.stderr.read()
        p.stdout.close()
        p.stderr.close()
        self.assertEqual(p.wait(60), 1, err)
        self.assertIn(b"interrupted; there is more", err)
        self.assertEqual([json.loads(r)["id"] for r in records], ["m-%d" % n for n in range(2998, 2998 - len(records), -1)])
        part = self.path("x.jsonl.zst.part")
        p = subprocess.Popen([dlqtest.BINARY, "export", "--queue", self.q, "--where", slow, "-o", part[:-5]], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=self.env())
        wait_until(lambda: os.path.exists(part))
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn(b"what was exported is in " + part.encode(), err)
        self.assertEqual(os.listdir(self.dir), ["x.jsonl.zst.part"])
        self.cli("import", part, "--dry-run")  # it can be read

    def test_mistakes(self):
        self.refused(((["--output", ""], "--output is empty"), (["x", "--queue", "q"], "which one is it"), (["--key", "k"], "of which queue"),
                      (["--limit", "0"], "whole number"), (["-x"], "unknown option -x"), (["-o"], "--output needs a value"), (["--state", "bad"], "state must be")),
                     "export")
        self.cli("export", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        self.assertIn("--zstd: that is no text for a terminal", self.terminal("export", "--queue", self.q, "--zstd", code=2))


class Import(TransferTest):
    """From self.server into self.other, where a queue of the same name is."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = Server()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.other.stop()

    def setUp(self):
        super().setUp()
        self.other.put_queue(self.q)

    def there(self, *args, code=0, **more):
        """dlq against the other server."""
        got, self.out, self.err = run_cli(args, server=self.other, **more)
        self.assertEqual(got, code, "%r\n%s%s" % (args, self.out, self.err))
        return self.out

    def test_elsewhere_without_loss(self):
        ids = [self.bury(self.q, bytes(range(256)), Dlq_Id="bin", Dlq_Key="k", Dlq_Header_Tenant="acme"), self.bury(self.q, '{"a": 1.10}', Dlq_Id="json")]
        self.cli("redrive", ids[1], "--body", "-", "--reason", "try", input='{"a": 2}')
        self.work(self.q, "permanent")
        for name in ("all.jsonl", "all.jsonl.zst"):
            self.cli("export", "--queue", self.q, "-o", self.path(name))
            with Server() as other:
                def cli(*args):
                    return run_cli(args, server=other)
                code, out, err = cli("import", self.path(name), "--reason", "moved", "--yes")
                self.assertEqual((code, other.api("GET", "/v1/queues")[1]["items"]), (1, []))
                self.assertIn("not_found", err)
                other.put_queue(self.q)
                code, out, err = cli("import", self.path(name), "--reason", "moved", "--yes")
                self.assertEqual((code, out), (0, "imported 2, here already 0, failed 0\n"), err)
                code, out, err = cli("import", self.path(name), "--yes")
                self.assertEqual((code, out), (0, "imported 0, here already 2, failed 0\n"), err)
                for old in ids:
                    a, b = self.get(old), other.ok("GET", "/v1/dead-letters/" + old)
                    self.assertEqual(b["imported_id"], old)
                    for member in ("id", "queue", "key", "headers", "history", "reason", "attempts", "redrives", "died_at", "received_at", "content_type", "error"):
                        self.assertEqual(a.get(member), b.get(member), member)
                    for original in ("", "?original=true"):
                        self.assertEqual(self.server.api("GET", "/v1/dead-letters/%s/body%s" % (old, original))[1],
                                         other.api("GET", "/v1/dead-letters/%s/body%s" % (old, original))[1])

    def test_into_another_queue_from_stdin(self):
        dead = self.bury(self.q, "x")
        record = self.cli("export", dead)
        self.other.put_queue(self.q + "-try")
        self.there("import", "-", "--queue", self.q + "-try", "--reason", "try", input=record)
        (d,) = self.other.dead(self.q + "-try")
        self.assertEqual(d["imported_id"], dead)

    def test_what_is_here_is_not_doubled(self):
        dead = self.bury(self.q, "x")
        self.assertEqual(self.cli("import", "-", input=self.cli("export", dead)), "imported 0, here already 1, failed 0\n")

    def test_bad_lines_are_named_and_the_others_taken(self):
        self.bury_many(self.q, ["a", "b", "c"])
        records = self.cli("export", "--queue", self.q).splitlines()
        text = "\n".join([records[0], "", "not json", records[1], "{}", '{"queue": "%s"}' % self.q, records[2]])
        self.there("import", "-", "--yes", input=text, code=1)
        self.assertEqual(self.out, "imported 3, here already 0, failed 3\n")
        for n in (3, 5, 6):
            self.assertRegex(self.err, r"(?m)^line %d: " % n)
        self.assertIn("line 3: bad_request: column 1: ", self.err) # and no second number of a line, of the request
        docs = [json.loads(x) for x in self.there("import", "-", "--yes", "--json", input=text, code=1).splitlines()]
        self.assertEqual([d["line"] for d in docs], [1, 3, 4, 5, 6, 7])
        self.assertEqual([d.get("exists") for d in docs], [True, None, True, None, None, True])

    def test_counts_and_asks(self):
        self.bury_many(self.q, ["a", "b"])
        self.cli("export", "--queue", self.q, "-o", self.path("x"))
        self.there("import", self.path("x"), code=2)
        self.assertIn("import 2 dead letters; say --yes", self.err)
        self.assertEqual(self.there("import", self.path("x"), "--dry-run"), "2 records would be imported\n")
        self.there("import", "-", input=self.read("x"), code=2)
        self.assertIn("more than one record on stdin", self.err)
        self.assertEqual(self.other.dead(self.q), [])
        seen = self.terminal("import", self.path("x"), answer=b"y\n", env={"DLQ_URL": self.other.url, "DLQ_TOKEN": self.other.token})
        self.assertIn("imported 2", seen)

    def test_many_batches(self):
        self.bury_many(self.q, ["x" * 9000] * 2300)  # more than 1000 lines, more than 8 MiB in 1000 of them
        self.cli("export", "--queue", self.q, "-o", self.path("x.zst"))
        self.there("import", self.path("x.zst"), "--yes")
        self.assertEqual(self.out, "imported 2,300, here already 0, failed 0\n")
        self.assertEqual(self.other.counts(self.q)["dead"], 2300)

    def test_damaged_files(self):
        self.bury_many(self.q, ["body %d" % i for i in range(500)])
        self.cli("export", "--queue", self.q, "-o", self.path("x.zst"))
        whole = self.read("x.zst")
        for name, data in (("cut.zst", whole[:-20]), ("bad.zst", whole[:200] + b"\0" * 50 + whole[250:]), ("head.zst", whole[:6])):
            with open(self.path(name), "wb") as f:
                f.write(data)
            self.there("import", self.path(name), "--yes", code=2)
            self.assertIn("bad_request: ", self.err)
            self.assertIn(name, self.err)
        self.there("import", self.path("x.zst"), "--yes")
        self.assertEqual(self.other.counts(self.q)["dead"], 500)
        with open(self.path("two.zst"), "wb") as f:
            f.write(whole + whole)  # two frames, as the archive appends them
        self.assertEqual(self.cli("import", self.path("two.zst"), "--dry-run"), "1,000 records would be imported\n")

    def test_mistakes(self):
        self.refused((([], "which file?"), (["a", "b"], "which file?"), (["-", "--queue", ""], "a queue is wanted"), (["-", "--queue", "bad name"], "a queue is wanted"),
                      (["-", "--reason", " "], "--reason is empty")), "import")
        self.cli("import", "/no/such/file", "--yes", code=3)
        self.cli("import", "/", "--yes", code=7)
        self.assertEqual(self.cli("import", "-", input=""), "imported 0, here already 0, failed 0\n")
        self.assertEqual(self.cli("import", "-", "--dry-run", input="a\n\nb\n"), "2 records would be imported\n")


if __name__ == "__main__":
    unittest.main()
