# SPDX-License-Identifier: Apache-2.0
"""scripts/setup on machines that lack something, with fake system tools; and the usage of all scripts."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
ABSENT = "exit 1"
PRESENT = "echo install ok installed"


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(SCRIPTS, self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        self.bin = self.root / "bin"
        self.bin.mkdir()
        (self.root / "torch/lib").mkdir(parents=True)
        (self.root / "torch/lib/libtorch_cpu.so").touch()
        self.stand_in("apt-get", f'echo "$@" >>{self.root}/apt; exit 1')

    def stand_in(self, name, body):
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def setup(self, *arguments):
        environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "CMAKE_PREFIX_PATH": f"/nowhere:{self.root}/torch",
        }
        return subprocess.run(
            [self.root / "scripts/setup", *arguments], env=environment, capture_output=True, text=True, timeout=60
        )

    def apt_calls(self):
        file = self.root / "apt"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def test_nothing_missing_is_silent_and_leaves_nothing(self):
        self.stand_in("dpkg-query", PRESENT)
        result = self.setup()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertFalse((self.root / ".deps").exists())

    def test_user_gets_one_line_to_run_as_root(self):
        self.stand_in("dpkg-query", ABSENT)
        self.stand_in("id", "echo 1000")
        result = self.setup()
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("apt-get install -y --no-install-recommends", result.stderr)
        self.assertIn("nlohmann-json3-dev", result.stderr)
        self.assertNotIn("catch2", result.stderr)
        self.assertEqual(self.apt_calls(), [])

    def test_tests_ask_for_more(self):
        self.stand_in("dpkg-query", ABSENT)
        self.stand_in("id", "echo 1000")
        self.assertIn("catch2", self.setup("--tests").stderr)

    def test_sanitizers_ask_for_their_libraries(self):
        self.stand_in("dpkg-query", ABSENT)
        self.stand_in("id", "echo 1000")
        self.assertIn("libclang-rt-dev", self.setup("--sanitizers").stderr)
        self.assertNotIn("libclang-rt-dev", self.setup("--tests").stderr)

    def test_root_updates_the_lists_only_after_a_failure(self):
        self.stand_in("dpkg-query", ABSENT)
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", f'echo "$@" >>{self.root}/apt; [ "$2" = update ] && touch {self.root}/new; [ -e {self.root}/new ]')
        result = self.setup()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        calls = self.apt_calls()
        self.assertEqual(["install" in call for call in calls], [True, False, True])
        self.assertIn("libspdlog-dev", calls[0])

    def test_failed_installation_names_the_log(self):
        self.stand_in("dpkg-query", ABSENT)
        self.stand_in("id", "echo 0")
        result = self.setup()
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn(".deps/setup.log", result.stderr)


class UsageTest(unittest.TestCase):
    def test_every_script_has_one_line_of_usage(self):
        for name in ("setup", "build", "quickstart", "test", "lint"):
            with self.subTest(name):
                result = subprocess.run([SCRIPTS / name, "--help"], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual(len(result.stdout.splitlines()), 1)
                self.assertTrue(result.stdout.startswith(f"usage: scripts/{name}"))

    def test_unknown_option_is_a_usage_error(self):
        for name in ("setup", "build"):
            with self.subTest(name):
                result = subprocess.run([SCRIPTS / name, "--unknown"], capture_output=True, text=True)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr.startswith("usage: "))


if __name__ == "__main__":
    unittest.main()
