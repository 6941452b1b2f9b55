"""dlq edit: the preview of a repair, and one body in an editor."""
import glob
import json
import os
import shutil
import stat
import tempfile
import unittest

from clitest import CliTest


class Preview(CliTest):
    def setUp(self):
        super().setUp()
        self.q = self.fresh()

    def test_what_would_change(self):
        ids = self.bury_many(self.q, [{"sku": "AB%%2F%d" % i, "n": i} for i in range(12)] + [{"sku": "plain", "n": 12}, "no json"])
        out = self.cli("edit", "--queue", self.q, "--jq", '.sku |= gsub("%2F"; "/")', "--show", "3", code=1)
        self.assertEqual(out.count(".sku: "), 3)
        self.assertRegex(out, r'\.sku: "AB%2F\d+" -> "AB/\d+"')
        for name, n in (("chosen", 14), ("changed", 12), ("unchanged", 1), ("failed", 1)):
            self.assertRegex(out, r"(?m)^  %s +%d\b" % (name, n))
        self.assertIn("what would be skipped", out)
        self.assertIn("fails:", out)
        self.assertIn(ids[13], out)
        self.assertNotIn("\033", out)
        command = out.rstrip().splitlines()[-1].strip()
        self.assertEqual(command, "dlq redrive --queue %s --jq '.sku |= gsub(\"%%2F\"; \"/\")' --first 5 --stop-at 10%% --reason '...'" % self.q)
        self.assertEqual(self.server.counts(self.q)["dead"], 14, "nothing is changed by looking")
        (doc,) = self.lines("edit", "--queue", self.q, "--jq", '.sku |= gsub("%2F"; "/")', "--show", "2", code=1)
        self.assertEqual((doc["selected"], doc["changed"], doc["unchanged"], doc["failed"]), (14, 12, 1, 1))
        self.assertEqual(len([i for i in doc["items"] if "changes" in i]), 2)

    def test_added_removed_and_moved(self):
        self.bury(self.q, json.dumps({"a": 1, "b": [1, 2], "long": "x" * 100, "text": "a\u00e9" * 60}, ensure_ascii=False))
        out = self.cli("edit", "--queue", self.q, "--jq", '.c = {"d": true} | del(.a) | .b[1] = 7 | .long += "y" | .text |= "b" + .[1:]')
        self.assertIn('.c: added {"d":true}', out)
        self.assertIn(".a: removed 1", out)
        self.assertIn(".b[1]: 2 -> 7", out)
        self.assertRegex(out, r"\.text:\n +\"a\u00e9(a\u00e9)+a?\.\.\.\n +-> \"b\u00e9(a\u00e9)+a?\.\.\.\n")
        self.assertRegex(out, r"\.long:\n +\.\.\.x{20}\"\n +-> \.\.\.x{20}y\"\n")

    def test_headers(self):
        dead = self.bury(self.q, {"a": 1}, Dlq_Header_Region="eu", Dlq_Header_Old="1")
        out = self.cli("edit", dead, "--set-header", "Region=us", "--remove-header", "old")
        self.assertIn("header set region: us", out)
        self.assertIn("header removed old", out)
        self.assertIn("dlq redrive %s --set-header Region=us --remove-header old --reason '...'" % dead, out)
        self.cli("edit", dead, "--set-header", "region=eu")
        self.assertIn("The edit changes nothing", self.out)

    def test_numbers_that_lose_digits(self):
        self.bury(self.q, '{"id": 12345678901234567890, "n": 1}')
        self.assertIn("careful: ", self.cli("edit", "--queue", self.q, "--jq", ".copy = .id"))

    def test_filter_and_group(self):
        self.bury(self.q, {"n": 1})
        dead = self.bury(self.q, {"n": 2}, {"type": "Other", "message": "x"})
        group = self.get(dead)["group"]
        self.cli("edit", "--queue", self.q, "--where", ".body.n == 2", "--jq", ".n += 1", "--reason", "it's off")
        self.assertIn("--where '.body.n == 2' --jq '.n += 1' --reason 'it'\\''s off'", self.out)
        self.cli("edit", "--group", group, "--jq", ".n += 1")
        self.assertRegex(self.out, r"(?m)^  chosen +1$")
        self.cli("edit", "--queue", self.q, "--where", ".body.n == 3", "--jq", ".n += 1")
        self.assertEqual(self.out, "")
        self.assertIn("nothing fits", self.err)

    def test_an_id_that_is_not_there(self):
        dead = self.bury(self.q, {"n": 1})
        self.cli("edit", dead, "nope", "--jq", ".n += 1", code=3)
        self.assertEqual(self.out, "")
        self.assertIn("there is no dead letter nope", self.err)

    def test_colours_on_a_terminal(self):
        self.bury(self.q, {"a": "\x1b[2J"})
        seen = self.terminal("edit", "--queue", self.q, "--jq", ".a = 1")
        self.assertIn("\x1b[31m", seen)
        self.assertIn("\x1b[32m1", seen)
        self.assertNotIn("\x1b[2J", seen)

    def test_edited_redrive(self):
        bodies = ['{"sku":  "AB%%2F%d", "big": 12345678901234567890, "price": 1.10}' % i for i in range(3)]
        ids = self.bury_many(self.q, bodies + ["no json"])
        (doc,) = self.lines("redrive", "--queue", self.q, "--jq", '.sku |= gsub("%2F"; "/")', "--dry-run", code=1)
        self.assertEqual(doc, {"dry_run": True, "total": 4, "edited": {"changed": 3, "unchanged": 0, "failed": 1}})
        self.cli("redrive", "--queue", self.q, "--jq", '.sku |= gsub("%2F"; "/")', "--set-header", "fixed=yes", "--reason", "decoded", "--yes", code=1)
        self.assertIn("edited: 3 changed, 0 unchanged, 1 failed and skipped", self.out)
        self.assertIn("3 put back, 1 skipped", self.out)
        self.assertIn(ids[3], self.err)
        got = self.work(self.q)
        self.assertEqual(sorted(d["body"] for d in got), [b.replace("%2F", "/") for b in bodies], "other bytes stay")
        self.assertEqual({json.dumps(d["headers"]) for d in got}, {'{"fixed": "yes"}'})
        self.assertEqual(self.cli("show", ids[0], "--original"), bodies[0])
        (r,) = [r for r in self.lines("redrives") if r.get("queue") == self.q]
        out = self.cli("redrives", "show", r["redrive_id"])
        self.assertIn("edited: 3 changed, 0 unchanged, 1 failed and skipped", out)
        self.assertIn("edited by jq", out)
        notes = [i.get("note") for i in self.lines("redrives", "show", r["redrive_id"], "--items") if i["state"] == "skipped"]
        self.assertEqual(len(notes), 1)
        self.assertTrue(notes[0])

    def test_a_second_repair_starts_from_the_original(self):
        dead = self.bury(self.q, '{"n": 1}')
        self.cli("redrive", dead, "--jq", ".n += 10", "--reason", "first try")
        self.work(self.q, "permanent")
        self.assertIn(".n: 1 -> 6", self.cli("edit", dead, "--jq", ".n += 5"))
        self.assertIn(".n: 11 -> 16", self.cli("edit", dead, "--jq", ".n += 5", "--from-edited"))
        self.assertIn("--jq '.n += 5' --from-edited --reason", self.out)
        self.cli("redrive", dead, "--jq", ".n += 5", "--from-edited", "--reason", "second")
        self.assertEqual([d["body"] for d in self.work(self.q)], ['{"n": 16}'])
        self.assertEqual(self.cli("show", dead, "--original"), '{"n": 1}')

    def test_mistakes(self):
        self.bury(self.q, {"a": 1})
        self.refused(((["--jq", ".a |"], "jq"), (["--jq", ""], "a program is wanted"), (["--jq", "env"], "env"), (["--set-header", "x"], "NAME=VALUE"),
                      (["--remove-header", "a=b"], "the name of a header"), (["--set-header", "a=1", "--remove-header", "A"], "which one is it"),
                      (["--jq", ".", "--show", "101"], "whole number"), (["--jq", ".", "--show", "x"], "whole number"), ([], "--jq PROGRAM"),
                      (["--from-edited", "--set-header", "a=1"], "there is no --jq")),
                     "edit", "--queue", self.q)
        self.refused(((["--jq", "."], "which dead letters?"), (["x", "--queue", "q", "--jq", "."], "which one is it"),
                      (["x", "--preview", "--reason", "r"], "go with --jq"), (["x"], "--reason is needed"),
                      (["x", "--reason", "r"], "no terminal to ask at")), "edit")
        self.cli("edit", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--reason", "r", "--yes", code=3)


class Editor(CliTest):
    def setUp(self):
        super().setUp()
        self.q = self.fresh()
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def editor(self, script):
        """A program that is called with the file."""
        path = os.path.join(self.dir, "editor")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path, stat.S_IRWXU)
        return {"VISUAL": path, "TMPDIR": self.dir}

    def files(self):
        return glob.glob(os.path.join(self.dir, "dlq-edit-*"))

    def edit(self, dead, script, *args, code=0):
        return self.cli("edit", dead, "--reason", "by hand", *args, env=self.editor(script), code=code)

    def test_puts_it_back_with_the_new_body(self):
        dead = self.bury(self.q, '{"sku": "AB%2F1", "n": [1, 2]}')
        out = self.edit(dead, "sed -i 's/%2F/\\//; s/, 2/, 3/' \"$1\"; stat -c %a \"$1\" >" + self.dir + "/mode", "--yes")
        self.assertIn('.sku: "AB%2F1" -> "AB/1"', out)
        self.assertIn(".n[1]: 2 -> 3", out)
        self.assertIn("1 put back", out)
        (d,) = self.work(self.q)
        self.assertEqual(d["body"], '{"sku": "AB/1", "n": [1, 3]}', "no line break at the end")
        self.assertEqual(self.files(), [])
        with open(os.path.join(self.dir, "mode")) as f:
            self.assertEqual(f.read(), "600\n")
        self.assertEqual(self.cli("show", dead, "--original"), '{"sku": "AB%2F1", "n": [1, 2]}')

    def test_nothing_happens_when_unchanged(self):
        dead = self.bury(self.q, "text")
        self.edit(dead, "echo >>\"$1\"", "--yes", code=1)  # only the line break that editors add
        self.assertIn("unchanged; nothing was put back", self.err)
        self.edit(dead, "true", "--yes", code=1)
        self.assertEqual((self.get(dead)["state"], self.files()), ("dead", []))

    def test_nothing_happens_when_the_editor_fails(self):
        dead = self.bury(self.q, "text")
        self.edit(dead, "exit 3", "--yes", code=7)
        self.assertIn("ended with exit code 3; nothing was put back", self.err)
        self.assertEqual(self.files(), [])
        self.edit(dead, "echo typed >\"$1\"; exit 1", "--yes", code=7)
        (kept,) = self.files()
        self.assertIn("what you typed is in " + kept, self.err)
        self.cli("edit", dead, "--reason", "r", "--yes", code=7, env={"VISUAL": "", "EDITOR": "/no/such/editor", "TMPDIR": self.dir})
        self.assertIn("set EDITOR", self.err)
        self.assertEqual(self.get(dead)["state"], "dead")

    def test_text_is_kept_when_it_cannot_be_put_back(self):
        dead = self.bury(self.q, "text")
        # Somebody else discards it while the editor is open.
        self.edit(dead, "echo typed >\"$1\"; %s discard %s --reason other" % (os.environ.get("DLQ_BINARY") or os.path.join(os.environ["DLQ_BUILD"], "dlq"), dead),
                  "--yes", code=5)
        (kept,) = self.files()
        with open(kept) as f:
            self.assertEqual(f.read(), "typed\n")
        self.assertIn("dlq redrive %s --body %s" % (dead, kept), self.err)

    def test_text_lines(self):
        dead = self.bury(self.q, "one\ntwo\nthree\nfour\n")
        out = self.edit(dead, "sed -i s/two/2/ \"$1\"", "--yes")
        self.assertIn("    - two\n    + 2\n", out)
        self.assertNotIn("three", out)

    def test_warns_when_it_is_no_json_any_more(self):
        dead = self.bury(self.q, '{"a": 1}')
        self.edit(dead, "echo '{\"a\": 1' >\"$1\"", "--yes")
        self.assertIn("careful: it was a JSON document and is none any more", self.err)

    def test_numbers_beyond_64_bits(self):
        dead = self.bury(self.q, '{"id":12345678901234567890, "p":1.10,"big":1e999, "odd key":[1,{"to":"exmaple"}]}')
        out = self.edit(dead, "case $1 in *.json) sed -i s/exmaple/example/ \"$1\";; esac", "--yes")
        self.assertIn('    .["odd key"][1].to: "exmaple" -> "example"\n', out)
        self.assertNotIn(".id", out)
        self.work(self.q, "permanent", error={"type": "Broken", "message": "x"})
        out = self.edit(dead, "sed -i 's/67890,/67891,/; s/1.10/1.1/' \"$1\"", "--yes")
        self.assertIn("    .id: 12345678901234567890 -> 12345678901234567891\n    .p: 1.10 -> 1.1\n", out)
        self.work(self.q, "permanent", error={"type": "Broken", "message": "x"})
        self.edit(dead, "sed -i 's/}]}/}}/' \"$1\"", "--yes")
        self.assertIn("careful: it was a JSON document and is none any more: line 1, column ", self.err)

    def test_the_editor_takes_the_file_away(self):
        dead = self.bury(self.q, "text")
        self.edit(dead, "rm \"$1\"", "--yes", code=3)
        self.assertIn("left no file; nothing was put back", self.err)
        self.assertNotIn("what you typed", self.err)
        self.assertEqual(self.get(dead)["state"], "dead")

    def test_asks(self):
        dead = self.bury(self.q, "old")
        seen = self.terminal("edit", dead, "--reason", "r", env=self.editor("echo new >\"$1\""), answer=b"n\n", code=1)
        self.assertIn("put it back with this body?", seen)
        self.assertIn("nothing was put back", seen)
        self.assertEqual((self.get(dead)["state"], len(self.files())), ("dead", 1))
        self.terminal("edit", dead, "--reason", "r", env=self.editor("echo new >\"$1\""), answer=b"y\n")
        self.assertEqual(self.work(self.q)[0]["body"], "new")

    def test_not_for_everything(self):
        dead = self.bury(self.q, b"\xff\x00")
        self.edit(dead, "true", "--yes", code=2)
        self.assertIn("the body of %s is no text" % dead, self.err)
        self.cli("discard", dead, "--reason", "r")
        self.edit(dead, "true", "--yes", code=5)
        self.assertIn("is discarded, not dead", self.err)


if __name__ == "__main__":
    unittest.main()
