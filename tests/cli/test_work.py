"""dlq work: exit codes, environment, time limits, signals, crashes of the worker."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import dlqtest
from clitest import CliTest
from dlqtest import SLOW, Server, run_cli, wait_until


class Work(CliTest):
    def setUp(self):
        self.queue = "q-" + self.id().rsplit(".", 1)[1].replace("_", "-")
        self.server.put_queue(self.queue, policy={"max_attempts": 2, "backoff": ["1h"], "visibility_timeout": "30s"})
        self.dir = tempfile.mkdtemp(prefix="dlqwork-")
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.dir]))

    def path(self, name):
        return os.path.join(self.dir, name)

    def script(self, text):
        path = self.path("worker.sh")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def work(self, *command, code=0, options=(), **more):
        """Works until no message is due."""
        got, out, err = run_cli(["work", self.queue, "--until-empty", *options, "--", *command], server=self.server, **more)
        self.assertEqual(got, code, out + err)
        self.err = err
        return out

    def start(self, *command, options=()):
        p = subprocess.Popen([dlqtest.BINARY, "work", self.queue, *options, "--", *command], stderr=subprocess.PIPE,
                             env=dict(os.environ, DLQ_URL=self.server.url, DLQ_TOKEN=self.server.token))
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def await_start(self):
        """Until the script has written its line: a reader that closes before would kill the script with SIGPIPE."""
        with open(self.path("started")) as f:
            self.assertEqual(f.read(), "\n")

    def fail_once(self, text, options=()):
        """Sends one message and works it with the script -> counts of the queue."""
        self.server.send(self.queue, b"body")
        self.work(self.script(text), options=options)
        return self.server.counts(self.queue)

    def dead_after(self, text, options=(), reason="max_attempts"):
        """The dead letter a queue with one attempt makes of it."""
        self.server.put_queue(self.queue, policy={"max_attempts": 1, "visibility_timeout": "30s"})
        self.server.send(self.queue, b"body")
        self.work(self.script(text), options=options)
        (item,) = self.server.dead(self.queue)
        self.assertEqual(item["reason"], reason)
        return self.server.ok("GET", "/v1/dead-letters/" + item["dlq_id"])["history"][-1]

    def test_done(self):
        self.server.send(self.queue, b"a\0b\xff")
        self.server.send(self.queue, b"")
        self.work(self.script("cat >> %s" % self.path("out")))
        with open(self.path("out"), "rb") as f:
            self.assertEqual(f.read(), b"a\0b\xff")
        self.assertEqual(self.server.totals(self.queue)["done"], 2)

    def test_facts_in_the_environment(self):
        self.server.send(self.queue, b"x", Dlq_Id="the-id", Dlq_Key="the key", Content_Type="text/x", Dlq_Header_trace_id="a;b")
        self.work(self.script("env > %s" % self.path("env")), env={"DLQ_HEADER_OLD": "stale"})
        with open(self.path("env")) as f:
            env = dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
        want = {"DLQ_ID": "the-id", "DLQ_QUEUE": self.queue, "DLQ_ATTEMPT": "1", "DLQ_KEY": "the key", "DLQ_REDRIVES": "0",
                "DLQ_CONTENT_TYPE": "text/x", "DLQ_HEADER_TRACE_ID": "a;b"}
        self.assertEqual({k: env.get(k) for k in want}, want)
        self.assertNotIn("DLQ_HEADER_OLD", env)

    def test_transient_codes(self):
        for code in (75, 111, 1):
            counts = self.fail_once("exit %d" % code)
            self.assertEqual((counts["retrying"], counts["dead"]), ([75, 111, 1].index(code) + 1, 0))

    def test_permanent_codes(self):
        attempt = self.dead_after("echo first >&2; echo 'no such shop' >&2; echo >&2; exit 65", reason="permanent")
        self.assertEqual((attempt["error"]["type"], attempt["error"]["message"]), ("exit 65", "no such shop"))
        self.assertIn("first\nno such shop\n", attempt["error"]["detail"])
        self.assertEqual(attempt["error"]["exit_code"], 65)
        self.server.send(self.queue, b"x")
        self.work(self.script("exit 100"))
        self.assertEqual({d["reason"] for d in self.server.dead(self.queue)}, {"permanent"})
        self.assertEqual(self.server.counts(self.queue)["dead"], 2)

    def test_signal(self):
        attempt = self.dead_after("kill -SEGV $$")
        self.assertEqual((attempt["outcome"], attempt["error"]["type"]), ("transient", "signal SEGV"))

    def test_timeout_ends_the_whole_group(self):
        # Shell and child ignore SIGTERM; both hold the fifo open, so its reader ends when both are gone.
        os.mkfifo(self.path("alive"))
        reader = os.open(self.path("alive"), os.O_RDONLY | os.O_NONBLOCK)
        attempt = self.dead_after("trap '' TERM; exec 3> %s; echo working >&2; sleep 600; true" % self.path("alive"),
                                  options=["--timeout", "300ms"])
        self.assertEqual(os.read(reader, 1), b"")
        os.close(reader)
        self.assertEqual((attempt["outcome"], attempt["error"]["type"], attempt["error"]["message"]), ("transient", "timeout", "working"))

    def test_only_the_end_of_stderr_is_kept(self):
        attempt = self.dead_after("seq 1 100000 >&2; printf 'the \\033[1mlast\\377' >&2; exit 1")
        self.assertEqual(attempt["error"]["message"], "the \\x1b[1mlast\\xff")
        self.assertLessEqual(len(attempt["error"]["detail"]), 4200)

    def test_endless_stderr_does_not_hold_up_the_time_limit(self):
        # Our stderr is slower than the command: there is always more to read.
        self.server.send(self.queue, b"x")
        p = self.start("sh", "-c", "exec yes >&2", options=["--until-empty", "--timeout", "500ms"])
        end = time.monotonic() + 30 * SLOW
        while os.read(p.stderr.fileno(), 4096):
            self.assertLess(time.monotonic(), end, "the time limit does not fire")
            time.sleep(0.001)
        self.assertEqual(p.wait(30 * SLOW), 0)
        self.assertEqual(self.server.totals(self.queue)["failed_attempts"], 1)

    def test_silent_failure(self):
        self.assertEqual(self.dead_after("exit 3")["error"]["message"], "the command said nothing on stderr")

    def test_command_that_ignores_a_large_body(self):
        self.server.send(self.queue, b"x" * 900000)
        self.work("true")
        self.assertEqual(self.server.totals(self.queue)["done"], 1)

    def test_command_that_does_not_exist(self):
        self.server.send(self.queue, b"x")
        self.work("/nonexistent/command", code=3)
        self.assertIn("cannot start /nonexistent/command: No such file or directory", self.err)
        counts = self.server.counts(self.queue)
        self.assertEqual((counts["ready"], counts["retrying"], counts["leased"]), (1, 0, 0))

    def test_lease_is_extended_while_it_runs(self):
        self.server.send(self.queue, b"x")
        self.work(self.script("sleep 2.5"), options=["--visibility-timeout", "1s"])
        totals = self.server.totals(self.queue)
        self.assertEqual((totals["done"], totals["failed_attempts"]), (1, 0))

    def test_concurrency(self):
        # Each waits for the other: it only ends when two run at once.
        os.mkfifo(self.path("a"))
        for i in range(2):
            self.server.send(self.queue, b"%d" % i)
        self.work(self.script('if [ "$(cat)" = 0 ]; then echo hi > {0}; else cat {0}; fi'.format(self.path("a"))),
                  options=["--concurrency", "2"])
        self.assertEqual(self.server.totals(self.queue)["done"], 2)

    def test_json_says_what_became_of_each(self):
        self.server.send(self.queue, b"x", Dlq_Id="m1")
        got, out, err = run_cli(["work", self.queue, "--until-empty", "--json", "--", "false"], server=self.server)
        line = json.loads(out)
        self.assertEqual((line["id"], line["outcome"], line["result"], line["error"]["type"]), ("m1", "transient", "retry", "exit 1"))

    def test_term_waits_for_the_running_command(self):
        os.mkfifo(self.path("started"))
        os.mkfifo(self.path("go"))
        self.server.send(self.queue, b"1")
        self.server.send(self.queue, b"2")
        p = self.start(self.script("echo > %s; cat %s" % (self.path("started"), self.path("go"))))
        self.await_start()
        p.send_signal(signal.SIGTERM)
        while b"no new messages" not in p.stderr.readline():
            pass
        open(self.path("go"), "w").close()
        self.assertEqual(p.wait(30 * SLOW), 0)
        counts = self.server.counts(self.queue)
        self.assertEqual((self.server.totals(self.queue)["done"], counts["ready"], counts["leased"]), (1, 1, 0))

    def test_second_signal_gives_the_message_back(self):
        os.mkfifo(self.path("started"))
        self.server.send(self.queue, b"1")
        p = self.start(self.script("echo > %s; sleep 600" % self.path("started")))
        self.await_start()
        p.send_signal(signal.SIGTERM)
        while b"no new messages" not in p.stderr.readline():
            pass
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(30 * SLOW), 0)
        counts, totals = self.server.counts(self.queue), self.server.totals(self.queue)
        self.assertEqual((counts["ready"], counts["retrying"], counts["leased"], totals["failed_attempts"]), (1, 0, 0, 0))

    def test_kill_9_of_the_worker_loses_nothing(self):
        os.mkfifo(self.path("started"))
        self.server.send(self.queue, b"1")
        self.server.put_queue(self.queue, policy={"max_attempts": 3, "backoff": ["1s"], "visibility_timeout": "1s"})
        p = self.start(self.script("echo $$ > %s; exec sleep 600" % self.path("started")))
        with open(self.path("started")) as f:
            child = int(f.read())
        p.kill()
        p.wait()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: self.server.totals(self.queue)["failed_attempts"] == 1, what="the end of the lease")
        got = wait_until(lambda: self.server.receive(self.queue, wait="5s"))
        self.assertEqual((got[0]["body"], got[0]["attempts"]), ("1", 1))

    def test_goes_on_after_a_restart_of_the_server(self):
        with Server() as server:
            server.put_queue("again")
            p = subprocess.Popen([dlqtest.BINARY, "work", "again", "--", "true"], stderr=subprocess.PIPE,
                                 env=dict(os.environ, DLQ_URL=server.url, DLQ_TOKEN=server.token))
            try:
                while b"works again" not in p.stderr.readline():
                    pass
                server.kill()
                while b"trying again" not in p.stderr.readline():
                    pass
                server.restart()
                server.send("again", b"x")
                wait_until(lambda: server.totals("again")["done"] == 1)
                p.send_signal(signal.SIGTERM)
                self.assertEqual(p.wait(30 * SLOW), 0)
            finally:
                p.kill()
                p.wait()
                p.stderr.close()

    def test_unknown_queue_and_bad_options(self):
        code, _, err = run_cli(["work", "nowhere", "--", "true"], server=self.server)
        self.assertEqual(code, 3)
        code, _, err = run_cli(["work", "q", "--concurrency", "0", "--", "true"], server=self.server)
        self.assertEqual(code, 2)


if __name__ == "__main__":
    unittest.main()
