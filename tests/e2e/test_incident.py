"""The incident: 5,826 orders, 826 of them with a percent-encoded SKU on which the worker always fails.

Good orders do not wait for bad ones; the bad end dead with all their evidence; on_dead_letter is called for each; once the
worker is fixed one redrive puts them back, and every order is processed exactly once.
"""
import http.server
import json
import threading
import unittest

from dlqtest import SLOW, Server, wait_until
from traffic import Connection, Crew, body_of, now, percentile, work

ORDERS, BAD = 5826, 826
RATE = 1500 / SLOW  # orders a second that come in
NOISE = 0.025  # seconds: a p99 below this is the machine's scheduling; waiting for a bad one would cost 0.3 s and more
POLICY = {"max_attempts": 3, "backoff": ["300ms", "600ms"], "visibility_timeout": "30s"}


class DeadLetterCalls:
    """A receiver for on_dead_letter that remembers every call."""

    def __init__(self):
        calls = self.calls = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                calls.append((self.headers["Dlq-Notification-Id"], json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = "http://127.0.0.1:%d/dead" % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def is_bad(i):
    return i % 7 == 3 and i // 7 < BAD


def orders(with_bad):
    """(number, sku) of each order; 826 bad ones spread among 5,000 good."""
    for i in range(ORDERS):
        if not is_bad(i):
            yield i, "AB-%05d" % i
        elif with_bad:
            yield i, "AB%%2F%05d" % i


class Shop:
    """The worker of the story, and what happened to each order."""

    def __init__(self):
        self.fixed = False
        self.lock = threading.Lock()
        self.sent_at, self.taken_at, self.done_at = {}, {}, {}
        self.successes = {}
        self.ids = {}

    def handle(self, delivery):
        order = json.loads(body_of(delivery))
        self.taken_at.setdefault(order["order"], now())
        if "%" in order["sku"] and not self.fixed:
            return {"outcome": "transient", "error": {"type": "EncodeError",
                    "message": 'cannot encode SKU "%s": bad escape' % order["sku"], "detail": "at encode_sku (sku.c:88)"}}
        return {"outcome": "ok"}

    def seen(self, delivery, result, answer):
        if answer and answer["result"] == "done":
            number = json.loads(body_of(delivery))["order"]
            with self.lock:
                self.done_at[number] = now()
                self.successes[number] = self.successes.get(number, 0) + 1
                self.ids[number] = delivery["id"]

    def send(self, server, queue, with_bad):
        """Orders come in at RATE, twenty a request."""
        connection = Connection(server)
        todo = list(orders(with_bad))
        start = now()
        for at in range(0, len(todo), 20):
            part = todo[at:at + 20]
            pause = start + at / RATE - now()
            if pause > 0:
                threading.Event().wait(pause)  # the pace of the producers
            stamp = now()
            for number, _ in part:
                self.sent_at[number] = stamp
            lines = "\n".join(json.dumps({"id": "order-%d" % n, "body": json.dumps({"order": n, "sku": s})}) for n, s in part)
            status, doc = connection.request("POST", "/v1/queues/%s/batch" % queue, lines)
            assert status == 201, (status, doc)
        connection.close()

    def waits(self):
        """How long each good order waited until a worker had it."""
        return [self.taken_at[n] - self.sent_at[n] for n in self.done_at if not is_bad(n)]


class Incident(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    def play(self, queue, with_bad, **settings):
        """Runs all orders through the queue until none is waiting. -> the Shop"""
        self.server.put_queue(queue, **dict({"policy": POLICY}, **settings))
        shop, crew = Shop(), Crew()
        for i in range(4):
            crew.start(work, self.server, crew, queue, "worker-%d" % i, shop.handle, shop.seen)
        shop.send(self.server, queue, with_bad)

        def drained():
            c = self.server.counts(queue)
            return c["ready"] == c["leased"] == 0
        wait_until(drained, 120, "an empty queue")
        self.crew = crew
        return shop

    def check_history(self, item, attempts, reason):
        doc = self.server.ok("GET", "/v1/dead-letters/" + item["dlq_id"])
        self.assertEqual(doc["reason"], reason)
        self.assertEqual(doc["attempts"], attempts)
        self.assertEqual([h["attempt"] for h in doc["history"]], list(range(1, attempts + 1)))
        for h in doc["history"]:
            self.assertEqual(h["error"]["type"], "EncodeError")
            self.assertIn("bad escape", h["error"]["message"])
            self.assertTrue(h["worker"].startswith("worker-"))
            self.assertTrue(h["at"] >= doc["received_at"])
        times = [h["at"] for h in doc["history"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual((doc["first_failed_at"], doc["last_failed_at"]), (times[0], times[-1]))

    def ratio(self, round_):
        """One pair of runs, without and with the bad orders. -> p99 of the good ones' waits, with / without"""
        plain = self.play("plain-%d" % round_, False)
        self.crew.stop()
        self.assertEqual(len(plain.waits()), ORDERS - BAD)
        mixed = self.play("mixed-%d" % round_, True)
        self.crew.stop()
        self.assertEqual(len(mixed.waits()), ORDERS - BAD)
        pair = percentile(plain.waits(), 99), percentile(mixed.waits(), 99)
        print("p99 wait of good orders: %.1f ms without bad ones, %.1f ms with, ratio %.2f"
              % (pair[0] * 1000, pair[1] * 1000, pair[1] / pair[0]))
        return pair[1] / max(pair[0], NOISE)

    def test_good_orders_do_not_wait_for_bad_ones(self):
        # The machine is shared with the test's own load: the median of three paired runs is judged.
        ratios = sorted(self.ratio(i) for i in range(3))
        self.assertLessEqual(ratios[1], 1.5, ratios)

    def test_incident(self):
        calls = DeadLetterCalls()
        self.addCleanup(calls.close)
        shop = self.play("orders", True, on_dead_letter=calls.url)
        self.assertEqual(self.server.counts("orders")["dead"], BAD)
        dead = self.server.dead("orders")
        self.assertEqual(len(dead), BAD)
        self.assertEqual({d["reason"] for d in dead}, {"max_attempts"})
        self.assertEqual({d["attempts"] for d in dead}, {3})
        for item in dead[::50]:
            self.check_history(item, 3, "max_attempts")
        wait_until(lambda: len(calls.calls) >= BAD, 60, "826 calls of on_dead_letter")
        self.assertEqual(len({c[0] for c in calls.calls}), BAD)
        self.assertEqual({c[1]["dlq_id"] for c in calls.calls}, {d["dlq_id"] for d in dead})

        shop.fixed = True
        redrive = self.server.ok("POST", "/v1/redrives", {"queue": "orders", "reason": "encode_sku fixed"})
        self.assertEqual(redrive["total"], BAD)
        wait_until(lambda: self.server.ok("GET", "/v1/redrives/" + redrive["redrive_id"])["succeeded"] == BAD, 60,
                   "826 redriven orders done")
        self.crew.stop()
        self.assertEqual(len(shop.successes), ORDERS, "every order succeeded")
        self.assertEqual(set(shop.successes.values()), {1}, "each exactly once")
        self.assertEqual({n: i for n, i in shop.ids.items() if i != "order-%d" % n}, {}, "same ids")
        counts, totals = self.server.counts("orders"), self.server.totals("orders")
        self.assertEqual((counts["ready"], counts["leased"], counts["dead"], counts["redriving"], counts["bytes"]), (0,) * 5)
        self.assertEqual((totals["sent"], totals["done"], totals["died"], totals["redriven"]), (ORDERS, ORDERS, BAD, BAD))
        self.assertEqual(totals["failed_attempts"], 3 * BAD)
        redriven = self.server.dead("orders", state="redriven")
        self.assertEqual(len(redriven), BAD)
        self.assertEqual({d["redrives"] for d in redriven}, {1})
        self.assertEqual({d["redrive_id"] for d in redriven}, {redrive["redrive_id"]})
        self.assertEqual({d["operator"] for d in redriven}, {"admin"})
        self.assertEqual(len(calls.calls), BAD, "no further calls")

    def test_permanent_when(self):
        policy = dict(POLICY, permanent_when=[{"error_type": "EncodeError"}])
        shop = self.play("permanent", True, policy=policy)
        self.crew.stop()
        dead = self.server.dead("permanent")
        self.assertEqual(len(dead), BAD)
        self.assertEqual({d["reason"] for d in dead}, {"permanent"})
        self.assertEqual({d["attempts"] for d in dead}, {1})
        self.check_history(dead[0], 1, "permanent")
        self.assertEqual(len(shop.done_at), ORDERS - BAD)


if __name__ == "__main__":
    unittest.main(verbosity=2)
