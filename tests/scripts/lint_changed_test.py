# SPDX-License-Identifier: Apache-2.0
"""Which sources clang-tidy reads again after a change, on a small repository."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/lint_support/changed.py"
FILES = {"a.h": "", "b.h": '#include "a.h"\n', "uses_b.cpp": '#include <vector>\n#include "b.h"\n',
         "alone.cpp": "", "other.cpp": '#include "missing.h"\n', ".clang-tidy": "Checks: '*'\n"}
SOURCES = ["alone.cpp", "other.cpp", "uses_b.cpp"]


class LintChangedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts/lint_support").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts/lint_support")
        for name, text in FILES.items():
            (self.root / name).write_text(text)
        self.git("init", "-q")
        self.commit()
        self.linted = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        return subprocess.run(["git", "-C", self.root, *identity, *arguments], check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")

    def affected(self, revision=None):
        script = self.root / "scripts/lint_support/changed.py"
        return subprocess.run(["python3", script, revision or self.linted, *SOURCES], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.split()

    def change(self, name):
        (self.root / name).write_text(FILES.get(name, "") + "// changed\n")

    def test_nothing_has_changed(self):
        self.assertEqual(self.affected(), [])

    def test_a_source_and_what_reaches_a_header(self):
        self.change("alone.cpp")
        self.assertEqual(self.affected(), ["alone.cpp"])
        self.commit()
        self.change("a.h")
        self.assertEqual(self.affected(), ["alone.cpp", "uses_b.cpp"], "one change is committed, the other not yet")

    def test_a_header_that_is_new(self):
        self.change("missing.h")
        self.assertEqual(self.affected(), ["other.cpp"])

    def test_a_header_that_is_gone(self):
        (self.root / "a.h").unlink()
        self.assertEqual(self.affected(), ["uses_b.cpp"])

    def test_other_checks_concern_all(self):
        self.change(".clang-tidy")
        self.assertEqual(self.affected(), SOURCES)

    def test_an_unknown_commit(self):
        self.assertEqual(self.affected("0" * 40), SOURCES)


unittest.main()
