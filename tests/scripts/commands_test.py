# SPDX-License-Identifier: Apache-2.0
"""Every command in scripts says what it does, which also shows that all its modules can be read."""

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands():
    files = [*(ROOT / "scripts").iterdir(), *(ROOT / "scripts" / "benchmarks").iterdir()]
    return sorted(file for file in files if file.is_file() and os.access(file, os.X_OK))


class Commands(unittest.TestCase):
    def test_each_prints_its_usage(self):
        self.assertGreater(len(commands()), 30)
        for command in commands():
            with self.subTest(command.name):
                answer = subprocess.run([command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                        timeout=60)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertRegex(answer.stdout, "^usage: (?!usage)")


if __name__ == "__main__":
    unittest.main()
