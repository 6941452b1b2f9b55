"""Clients that are slow, silent or many; draining; what is closed and what goes on."""
import resource
import signal
import socket
import threading
import time
import unittest

from dlqtest import SLOW, Server, wait_until

CONFIG = """
limits:
  idle_timeout: 2s
  request_timeout: 1s
  max_connections: 3000
"""


def closed_within(s, seconds):
    """Reads until the server closes; what came. AssertionError when it does not close in time."""
    s.settimeout(seconds * SLOW)
    out = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            return out
        except socket.timeout:
            raise AssertionError("still open after %d s" % (seconds * SLOW))
        if not part:
            return out
        out += part


class Limits(unittest.TestCase):
    def setUp(self):
        self.server = Server(config=CONFIG)
        self.addCleanup(self.server.close)
        self.server.put_queue("q")

    def connect(self, data=b""):
        s = socket.create_connection(("127.0.0.1", self.server.port), 20 * SLOW)
        self.addCleanup(s.close)
        if data:
            s.sendall(data)
        return s

    def request(self, body=b"hello", length=None):
        return (b"POST /v1/queues/q/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                % (self.server.token.encode(), len(body) if length is None else length, body))

    def test_half_a_request(self):
        head = self.request()
        for data in (b"", b"P", b"POST /v1/que", head[:60], head.split(b"hello")[0], head[:-1]):
            start = time.monotonic()
            closed_within(self.connect(data), 10)
            self.assertGreater(time.monotonic() - start, 0.5)
            self.assertEqual(self.server.api("GET", "/healthz")[0], 200)
        self.assertEqual(self.server.counts("q")["ready"], 0)

    def test_slow_client_that_dribbles(self):
        s = self.connect()
        stop = threading.Event()

        def dribble():
            for byte in self.request(b"x" * 400):
                try:
                    s.send(bytes([byte]))
                except OSError:
                    return
                if stop.wait(0.05):
                    return
        t = threading.Thread(target=dribble)
        t.start()
        closed_within(s, 15)
        stop.set()
        t.join()
        self.assertEqual(self.server.counts("q")["ready"], 0)

    def test_idle_connection_is_closed_after_its_time(self):
        s = self.connect(self.request())
        start = time.monotonic()
        answer = closed_within(s, 15)
        self.assertIn(b" 201 ", answer)
        self.assertGreater(time.monotonic() - start, 1.5)

    def test_long_poll_outlives_the_idle_timeout(self):
        start = time.monotonic()
        self.assertEqual(self.server.receive("q", wait="4s"), [])
        self.assertGreaterEqual(time.monotonic() - start, 3.9)

    def test_slow_reader_does_not_stop_others(self):
        for _ in range(30):
            self.server.send("q", b"x" * 1000000)
        body = b'{"max":30}'
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.addCleanup(s.close)
        s.connect(("127.0.0.1", self.server.port))
        s.sendall(b"POST /v1/queues/q/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                  % (self.server.token.encode(), len(body), body))
        wait_until(lambda: self.server.counts("q")["leased"] > 0)
        self.assertEqual(self.server.api("GET", "/healthz")[0], 200)
        s.close()
        # What it was given goes back at once: the lease of 30 s is not waited for.
        wait_until(lambda: self.server.counts("q")["leased"] == 0, timeout=10)
        self.assertEqual(self.server.counts("q")["ready"], 30)
        self.assertEqual(self.server.totals("q")["failed_attempts"], 0)

    def test_answers_that_nobody_reads_have_a_limit(self):
        self.server.write_config("limits: {max_waiting_bytes: 2MiB}\n")
        self.server.restart()
        for _ in range(40):
            self.server.send("q", b"x" * 1000000)
        body = b'{"max":4}'
        socks = []
        for i in range(10):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.addCleanup(s.close)
            s.connect(("127.0.0.1", self.server.port))
            s.sendall(b"POST /v1/queues/q/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                      % (self.server.token.encode(), len(body), body))
            s.recv(1, socket.MSG_PEEK)
            socks.append(s)
        # 8 MiB hold two of the answers; the older ones were closed and their messages given back.
        wait_until(lambda: self.server.counts("q")["leased"] == 8, timeout=10)
        self.assertEqual(self.server.counts("q")["ready"], 32)
        closed_within(socks[0], 10)
        self.assertEqual(self.server.totals("q")["failed_attempts"], 0)

    @unittest.skipIf(SLOW > 1, "sanitizers keep freed memory")
    def test_memory_of_answers_that_nobody_reads(self):
        """What they were made from, and those that come faster than they can be sent, count, too."""
        self.server.write_config("limits: {max_waiting_bytes: 8MiB}\n")
        self.server.restart()
        body, ask = b"x" * 1000000, b'{"max":1,"wait":"20s"}'
        self.server.send("q", body)
        (d,) = self.server.receive("q")
        dead = self.server.settle("q", d["receipt"], "permanent")["dlq_id"]
        self.server.ok("POST", "/v1/queues/q/pause")
        for _ in range(200):
            self.server.send("q", body)
        before, socks = self.memory(), []
        get = b"GET /v1/dead-letters/%s/body HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % (dead.encode(), self.server.token.encode())
        poll = (b"POST /v1/queues/q/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                % (self.server.token.encode(), len(ask), ask))
        for i in range(400):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.addCleanup(s.close)
            s.connect(("127.0.0.1", self.server.port))
            s.sendall(poll if i < 200 else get)
            socks.append(s)
        wait_until(lambda: self.server.ok("GET", "/v1/stats")["parked_receives"] == 200)
        self.server.ok("POST", "/v1/queues/q/resume")
        for s in socks:
            s.settimeout(20 * SLOW)
            try:
                s.recv(1, socket.MSG_PEEK)
            except ConnectionResetError:
                pass
        # 32 MiB of answers, 8 MiB of messages and of bodies on their way, one transaction of 8 MiB, and what it takes to write them.
        self.assertLess(self.memory("VmHWM") - before, 96 << 20)

    def test_many_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        n = min(2000, hard - 200)
        if soft < n + 100:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = self.memory()
        socks = [self.connect(self.request(b"x")) for _ in range(n)]
        for s in socks:
            self.assertIn(b" 201 ", s.recv(4096))
        self.assertLess((self.memory() - before) / n, 20000, "bytes per idle connection")
        self.assertEqual(self.server.counts("q")["ready"], n)
        for s in socks:
            closed_within(s, 15)
        self.assertEqual(self.server.api("GET", "/healthz")[0], 200)

    def memory(self, what="VmRSS"):
        with open("/proc/%d/status" % self.server.pid) as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(what))

    def test_past_the_connection_limit(self):
        self.server.write_config(CONFIG.replace("3000", "20"))
        self.server.restart()
        socks = [self.connect(self.request(b"x")) for _ in range(20)]
        for s in socks:
            self.assertIn(b" 201 ", s.recv(4096))
        # Idle ones make room for new ones, the longest idle first.
        for _ in range(10):
            self.assertEqual(self.server.api("GET", "/healthz")[0], 200)
        closed_within(socks[0], 1)

    def test_long_polls_make_room(self):
        self.server.write_config(CONFIG.replace("3000", "20"))
        self.server.restart()
        body = b'{"wait":"60s"}'
        poll = b"POST /v1/queues/q/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
        poll %= (self.server.token.encode(), len(body), body)
        socks = [self.connect(poll) for _ in range(20)]
        self.assertEqual(self.server.api("GET", "/healthz", timeout=20 * SLOW)[0], 200)
        answer = closed_within(socks[0], 5)
        self.assertIn(b'{"deliveries":[]}', answer)
        self.assertIn(b"Connection: close", answer)
        # The place is idle or free now: nobody else has to go.
        for _ in range(5):
            self.assertEqual(self.server.api("GET", "/healthz")[0], 200)
        self.assertEqual(self.server.ok("GET", "/v1/stats")["parked_receives"], 19)

    def test_drain_takes_who_is_connected(self):
        """Connections that wait in the backlog when the server is told to stop are answered, not reset."""
        self.server.process.send_signal(signal.SIGSTOP)
        socks = [self.connect(self.request()) for _ in range(600)]
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.send_signal(signal.SIGCONT)
        answers = [closed_within(s, 20)[:13] for s in socks]
        self.assertEqual(set(answers) - {b"HTTP/1.1 201 ", b"HTTP/1.1 503 "}, set())
        self.assertEqual(self.server.process.wait(20 * SLOW), 0)

    def test_drain(self):
        self.server.write_config("limits: {drain_timeout: 20s}\n")
        self.server.restart()
        answers = []
        t = threading.Thread(target=lambda: answers.append(self.server.api("POST", "/v1/queues/q/receive", {"wait": "60s"})))
        t.start()
        wait_until(lambda: self.server.ok("GET", "/v1/stats")["parked_receives"] == 1)
        start = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        t.join(15 * SLOW)
        self.assertEqual([(a[0], a[1]) for a in answers], [(200, {"deliveries": []})])
        self.assertEqual(answers[0][2].get("connection"), "close")
        self.assertEqual(self.server.process.wait(20 * SLOW), 0)
        self.assertLess(time.monotonic() - start, 10 * SLOW)


if __name__ == "__main__":
    unittest.main()
