# SPDX-License-Identifier: Apache-2.0
"""The cases of scripts/bench are valid recipes, and its ratios are those of sides that took turns."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop()
sys.path.insert(0, str(ROOT / "scripts/bench_support"))
import cases  # noqa: E402
import ratios  # noqa: E402


class CasesTest(unittest.TestCase):
    def test_each_is_a_valid_recipe_of_its_precision(self):
        levels = set()
        with tempfile.TemporaryDirectory() as folder:
            for name in cases.NAMES:
                model, precision = name.rsplit("-", 1)
                _, path = cases.write_case(model, precision, pathlib.Path(folder))
                done = subprocess.run([PROGRAM, "validate", path, "--print"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                found = json.loads(done.stdout)["precision"]
                self.assertEqual(found["fp8_level"] != "off", cases.has_fp8(precision), name)
                if model == "gpt2-4x64":
                    levels.add((found["compute"], found["fp8_level"]))
        self.assertEqual(levels, {("fp32", "off"), ("bf16", "off"), *(("bf16", f"O{level}") for level in range(4))})


class RatiosTest(unittest.TestCase):
    # In the second round the machine is three times as slow; single steps are outliers.
    TURNS = {"fp8_O2": [[2, 2, 9], [6, 6, 6], [2.2]], "fp32": [[1.1, 1.1, 1.1], [3.3, 3.3, 3.3], [1.1]],
             "bf16": [[1, 1, 7], [3, 3, 3], [1]]}

    def test_fp8_beside_the_faster_precision(self):
        fp8, bf16 = ratios.fp8_ratios(self.TURNS, ["avx2"])
        self.assertIn("fp8_O2 ÷ bf16,", fp8.name)
        self.assertAlmostEqual(fp8.median, 2)
        self.assertAlmostEqual(fp8.least, 2)
        self.assertAlmostEqual(fp8.most, 2.2)
        self.assertTrue(fp8.line().endswith("2.00 (rounds 2.00 to 2.20); at most 3: yes"), fp8.line())
        self.assertAlmostEqual(bf16.median, 1 / 1.1)
        slower = {**self.TURNS, "bf16": [[2], [6], [2]]}
        fp8, bf16 = ratios.fp8_ratios(slower, ["avx2"])
        self.assertIn("fp8_O2 ÷ fp32,", fp8.name)
        self.assertTrue(bf16.line().endswith("at most 1.15: no"), bf16.line())

    def test_bf16_has_a_limit_where_it_is_widened(self):
        for feature in ("avx512_bf16", "amx_bf16", "bf16"):
            _, bf16 = ratios.fp8_ratios(self.TURNS, ["avx2", feature])
            self.assertIsNone(bf16.limit)
            self.assertNotIn("at most", bf16.line())
        _, bf16 = ratios.fp8_ratios(self.TURNS, ["avx512bw"])
        self.assertEqual(bf16.limit, 1.15)


unittest.main()
