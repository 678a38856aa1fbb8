# SPDX-License-Identifier: Apache-2.0
"""The mutations of tests/mutations must fit the sources, and scripts/mutate must say where they do not."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = {"name": "no sum", "file": "sum.cpp", "find": "a + b", "replace": "a", "tests": "sum_test"}


def check(root):
    result = subprocess.run([sys.executable, root / "scripts" / "mutate", "--check"], capture_output=True, text=True)
    return result.returncode, result.stdout.splitlines(), result.stderr


class MutateTest(unittest.TestCase):
    def check_tree(self, entries, source="int sum(int a, int b) { return a + b; }\n"):
        """The exit status and the lines of --check in a tree with one source and these mutations."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
            (root / "tests" / "mutations").mkdir(parents=True)
            (root / "tests" / "mutations" / "all.json").write_text(json.dumps(entries))
            (root / "sum.cpp").write_text(source)
            status, lines, errors = check(root)
        self.assertEqual(errors, "")
        return status, lines

    def assert_refused(self, entry, problem):
        status, lines = self.check_tree([entry])
        self.assertEqual(status, 1)
        self.assertIn(problem, lines[0])

    def test_every_mutation_fits_the_sources(self):
        status, lines, errors = check(ROOT)
        self.assertEqual((status, errors), (0, ""), "\n".join(lines))
        self.assertGreaterEqual(int(lines[-1].split()[0]), 64)

    def test_a_mutation_that_fits_passes(self):
        self.assertEqual(self.check_tree([GOOD]), (0, ["1 mutations, 0 mistakes"]))

    def test_text_that_is_not_there_is_refused(self):
        self.assert_refused({**GOOD, "find": "a - b"}, "sum.cpp holds 'a - b' 0 times")

    def test_text_that_is_there_twice_is_refused(self):
        self.assert_refused({**GOOD, "find": "int "}, "sum.cpp holds 'int ' 3 times")

    def test_a_file_that_is_not_there_is_refused(self):
        self.assert_refused({**GOOD, "file": "product.cpp"}, "product.cpp is no file")

    def test_a_mutation_that_changes_nothing_is_refused(self):
        self.assert_refused({**GOOD, "replace": GOOD["find"]}, "changes nothing")

    def test_an_unknown_key_is_refused(self):
        self.assert_refused({**GOOD, "survive": "it does"}, "has an unknown survive")

    def test_two_of_one_name_are_refused(self):
        status, lines = self.check_tree([GOOD, GOOD])
        self.assertEqual(status, 1)
        self.assertIn("another one has this name", lines[0])

    def test_a_sample_depends_on_its_seed_alone(self):
        def listed(*arguments):
            command = [sys.executable, ROOT / "scripts" / "mutate", "--list", *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

        first = listed("--sample", "20")
        self.assertEqual(len(set(first)), 20)
        self.assertLess(set(first), set(listed()))
        self.assertEqual(listed("--sample", "20"), first)
        self.assertNotEqual(listed("--sample", "20", "--seed", "2"), first)


if __name__ == "__main__":
    unittest.main()
