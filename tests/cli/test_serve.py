"""dlq serve: refusals to start, where it is found, stop, reload."""
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import unittest

import dlqtest
from dlqtest import SLOW, Server, run_cli, wait_until


class Refusals(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlqserve-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.data = os.path.join(self.dir, "data")

    def refuse(self, *args, code, data=None):
        """Starts and must fail: one line of error."""
        got, out, err = run_cli(["serve", "--data", data or self.data, "--listen", "127.0.0.1:0", "--log-level", "error", *args])
        self.assertEqual((got, out), (code, ""), err)
        errors = [line for line in err.splitlines() if line.startswith("dlq: ")]
        self.assertEqual(len(errors), 1, err)
        return errors[0]

    def made(self):
        """A data folder with a store in it."""
        Server(data=self.data).stop()
        return [os.path.join(self.data, n) for n in os.listdir(self.data) if n.endswith((".db", ".sqlite", ".sqlite3"))][0]

    def test_locked_store(self):
        with Server(data=self.data):
            self.assertIn("store_locked", self.refuse(code=7))

    def test_newer_store(self):
        path = self.made()
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 9999")
        db.close()
        error = self.refuse(code=7)
        self.assertIn("store_newer", error)

    def test_damaged_store(self):
        path = self.made()
        with open(path, "r+b") as f:
            f.write(b"this is not a database at all, it is text" * 100)
        error = self.refuse(code=7)
        self.assertIn("store_corrupt", error)
        with open(path, "rb") as f:
            self.assertTrue(f.read().startswith(b"this is not"), "a damaged store is not touched")

    def test_address_in_use(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            error = self.refuse("--listen", "127.0.0.1:%d" % port, code=7)
        self.assertIn("127.0.0.1:%d" % port, error)
        self.assertFalse(os.path.exists(os.path.join(self.data, "server.url")))

    def test_folder_that_cannot_be_made(self):
        path = os.path.join(self.dir, "file")
        open(path, "w").close()
        self.assertIn("file/data", self.refuse(code=7, data=os.path.join(path, "data")))

    def test_bad_settings(self):
        path = os.path.join(self.dir, "dlq.yaml")
        with open(path, "w") as f:
            f.write("queues:\n  - name: a\n    policy: {max_atempts: 3}\n")
        error = self.refuse("--config", path, code=2)
        self.assertIn(path + ":3: ", error)
        self.assertIn("max_attempts", error)
        self.assertFalse(os.path.exists(self.data), "nothing was made")
        self.assertIn("--log-level", self.refuse("--log-level", "loud", code=2))
        self.refuse("--config", "/nonexistent.yaml", code=3)
        self.refuse("--tls-cert", "a.pem", code=2)
        self.assertIn("--data: the data folder is empty text", self.refuse("--data", "", code=2))
        self.refuse("--tls-cert", "/nonexistent", "--tls-key", "/nonexistent", code=3)


class Life(unittest.TestCase):
    def start(self, *args, **more):
        server = Server(*args, **more)
        self.addCleanup(server.close)
        return server

    def test_leaves_its_address_while_it_runs(self):
        server = self.start()
        path = os.path.join(server.data, "server.url")
        with open(path) as f:
            self.assertEqual(f.read(), server.url + "\n")
        self.assertEqual(os.stat(os.path.join(server.data, "admin.token")).st_mode & 0o777, 0o600)
        self.assertEqual(server.terminate(), 0)
        self.assertFalse(os.path.exists(path))

    def test_token_and_data_stay(self):
        server = self.start()
        token = server.token
        server.put_queue("q")
        server.send("q", b"kept")
        server.kill()
        server.restart()
        self.assertEqual(server.token, token)
        self.assertEqual([d["body"] for d in server.receive("q")], ["kept"])

    def test_settings_reach_the_server(self):
        server = self.start(config="limits:\n  max_message_bytes: 2KiB\nqueues:\n  - name: orders\n    policy: {max_attempts: 2}\n",
                            env={"DLQ_LOG_FORMAT": "json"})
        self.assertEqual(server.queue("orders")["config"]["policy"]["max_attempts"], 2)
        status, doc, _ = server.api("POST", "/v1/queues/orders/messages", b"x" * 3000)
        self.assertEqual((status, doc["limit"]), (413, 2048))
        self.assertEqual(server.api("PUT", "/v1/queues/orders", {})[0], 409)

    def test_term_answers_waiting_receives_and_ends_with_0(self):
        server = self.start()
        server.put_queue("q")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.api("POST", "/v1/queues/q/receive", {"wait": "60s"})))
        thread.start()
        wait_until(lambda: server.ok("GET", "/v1/stats").get("parked_receives", 1) >= 1)
        self.assertEqual(server.terminate(), 0)
        thread.join(30 * SLOW)
        self.assertFalse(thread.is_alive())
        self.assertIn(answers[0][0], (200, 503))
        if answers[0][0] == 200:
            self.assertEqual(answers[0][1]["deliveries"], [])

    def test_interrupt_is_a_stop_too(self):
        server = self.start()
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(30 * SLOW), 0)

    def test_second_signal_ends_at_once(self):
        # A push that never answers holds the drain open.
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self.addCleanup(listener.close)
        server = self.start(config="limits: {drain_timeout: 60s}\nqueues:\n  - name: q\n    push: http://127.0.0.1:%d/\n    push_timeout: 60s\n"
                            % listener.getsockname()[1])
        server.send("q", b"x")
        connection, _ = listener.accept()
        self.addCleanup(connection.close)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "serve.stopping" in server.log())
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(20 * SLOW), -signal.SIGTERM)
        server._ended()

    def reload(self, server, event):
        before = server.log().count(event)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.log().count(event) > before, what=event)

    def test_reload(self):
        server = self.start(config="queues:\n  - name: a\n    policy: {max_attempts: 2}\n")
        server.write_config("log_level: debug\nlisten: 127.0.0.1:1\nqueues:\n  - name: a\n    policy: {max_attempts: 4}\n  - name: b\n")
        self.reload(server, "serve.reloaded")
        self.assertEqual(server.queue("a")["config"]["policy"]["max_attempts"], 4)
        self.assertEqual(server.api("GET", "/v1/queues/b")[0], 200)

    def test_reload_of_on_dead_letter_reaches_queues_made_by_put(self):
        server = self.start(config="log_level: info\n")
        server.put_queue("q")
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(20 * SLOW)
        self.addCleanup(listener.close)
        server.write_config("on_dead_letter: http://127.0.0.1:%d/hook?key=secret\n" % listener.getsockname()[1])
        self.reload(server, "serve.reloaded")
        server.put_queue("later")
        for queue in ("q", "later"):
            server.send(queue, b"x")
            (d,) = server.receive(queue)
            server.settle(queue, d["receipt"], "permanent")
            with listener.accept()[0] as call:
                self.assertIn(b"POST /hook?key=secret ", call.recv(1000))
                call.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.assertIsNone(server.queue(queue)["config"]["on_dead_letter"], "the server's may be a secret")

    def test_reload_of_a_fixed_setting_says_so(self):
        server = self.start(config="limits: {max_headers: 20}\n")
        server.write_config("limits: {max_headers: 30}\n")
        self.reload(server, "serve.reload_needs_restart key=limits.max_headers")

    def test_bad_reload_changes_nothing(self):
        server = self.start(config="queues:\n  - name: a\n    policy: {max_attempts: 2}\n")
        server.write_config("queues:\n  - name: a\n    policy: {max_attempts: 4}\n  - name: b\n    policy: {max_attempts: 0}\n")
        self.reload(server, "serve.reload_refused")
        self.assertIn("dlq.yaml:5", server.log())
        self.assertEqual(server.queue("a")["config"]["policy"]["max_attempts"], 2)
        self.assertEqual(server.api("GET", "/v1/queues/b")[0], 404)
        server.write_config("queues:\n  - name: a\n    ordered: true\n  - name: c\n")
        self.reload(server, "serve.reload_refused")
        self.assertEqual(server.api("GET", "/v1/queues/c")[0], 404)
        server.write_config("queues:\n  - name: a\n    policy: {max_attempts: 3}\n")
        self.reload(server, "serve.reloaded")
        self.assertEqual(server.queue("a")["config"]["policy"]["max_attempts"], 3)

    def test_closed_standard_files(self):
        """Nothing else gets their numbers: what is logged must not go into the database."""
        server = self.start(start=False)
        server.port = 0
        process = subprocess.Popen(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *server.command()])
        self.addCleanup(lambda: process.poll() is None and process.kill())
        url = os.path.join(server.data, "server.url")
        wait_until(lambda: os.path.exists(url))
        self.assertEqual([os.readlink("/proc/%d/fd/%d" % (process.pid, fd)) for fd in range(3)], ["/dev/null"] * 3)
        with open(url) as f:
            env = {"DLQ_URL": f.read().strip()}
        with open(os.path.join(server.data, "admin.token")) as f:
            env["DLQ_TOKEN"] = f.read().strip()
        self.assertEqual(run_cli(["queues", "create", "q"], env=env)[0], 0)
        closed = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", dlqtest.BINARY, "queues"], env=dict(os.environ, **env),
                                stderr=subprocess.PIPE, text=True)
        self.assertEqual(closed.returncode, 7, "a result that reaches nobody is no result")
        self.assertIn("cannot write to stdout", closed.stderr)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30 * SLOW), 0)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as d:
            cert, key = os.path.join(d, "cert.pem"), os.path.join(d, "key.pem")
            try:
                subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
            except FileNotFoundError:
                self.skipTest("openssl is not installed")
            server = self.start(args=["--tls-cert", cert, "--tls-key", key])
            self.assertTrue(server.url.startswith("https://"))
            code, out, err = run_cli(["queues", "create", "q"], server=server, env={"DLQ_CACERT": cert})
            self.assertEqual(code, 0, err)
            self.assertEqual(run_cli(["queues"], server=server)[0], 6, "an unknown certificate is refused")

    def test_tells_the_service_manager(self):
        with tempfile.TemporaryDirectory() as d, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(os.path.join(d, "notify"))
            s.settimeout(30 * SLOW)
            server = self.start(env={"NOTIFY_SOCKET": os.path.join(d, "notify")})
            self.assertEqual(s.recv(100), b"READY=1")
            self.assertEqual(server.terminate(), 0)
            self.assertEqual(s.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    unittest.main()
