"""A test case for the command line against one real server of the class.

    class Search(CliTest):
        def test_x(self):
            q = self.fresh()                       # a queue of this test
            dead = self.bury(q, b"{}")             # one message that died at once -> its dlq_id
            self.cli("list", q, code=0)            # self.out, self.err
            docs = self.lines("list", q)           # with --json
"""
import json
import os
import pty
import re
import subprocess
import unittest

import dlqtest
from dlqtest import Server, run_cli


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def cli(self, *args, code=0, **more):
        got, out, err = run_cli(args, server=self.server, **more)
        self.assertEqual(got, code, "%r\n%s%s" % (args, out, err))
        self.out, self.err = out, err
        return out

    def lines(self, *args, **more):
        return [json.loads(line) for line in self.cli(*args, "--json", **more).splitlines()]

    def refused(self, cases, *before):
        """Each (arguments, text): exit code 2, nothing on stdout, and the text in what it says."""
        for args, text in cases:
            with self.subTest(args=args):
                self.cli(*before, *args, code=2)
                self.assertEqual(self.out, "")
                self.assertIn(text, self.err)

    def fresh(self, suffix="", **settings):
        """A queue of this test."""
        name = re.sub(r"[^a-z0-9]+", "-", self.id().rsplit(".", 1)[1]) + suffix
        self.server.put_queue(name, **settings)
        return name

    def bury(self, queue, body=b"broken", error=None, outcome="permanent", **headers):
        """One message that died at once -> its dlq_id."""
        self.server.send(queue, body if isinstance(body, (bytes, str)) else json.dumps(body), **headers)
        (d,) = self.server.receive(queue, wait="5s")
        result = self.server.settle(queue, d["receipt"], outcome, error=error or {"type": "Broken", "message": "no such shop"})
        self.assertEqual(result["result"], "dead")
        return result["dlq_id"]

    def bury_many(self, queue, bodies, error=None):
        """Many that died at once -> their dlq_ids, in this order."""
        ids = {}
        for at in range(0, len(bodies), 1000):
            part = [{"id": "m-%d" % (at + i), "body": b if isinstance(b, str) else json.dumps(b)} for i, b in enumerate(bodies[at:at + 1000])]
            self.server.ok("POST", "/v1/queues/%s/batch" % queue, "\n".join(map(json.dumps, part)))
            got = self.server.receive(queue, max=1000, wait="5s")
            results = [{"receipt": d["receipt"], "outcome": "permanent", "error": error or {"type": "Broken", "message": "no such shop"}} for d in got]
            answers = self.server.ok("POST", "/v1/queues/%s/settle" % queue, {"results": results})["results"]
            ids.update((d["id"], a["dlq_id"]) for d, a in zip(got, answers))
        return [ids["m-%d" % i] for i in range(len(bodies))]

    def get(self, dlq_id):
        return self.server.ok("GET", "/v1/dead-letters/" + dlq_id)

    def work(self, queue, outcome="ok", **more):
        """Settles all that is ready now -> the deliveries."""
        got = self.server.receive(queue, max=1000, wait="5s")
        for d in got:
            self.server.settle(queue, d["receipt"], outcome, **more)
        return got

    def terminal(self, *args, answer=None, question=b"[y/N]", code=0, env=None):
        """Runs dlq on a terminal of its own; types `answer` at the question -> all that was shown, as text."""
        master, slave = pty.openpty()
        p = subprocess.Popen([dlqtest.BINARY, *args], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             env={**os.environ, "DLQ_URL": self.server.url, "DLQ_TOKEN": self.server.token, "TERM": "xterm", **(env or {})})
        os.close(slave)
        seen, typed = b"", False
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # it ended
                break
            seen += part
            if answer is not None and not typed and question in seen:
                os.write(master, answer)
                typed = True
        os.close(master)
        self.assertEqual(p.wait(60), code, seen)
        return seen.decode()
