"""libdlq gives a program the names of include/dlq/dlq.h and no others."""
import os
import re
import shutil
import subprocess
import unittest

import dlqtest


class Symbols(unittest.TestCase):
    def names(self, file, *options):
        nm = shutil.which("nm")
        if not nm:
            self.skipTest("nm is not installed")
        text = subprocess.run([nm, "--defined-only", "-P", *options, os.path.join(dlqtest.BUILD, file)], check=True,
                              capture_output=True, text=True).stdout
        rows = [line.split() for line in text.splitlines() if line and not line.endswith(":")]
        # A sanitizer leaves marks of its own.
        return {name for name, *_ in rows if not (os.environ.get("DLQ_SANITIZE") and name.startswith("__"))}

    def setUp(self):
        with open(os.path.join(dlqtest.SOURCE, "include", "dlq", "dlq.h")) as f:
            self.public = set(re.findall(r"^DLQ_API [^(;]*?(\w+)\(", f.read(), re.M))
        self.assertIn("dlq_open", self.public)

    def test_static(self):
        self.assertEqual(self.names("libdlq.a", "-g"), self.public)

    def test_shared(self):
        self.assertEqual(self.names("libdlq.so", "-D"), self.public)


if __name__ == "__main__":
    unittest.main()
