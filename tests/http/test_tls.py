"""TLS: the API over it, what is not TLS, large bodies both ways, slow handshakes."""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from dlqtest import SLOW, Server


@unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
class Tls(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlqtls-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.cert, self.key = os.path.join(self.dir, "cert.pem"), os.path.join(self.dir, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.key,
                        "-out", self.cert, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        self.server = Server(config="tls: {cert: %s, key: %s}\nlimits: {request_timeout: 1s}\n" % (self.cert, self.key))
        self.addCleanup(self.server.close)
        self.context = ssl.create_default_context(cafile=self.cert)

    def connection(self):
        c = http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=30 * SLOW, context=self.context)
        self.addCleanup(c.close)
        return c

    def call(self, c, method, path, body=None):
        c.request(method, path, body, {"Authorization": "Bearer " + self.server.token})
        r = c.getresponse()
        data = r.read()
        return r.status, json.loads(data) if data else None

    def test_round_trip_on_one_connection(self):
        c = self.connection()
        self.assertEqual(self.call(c, "PUT", "/v1/queues/q", b"{}")[0], 201)
        for n in (0, 1, 16383, 16384, 16385, 100000, 1 << 20):
            body = ("%d" % (n % 10)) * n
            self.assertEqual(self.call(c, "POST", "/v1/queues/q/messages", body)[0], 201)
            d = self.call(c, "POST", "/v1/queues/q/receive", b"{}")[1]["deliveries"][0]
            self.assertEqual(d["body"], body)
        self.assertEqual(self.call(c, "POST", "/v1/queues/q/messages", b"x" * ((1 << 20) + 1))[0], 413)

    def test_what_is_not_tls_and_what_is_slow(self):
        with socket.create_connection(("127.0.0.1", self.server.port), 20 * SLOW) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                self.assertNotIn(b"HTTP/1.1", s.recv(4096))
            except ConnectionResetError:
                pass
        with socket.create_connection(("127.0.0.1", self.server.port), 20 * SLOW) as s:
            s.sendall(b"\x16\x03\x01")
            self.assertEqual(s.recv(4096), b"", "closed after request_timeout")
        self.assertEqual(self.call(self.connection(), "GET", "/healthz"), (200, {"status": "ok"}))


if __name__ == "__main__":
    unittest.main()
