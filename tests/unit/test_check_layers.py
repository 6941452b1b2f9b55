"""scripts/check-layers finds each kind of breach, at its line, and nothing in a clean tree."""
import os
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.environ.get("DLQ_SOURCE", "."), "scripts", "check-layers")


def run(files):
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        p = subprocess.run([SCRIPT, tree], capture_output=True, text=True, check=False)
        return p.returncode, p.stdout


class CheckLayers(unittest.TestCase):
    def test_clean(self):
        code, out = run({
            "src/core/a.c": '#include "base/base.h"\n#include "core/policy.h"\n#include <pcre2.h>\n#include <string.h>\n',
            "src/store/registry.c": '#include "store/sqlite/x.h"\nconst char *n = "sqlite";\n',
            "src/store/sqlite/x.c": '#include <sqlite3.h>\n#include <sys/stat.h>\n',
            "src/cli/cmd_serve.c": '#include "engine/engine.h"\n/* sleep(1) and sqlite in a comment */\n'
                                   'const char *z = "system(1)"; void rnd_system(int); int x = snprintf(0);\n',
        })
        self.assertEqual((code, out), (0, "check-layers: 4 files keep the rules\n"))

    def breach(self, path, text, line, says):
        code, out = run({path: text})
        self.assertEqual(code, 1, out)
        first = out.splitlines()[0]
        self.assertTrue(first.startswith(f"{path}:{line}: ") and says in first, out)
        self.assertIn("check-layers: 1 breaches in 1 files", out)

    def test_layers(self):
        self.breach("src/base/a.c", '\n#include "core/policy.h"\n', 2, "base/ may not include \"core/policy.h\"")
        self.breach("src/core/a.c", '#include "store/store.h"\n', 1, "core/ may not include")
        self.breach("src/core/a.c", '#include "base/clock.h"\n', 1, "core/ is pure")
        self.breach("src/core/a.c", '#include <pthread.h>\n', 1, "core/ is pure")
        self.breach("src/engine/a.c", '#include "handler/outcome.h"\n', 1, "engine/ may not include")
        self.breach("src/cli/cmd_list.c", '#include "engine/engine.h"\n', 1, "cli/ may not include")
        self.breach("src/http/a.c", '#include "handler/handler.h"\n', 1, "http/ may not include")
        self.breach("src/http/a.c", '#include "b.h"\n', 1, "needs its folder")
        self.breach("src/new/a.c", "\n", 1, "not in the table of layers")

    def test_libraries(self):
        self.breach("src/engine/a.c", "#include <curl/curl.h>\n", 1, "does not belong here")
        self.breach("src/base/a.c", "#include <jansson.h>\n", 1, "does not belong here")
        self.breach("src/net/a.c", "#include <nowhere/lib.h>\n", 1, "not in the table of libraries")

    def test_back_ends(self):
        self.breach("src/engine/a.c", 'int a;\nconst char *n = "sqlite";\n', 2, "the back end sqlite is named")
        self.breach("src/store/sqlite/a.c", "int redis_x;\n", 1, "the back end redis is named")

    def test_calls(self):
        for call in ("strcpy", "strcat", "sprintf", "gets", "strtok", "atoi", "system", "sleep"):
            self.breach("src/cli/a.c", f"\n\nvoid f(void) {{ {call} (0); }}\n", 3, f"{call}() is banned")
        self.breach("src/engine/a.c", "int64_t t = time(NULL);\n", 1, "the wall clock")

    def test_length(self):
        code, _ = run({"src/base/a.c": "\n" * 700})
        self.assertEqual(code, 0)
        self.breach("src/base/a.c", "\n" * 701, 701, "at most 700")


if __name__ == "__main__":
    unittest.main()
