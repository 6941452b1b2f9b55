"""Shared helper of the Python tests: a real dlq server on a free port with its own folder, and an API client.

    server = Server()                      # $DLQ_BUILD/dlq serve, port 0, temporary data folder
    status, doc, headers = server.api("POST", "/v1/queues/orders/messages", b"hello", {"Dlq-Key": "k"})
    wait_until(lambda: server.counts("orders")["ready"] == 1)
    server.kill(); server.restart()        # kill -9, then the same data folder on the same port
    server.stop()                          # SIGTERM; asserts exit 0

Standard library only. Nothing here sleeps for a fixed time: waits poll a state until a deadline.
"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

BUILD = os.environ.get("DLQ_BUILD", "build/release")
BINARY = os.environ.get("DLQ_BINARY", os.path.join(BUILD, "dlq"))
SOURCE = os.environ.get("DLQ_SOURCE", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
# Sanitizers are slow: every deadline of the tests is multiplied by this.
SLOW = 4 if os.environ.get("DLQ_SANITIZE") else 1


def wait_until(check, timeout=20, what="the awaited state"):
    """Calls check() until it gives something true and returns that; AssertionError after timeout seconds (times SLOW).
    An AssertionError or OSError inside check counts as not yet."""
    deadline = time.monotonic() + timeout * SLOW
    last = None
    while True:
        try:
            value = check()
            if value:
                return value
            last = value
        except (AssertionError, OSError, http.client.HTTPException) as e:
            last = e
        if time.monotonic() > deadline:
            raise AssertionError("%s did not come within %d s; last: %r" % (what, timeout * SLOW, last))
        time.sleep(0.02)


class Server:
    """One `dlq serve`. data: folder to use (kept at stop), else a temporary one, removed by stop() and close().
    config: text of a YAML file. args: more arguments. env: more environment."""

    def __init__(self, binary=None, data=None, config=None, args=(), env=None, start=True):
        self.binary = binary or BINARY
        self._temp = tempfile.mkdtemp(prefix="dlqtest-")
        self.data = data or os.path.join(self._temp, "data")
        self.log_path = os.path.join(self._temp, "server.log")
        self.config_path = None
        self.args = list(args)
        self.env = dict(os.environ, **(env or {}))
        self.process = None
        self.port = 0
        self.url = self.token = self.pid = None
        if config is not None:
            self.write_config(config)
        if start:
            self.start()

    def write_config(self, text):
        self.config_path = os.path.join(self._temp, "dlq.yaml")
        with open(self.config_path, "w") as f:
            f.write(text)

    def command(self):
        command = [self.binary, "serve", "--data", self.data]
        if "--listen" not in self.args:
            command += ["--listen", "127.0.0.1:%d" % self.port]
        if self.config_path:
            command += ["--config", self.config_path]
        return command + self.args

    def start(self):
        """Starts it and waits for `listening on`. RuntimeError with its log when it ends before."""
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, env=self.env)
        log.close()
        self.pid = self.process.pid
        line = ""
        while not line.startswith("listening on "):
            line = self.process.stdout.readline().decode()
            if not line:
                code = self.process.wait()
                raise RuntimeError("dlq serve ended with %d:\n%s" % (code, self.log()))
        self.url = line[len("listening on "):].strip()
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))
        with open(os.path.join(self.data, "admin.token")) as f:
            self.token = f.read().strip()
        return self

    def log(self):
        """All that it wrote to stderr so far."""
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def _ended(self):
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def kill(self):
        """kill -9; the data folder stays for restart()."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self._ended()

    def terminate(self, timeout=30):
        """SIGTERM; returns the exit code. The data folder stays."""
        code = None
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(timeout * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("dlq serve did not end after SIGTERM:\n" + self.log())
            self._ended()
        return code

    def restart(self, same_port=True):
        """Starts it again on the same data folder (after stopping it when it still runs)."""
        if self.process:
            self.terminate()
        if not same_port:
            self.port = 0
        return self.start()

    def stop(self):
        """SIGTERM, checks for exit code 0, removes the temporary folder."""
        code = self.terminate()
        log = self.log()
        self.close()
        if code not in (0, None):
            raise AssertionError("dlq serve ended with %d:\n%s" % (code, log))

    def close(self):
        """Ends it whatever its state, and removes the temporary folder. Never fails: for tearDown and addCleanup."""
        self.kill()
        shutil.rmtree(self._temp, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close() if kind else self.stop()

    def api(self, method, path, body=None, headers=None, token=None, timeout=90):
        """One request on its own connection. body: bytes as is, str as UTF-8, anything else as JSON. token: None the
        admin token, "" none. -> (status, decoded JSON or bytes, headers with lower-case names)"""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        token = self.token if token is None else token
        if token:
            headers.setdefault("Authorization", "Bearer " + token)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            data = response.read()
            answer = {k.lower(): v for k, v in response.getheaders()}
            kind = answer.get("content-type", "")
            if "json" in kind and "ndjson" not in kind and data:
                data = json.loads(data)
            return response.status, data, answer
        finally:
            connection.close()

    def ok(self, method, path, body=None, headers=None, token=None):
        """Like api, but only the document; AssertionError unless the status is 2xx."""
        status, doc, _ = self.api(method, path, body, headers, token)
        if not 200 <= status < 300:
            raise AssertionError("%s %s answered %d: %r" % (method, path, status, doc))
        return doc

    def put_queue(self, queue, **settings):
        return self.ok("PUT", "/v1/queues/" + queue, settings)

    def send(self, queue, body=b"", **headers):
        """One message; send("q", b"x", Dlq_Key="k"). -> its id"""
        return self.ok("POST", "/v1/queues/%s/messages" % queue, body,
                       {k.replace("_", "-"): v for k, v in headers.items()})["id"]

    def receive(self, queue, max=1, wait="0s", **more):
        return self.ok("POST", "/v1/queues/%s/receive" % queue, dict(more, max=max, wait=wait))["deliveries"]

    def settle(self, queue, receipt, outcome="ok", **more):
        """Settles one receipt -> its result."""
        result = dict(more, receipt=receipt, outcome=outcome)
        return self.ok("POST", "/v1/queues/%s/settle" % queue, {"results": [result]})["results"][0]

    def queue(self, queue):
        return self.ok("GET", "/v1/queues/" + queue)

    def counts(self, queue):
        return self.queue(queue)["counts"]

    def totals(self, queue):
        return self.queue(queue)["totals"]

    def dead(self, queue, **params):
        """All dead letters of the queue (state dead unless given), over all pages."""
        items, cursor = [], None
        while True:
            query = "&".join("%s=%s" % kv for kv in dict(params, queue=queue, limit=1000).items())
            page = self.ok("GET", "/v1/dead-letters?" + query + ("&cursor=" + cursor if cursor else ""))
            items += page["items"]
            cursor = page["next"]
            if not cursor:
                return items


def run_cli(args, server=None, input=None, env=None, timeout=60, binary=None):
    """Runs dlq with args against the server (DLQ_URL, DLQ_TOKEN) -> (exit code, stdout, stderr) as text."""
    full = dict(os.environ, **(env or {}))
    if server:
        full.update(DLQ_URL=server.url, DLQ_TOKEN=server.token)
    if isinstance(input, str):
        input = input.encode()
    done = subprocess.run([binary or BINARY] + [str(a) for a in args], input=input, capture_output=True, env=full,
                          timeout=timeout * SLOW)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
