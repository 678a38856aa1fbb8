# SPDX-License-Identifier: Apache-2.0
"""scripts/fp8_parity with a small model on two data ranks: every level learns real text as bf16 does."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop())
SIZE = "--models llama --layers 2 --hidden 64 --heads 2 --batch 2 --tokens 128 --seeds 1 --ranks 2".split()


class Fp8ParityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = folder.name

    def compare(self, *options):
        return subprocess.run([ROOT / "scripts/fp8_parity", "--build", BUILD, "--runs", self.runs, *SIZE, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_levels_learn_what_bf16_learns(self):
        done = self.compare("--steps", "50")
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = [line.split() for line in done.stdout.splitlines()[1:-1]]
        self.assertEqual([row[1] for row in rows], ["bf16", "O0", "O1", "O2", "O3"])
        # From the 5.5 of 256 equally likely bytes: a model whose updates are lost would stay there, at any precision.
        for row in rows:
            self.assertLess(float(row[3]), 4.3, row)
        # The runs are there already; no two levels round alike.
        strict = self.compare("--steps", "50", "--tolerance", "0")
        self.assertEqual(strict.returncode, 1, strict.stdout)
        self.assertEqual(strict.stdout.splitlines()[:-1], done.stdout.splitlines()[:-1])
        table = self.compare("--steps", "50", "--markdown").stdout.splitlines()[-7:]
        self.assertEqual([line.split(" | ")[1] for line in table[2:]], ["bf16", "O0", "O1", "O2", "O3"])
        for row, line in zip(rows, table[2:]):
            self.assertIn(f" {row[3]} ", line)
        # Of these only delayed scales are not there yet.
        both = self.compare("--steps", "50", "--levels", "O1", "--scaling", "current", "delayed")
        self.assertEqual(both.returncode, 0, both.stdout)
        scaled = [line.split() for line in both.stdout.splitlines()[1:-1]]
        self.assertEqual([row[1] for row in scaled], ["bf16", "O1", "O1-delayed"])
        self.assertEqual(scaled[:2], [rows[0], rows[2]])
        self.assertNotEqual(scaled[2][3:], rows[2][3:])
        self.assertLess(float(scaled[2][3]), 4.3, scaled)
        other = self.compare("--steps", "50", "--set", "training.optimizer.beta1=0.8")
        self.assertNotEqual(other.returncode, 0, "runs with other keys were taken for this comparison's")
        other = self.compare("--steps", "51")
        self.assertNotEqual(other.returncode, 0, "runs of another comparison were taken for this one's")


unittest.main()
