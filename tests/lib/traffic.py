"""Producers and workers for tests: keep-alive connections on threads, everything they saw written down.

A worker's `handle(delivery)` returns a settle result without its receipt: {"outcome": "ok"} or {"outcome": "transient", ...}.
"""
import base64
import http.client
import json
import threading
import time


class Broken(Exception):
    """The connection broke: nobody knows whether the server did it."""


class Connection:
    """One keep-alive connection to a dlqtest.Server, opened again after a break."""

    def __init__(self, server, timeout=90):
        self.server = server
        self.timeout = timeout
        self.http = None

    def request(self, method, path, body=None, headers=None):
        """-> (status, document). Broken when no whole answer came."""
        headers = dict(headers or {}, Authorization="Bearer " + self.server.token)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        try:
            if self.http is None:
                self.http = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=self.timeout)
            self.http.request(method, path, body, headers)
            response = self.http.getresponse()
            data = response.read()
            return response.status, json.loads(data) if data else None
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.close()
            raise Broken(str(e)) from e

    def close(self):
        if self.http:
            self.http.close()
            self.http = None


def body_of(delivery):
    """The payload's bytes."""
    return base64.b64decode(delivery["body_base64"]) if "body_base64" in delivery else delivery["body"].encode()


class Crew:
    """Threads that run until stop(); an exception in one is raised by join()."""

    def __init__(self):
        self.stopping = threading.Event()
        self.threads = []
        self.errors = []

    def start(self, function, *args):
        def run():
            try:
                function(*args)
            except Exception as e:  # noqa: BLE001 - handed to join()
                self.errors.append(e)
                self.stopping.set()
        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def stop(self):
        self.stopping.set()
        self.join()

    def join(self):
        for thread in self.threads:
            thread.join()
        self.threads = []
        if self.errors:
            raise self.errors[0]


def work(server, crew, queue, name, handle, seen=None, max=8, wait="1s", vt=None):
    """Receives, handles, settles until crew.stopping is set. seen(delivery, result, answer) is told of each settle:
    answer is the server's result, or None when nobody knows."""
    connection = Connection(server)
    request = {"max": max, "wait": wait, "worker": name}
    if vt:
        request["visibility_timeout"] = vt
    while not crew.stopping.is_set():
        try:
            status, doc = connection.request("POST", "/v1/queues/%s/receive" % queue, request)
        except Broken:
            crew.stopping.wait(0.01)
            continue
        if status != 200:
            if status < 500:
                raise AssertionError("receive answered %d: %r" % (status, doc))
            crew.stopping.wait(0.05)
            continue
        deliveries = doc["deliveries"]
        if not deliveries:
            continue
        results = [dict(handle(d), receipt=d["receipt"]) for d in deliveries]
        try:
            status, doc = connection.request("POST", "/v1/queues/%s/settle" % queue, {"worker": name, "results": results})
            answers = doc["results"] if status == 200 else [None] * len(results)
        except Broken:
            answers = [None] * len(results)
        if seen:
            for delivery, result, answer in zip(deliveries, results, answers):
                seen(delivery, result, answer)
    connection.close()


def percentile(values, p):
    """The p-th percentile (0 to 100) of values, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def now():
    return time.monotonic()
