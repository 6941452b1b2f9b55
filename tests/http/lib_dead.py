"""What the tests of dead letters share: queues of their own, dead letters with facts of their own, jobs that are waited for."""
import base64
import json
import unittest
import urllib.parse

from dlqtest import Server, wait_until

NO_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
NO_GROUP = "0123456789abcdef0123456789abcdef"


class DeadCase(unittest.TestCase):
    """One server for all cases of a module; `config` of the class that starts it."""
    server = None
    config = None
    made = 0

    @classmethod
    def start(cls, config=None):
        DeadCase.server = Server(config=config)
        return DeadCase.server

    def setUp(self):
        self.q = self.queue()

    def tearDown(self):
        self.assertEqual(self.server.api("GET", "/healthz", token="")[0], 200)

    def queue(self, **settings):
        """A new queue in which the first failure is deadly, with a name that no other begins with."""
        DeadCase.made += 1
        name = "q%d-" % DeadCase.made
        self.server.put_queue(name, **dict({"policy": {"max_attempts": 1}}, **settings))
        return name

    def token(self, role="operator", **more):
        DeadCase.made += 1
        return self.server.ok("POST", "/v1/tokens", dict(more, name="t%d" % DeadCase.made, role=role))["token"]

    def problem(self, status, code, method, path, body=None, token=None, text=None):
        got, doc, head = self.server.api(method, path, body, token=token)
        self.assertEqual((got, doc.get("code") if isinstance(doc, dict) else doc), (status, code), (path, body, doc))
        self.assertEqual(head["content-type"], "application/problem+json")
        if text:
            self.assertIn(text, doc["detail"])
        return doc

    # ---- making dead letters ----

    def send(self, queue, messages):
        lines = []
        for m in messages:
            body = m.get("body", "{}")
            line = {k: m[k] for k in ("id", "key", "headers", "content_type") if k in m}
            if isinstance(body, bytes):
                line["body_base64"] = base64.b64encode(body).decode()
            else:
                line["body"] = body if isinstance(body, str) else json.dumps(body)
            lines.append(json.dumps(line))
        for i in range(0, len(lines), 1000):
            status, doc, _ = self.server.api("POST", "/v1/queues/%s/batch" % queue, "\n".join(lines[i:i + 1000]))
            self.assertEqual(status, 201, doc)

    def take(self, n, queue=None):
        """n deliveries, as soon as they are ready."""
        got = []
        wait_until(lambda: got.extend(self.server.receive(queue or self.q, max=1000)) or len(got) >= n, what="%d deliveries" % n)
        self.assertEqual(len(got), n)
        return got

    def settle_all(self, deliveries, result, queue=None):
        results = []
        for i in range(0, len(deliveries), 1000):
            part = [dict(result(d), receipt=d["receipt"]) for d in deliveries[i:i + 1000]]
            results += self.server.ok("POST", "/v1/queues/%s/settle" % (queue or self.q), {"results": part})["results"]
        return results

    def kill(self, *messages, queue=None):
        """Each message (a dict of body, id, key, headers, content_type, error) sent and failed once. -> {message id: dlq_id}"""
        queue = queue or self.q
        errors = {}
        for i, m in enumerate(messages):
            m.setdefault("id", "m%d" % i)
            errors[m["id"]] = m.get("error", {"type": "Bad", "message": "it does not work"})
        self.send(queue, messages)
        got = self.take(len(messages), queue)
        results = self.settle_all(got, lambda d: {"outcome": "permanent", "error": errors[d["id"]]}, queue)
        return {d["id"]: r["dlq_id"] for d, r in zip(got, results)}

    def fail_again(self, n, queue=None, message="it still does not work"):
        got = self.take(n, queue)
        return self.settle_all(got, lambda d: {"outcome": "permanent", "error": {"type": "Bad", "message": message}}, queue)

    # ---- looking ----

    def get(self, path, token=None, **params):
        """GET with a query; a list gives the parameter repeated. -> document"""
        return self.server.ok("GET", path + "?" + urllib.parse.urlencode(params, doseq=True), token=token)

    def found(self, **params):
        """Message ids of all pages of GET /v1/dead-letters."""
        return [d["id"] for d in self.pages("/v1/dead-letters", **params)]

    def pages(self, path, token=None, **params):
        items, cursor = [], None
        while True:
            page = self.get(path, token=token, **dict(params, **({"cursor": cursor} if cursor else {})))
            items += page["items"]
            cursor = page["next"]
            if not cursor:
                return items

    def show(self, dlq_id):
        return self.server.ok("GET", "/v1/dead-letters/" + dlq_id)

    def body(self, dlq_id, original=False):
        return self.server.api("GET", "/v1/dead-letters/%s/body%s" % (dlq_id, "?original=true" if original else ""))[1]

    # ---- jobs ----

    def job(self, token=None, **body):
        return self.server.ok("POST", "/v1/redrives", dict({"reason": "a test"}, **body), token=token)

    def done(self, r, state="done"):
        def check():
            now = self.server.ok("GET", "/v1/redrives/" + r["redrive_id"])
            return now if now["state"] == state else None
        return wait_until(check, what="redrive in state " + state)

    def run_job(self, **body):
        return self.done(self.job(**body))

    def ledger(self, r):
        """{dlq_id: item}"""
        return {i["dlq_id"]: i for i in self.pages("/v1/redrives/%s/items" % r["redrive_id"])}

    def preview(self, token=None, **body):
        """All steps of a preview, added up."""
        total = None
        while True:
            step = self.server.ok("POST", "/v1/redrives/preview", body, token=token)
            if total is None:
                total = step
            else:
                for key in ("looked", "selected", "changed", "unchanged", "failed", "over_limit"):
                    total[key] += step[key]
                total["items"] += step["items"]
                total["errors"] = total.get("errors", 0) + step.get("errors", 0)
                total.setdefault("first_error", step.get("first_error"))
            if not step["next"]:
                total["next"] = None
                return total
            body = dict(body, cursor=step["next"])

    def audit(self, **wanted):
        rows = self.server.ok("GET", "/v1/audit?limit=1000")["items"]
        return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]
