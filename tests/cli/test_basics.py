"""The command line without a server: help, mistakes, settings, completion, man pages."""
import json
import os
import re
import subprocess
import tempfile
import unittest

import dlqtest
from dlqtest import SOURCE, run_cli

NO_SERVER = {"DLQ_URL": "http://127.0.0.1:9", "DLQ_TOKEN": "t"}
COMMANDS = run_cli(["completion", "commands"])[1].split()


def config_file(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
    f.write(text)
    f.close()
    return f.name


def config_page():
    with open(os.path.join(SOURCE, "docs", "config.md")) as f:
        return f.read()


class Help(unittest.TestCase):
    def test_lists_every_command(self):
        code, out, _ = run_cli(["help"])
        self.assertEqual(code, 0)
        for word in "serve send receive work queues groups list show edit redrive redrives discard archive restore export import audit token config demo version help completion".split():
            self.assertRegex(out, r"(?m)^  %s +\S" % word)

    def test_each_command_explains_itself(self):
        for command in COMMANDS:
            code, out, err = run_cli(["help", command])
            self.assertEqual((code, err), (0, ""), command)
            self.assertIn("Usage:\n  dlq " + command, out)
            self.assertEqual(run_cli([command, "--help"])[1], out)
            self.assertNotIn("\033", out, "colours only on a terminal")

    def test_examples_use_known_commands_and_options(self):
        for command in COMMANDS:
            out = run_cli(["help", command])[1]
            for example in re.findall(r"(?m)^  (dlq .*)$", out.partition("Examples:")[2]):
                for part in example.split("|"):
                    words = part.split()
                    if words[:1] == ["dlq"]:
                        self.assertIn(words[1], COMMANDS, example)
                        known = run_cli(["help", words[1]])[1]
                        for option in re.findall(r" (--[a-z-]+)", part.partition(" -- ")[0]):
                            self.assertIn("\n  %s " % option, known, example)

    def test_no_argument_shows_help_and_fails(self):
        code, out, _ = run_cli([])
        self.assertEqual(code, 2)
        self.assertIn("Usage:", out)

    def test_version(self):
        code, out, _ = run_cli(["version"])
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^dlq \d+\.\d+\.\d+\nlibcurl \d")
        doc = json.loads(run_cli(["version", "--json"])[1])
        self.assertEqual(out.split()[1], doc["version"])
        self.assertIn("jansson", doc["libraries"])
        self.assertEqual(run_cli(["--version"])[1], out)


class Mistakes(unittest.TestCase):
    def check(self, args, code, text, **more):
        got, out, err = run_cli(args, **more)
        self.assertEqual((got, out), (code, ""), err)
        self.assertIn(text, err)

    def test_unknown_command_names_the_nearest(self):
        self.check(["redive"], 2, "did you mean `dlq redrive`?")
        self.check(["help", "snd"], 2, "dlq help send")
        self.check(["xyzzy-nothing"], 2, "See `dlq help`")

    def test_unknown_option_names_the_nearest(self):
        self.check(["send", "q", "--idd", "1"], 2, "did you mean --id?")
        self.check(["send", "q", "-x"], 2, "unknown option -x")

    def test_options_and_values(self):
        self.check(["send", "q", "--id"], 2, "--id needs a value")
        self.check(["list", "--json=yes"], 2, "--json takes no value")
        self.check(["list", "--limit", "0"], 2, "--limit 0: a whole number from 1")
        self.check(["list", "--limit", "7x"], 2, "--limit 7x")
        self.check(["receive", "q", "--wait", "soon"], 2, "a duration is")
        self.check(["receive", "q", "--nack", "maybe"], 2, "transient, permanent or release")
        for option in ("--error", "--error-type", "--retry-after"):
            self.check(["receive", "q", option, "1s"], 2, option + " goes with --nack", env=NO_SERVER)
            self.check(["receive", "q", "--ack", option, "1s"], 2, option + " goes with --nack", env=NO_SERVER)
        self.check(["send", "q", "--header", "novalue", "x"], 2, "NAME=VALUE", env=NO_SERVER)
        self.check(["send", "q", "--key", "a\nb", "x"], 2, "line break", env=NO_SERVER)

    def test_missing_arguments(self):
        self.check(["send"], 2, "which queue?")
        self.check(["show"], 2, "which dead letter?")
        self.check(["work", "q"], 2, "dlq work q -- ./handle")
        self.check(["queues", "create"], 2, "one queue is wanted")
        self.check(["queues", "pawse", "q"], 2, "did you mean pause?")
        self.check(["token", "make", "x"], 2, "create, list or revoke")
        self.check(["redrives", "stop", "x"], 2, "list, show, pause, resume or cancel")
        self.check(["import"], 2, "which file?")
        self.check(["edit"], 2, "which dead letters?")
        self.check(["export", "-o"], 2, "--output needs a value: --output FILE")

    def test_changes_of_dead_letters_need_a_reason(self):
        self.check(["redrive", "01"], 2, "--reason is needed")
        self.check(["redrive", "--queue", "q", "--reason", ""], 2, "--reason is needed")
        for command in (["discard"], ["restore"], ["archive", "give-up"], ["edit"]):
            self.check([*command, "01"], 2, "--reason is needed")
        self.check(["redrive", "--reason", "r"], 2, "which dead letters?")
        self.check(["redrive", "01", "--queue", "q", "--reason", "r"], 2, "which one is it?")
        self.check(["redrive", "01", "02", "--body", "f", "--reason", "r"], 2, "exactly one")

    def test_many_need_yes(self):
        self.check(["discard", "a", "b", "--reason", "r"], 2, "discard 2 dead letters; say --yes", env=NO_SERVER)

    def test_no_server_says_how_to_start_one(self):
        self.check(["queues"], 6, "no server answers at http://127.0.0.1:9; start one with `dlq serve`", env=NO_SERVER)

    def test_no_token_says_where_one_is_sought(self):
        env = dict(os.environ, DLQ_DATA="/nonexistent")
        env.pop("DLQ_TOKEN", None)
        self.check(["queues"], 4, "/nonexistent/admin.token", env=env)

    def test_bad_address(self):
        self.check(["queues", "--url", "ftp://x"], 2, "is no server address", env=NO_SERVER)


class Settings(unittest.TestCase):
    def rows(self, args=(), env=None):
        code, out, err = run_cli(["config", "show", "--json", *args], env=env)
        self.assertEqual(code, 0, err)
        return {row["key"]: row for row in map(json.loads, out.splitlines())}

    def check(self, text, message):
        path = config_file(text)
        self.addCleanup(os.unlink, path)
        code, out, err = run_cli(["config", "check", path])
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(message.replace("FILE", path), err)

    def test_every_key_is_documented(self):
        page = config_page()
        for key in self.rows():
            name = key.split(".")[-1]
            self.assertRegex(page, r"\b%s\b" % name, key)

    def test_documented_defaults_are_the_defaults(self):
        page = config_page()
        for key, row in self.rows().items():
            if key.startswith("limits.") or key in ("listen", "data", "log_level", "log_format"):
                self.assertRegex(page, r"(?m)^ +%s: %s\b" % (key.split(".")[-1], re.escape(row["value"])), key)

    def test_the_page_is_a_valid_file(self):
        page = config_page()
        block = "".join(line[4:] + "\n" for line in page.splitlines() if line.startswith("    "))
        path = config_file(block)
        self.addCleanup(os.unlink, path)
        code, out, err = run_cli(["config", "check", path])
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1 queue", out)

    def test_precedence_and_origin(self):
        path = config_file("log_level: warn\nlimits:\n  idle_timeout: 5s\n  max_headers: 10\n")
        self.addCleanup(os.unlink, path)
        rows = self.rows(["--config", path, "--log-level", "debug"], {"DLQ_LIMITS_IDLE_TIMEOUT": "7s"})
        self.assertEqual((rows["log_level"]["value"], rows["log_level"]["from"]), ("debug", "--log-level"))
        self.assertEqual((rows["limits.idle_timeout"]["value"], rows["limits.idle_timeout"]["from"]), ("7s", "DLQ_LIMITS_IDLE_TIMEOUT"))
        self.assertEqual((rows["limits.max_headers"]["value"], rows["limits.max_headers"]["from"]), ("10", path + ":4"))
        self.assertEqual(rows["listen"]["from"], "default")

    def test_secrets_are_not_shown(self):
        secret = config_file("http://hook/very-secret\n")
        path = config_file("on_dead_letter: file:%s\n" % secret)
        self.addCleanup(os.unlink, path)
        self.addCleanup(os.unlink, secret)
        self.assertEqual(self.rows(["--config", path])["on_dead_letter"]["value"], "(secret)")
        path = config_file("on_dead_letter: http://hook/${HOOK_KEY}\n")
        self.addCleanup(os.unlink, path)
        self.assertEqual(self.rows(["--config", path], {"HOOK_KEY": "k"})["on_dead_letter"]["value"], "(secret)")
        self.check("on_dead_letter: http://hook/${NO_SUCH_VARIABLE}\n", "FILE:1: on_dead_letter: the environment has no variable NO_SUCH_VARIABLE")
        self.check("on_dead_letter: file:/nonexistent\n", "/nonexistent")

    def test_mistakes_name_file_line_and_nearest(self):
        self.check("lisen: 1\n", 'FILE:1: lisen: there is no such setting; did you mean "listen"?')
        self.check("limits:\n  idle_timeut: 3s\n", "FILE:2: limits.idle_timeut")
        self.check("limits:\n  idle_timeout: 3\n", "FILE:2: limits.idle_timeout")
        self.check("limits:\n  idle_timeout: 0s\n", "FILE:2")
        self.check("limits: 3\n", "FILE:1: limits")
        self.check("listen: nowhere\n", "HOST:PORT")
        self.check("listen: 127.0.0.1:70000\n", "HOST:PORT")
        self.check("log_level: loud\n", "FILE:1: log_level")
        self.check("log_format: xml\n", "text, json")
        self.check("on_dead_letter: mail@x\n", "http://")
        self.check("tls: {cert: a.pem}\n", "tls.cert and tls.key go together")
        self.check("queues: {}\n", "FILE:1: queues")
        self.check("queues:\n  - name: a\n    policy:\n      max_attempts: 0\n", "FILE:4")
        self.check("queues:\n  - name: a\n  - name: a\n", "defined twice")
        self.check("queues:\n  - name: a\n    polcy: {}\n", 'did you mean "policy"?')
        self.check("a: [\n", "FILE:")

    def test_environment_is_checked_too(self):
        code, _, err = run_cli(["config", "show"], env={"DLQ_LIMITS_MAX_HEADERS": "many"})
        self.assertEqual(code, 2)
        self.assertIn("DLQ_LIMITS_MAX_HEADERS", err)

    def test_missing_file(self):
        code, _, err = run_cli(["config", "check", "/nonexistent.yaml"])
        self.assertEqual(code, 3)
        self.assertIn("cannot open /nonexistent.yaml", err)


class Packaging(unittest.TestCase):
    def kept(self, *path):
        with open(os.path.join(SOURCE, "packaging", *path)) as f:
            return f.read()

    def test_completion_is_fresh(self):
        self.assertEqual(run_cli(["completion", "bash"])[1], self.kept("dlq.bash"), "run `ninja packaging`")

    def test_pages_are_fresh_and_clean(self):
        pages = {"dlq.1": run_cli(["completion", "man"])[1]}
        for command in COMMANDS:
            pages["dlq-%s.1" % command] = run_cli(["completion", "man", command])[1]
        self.assertEqual(sorted(pages), sorted(os.listdir(os.path.join(SOURCE, "packaging", "man"))))
        for name, text in pages.items():
            self.assertEqual(text, self.kept("man", name), "run `ninja packaging`")
            self.assertIn("EXIT STATUS", text)
        try:
            lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning"] + [os.path.join(SOURCE, "packaging", "man", n) for n in pages],
                                  capture_output=True, text=True)
        except FileNotFoundError:
            self.skipTest("mandoc is not installed")
        self.assertEqual(lint.stdout, "")

    def complete(self, *words):
        script = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dlq; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", os.path.join(SOURCE, "packaging", "dlq.bash"), *words],
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("dlq", "redr"), ["redrive", "redrives"])
        self.assertEqual(self.complete("dlq", "redrive", "--rea"), ["--reason"])
        self.assertEqual(self.complete("dlq", "queues", "pa"), ["pause"])
        self.assertEqual(self.complete("dlq", "archive", ""), ["list", "show", "give-up"])
        self.assertEqual(self.complete("dlq", "edit", "--set"), ["--set-header"])
        self.assertEqual(self.complete("dlq", "export", "-o", os.path.join(SOURCE, "docs", "conf")), [os.path.join(SOURCE, "docs", "config.md")])
        self.assertEqual(self.complete("dlq", "help", "tok"), ["token"])
        self.assertEqual(self.complete("dlq", "config", "check", os.path.join(SOURCE, "docs", "conf")),
                         [os.path.join(SOURCE, "docs", "config.md")])
        self.assertEqual(self.complete("dlq", "serve", "--config", os.path.join(SOURCE, "docs", "conf")),
                         [os.path.join(SOURCE, "docs", "config.md")])


if __name__ == "__main__":
    unittest.main()
