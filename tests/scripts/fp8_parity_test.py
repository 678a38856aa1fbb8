# SPDX-License-Identifier: Apache-2.0
"""scripts/fp8_parity with a small model on two data ranks: every level learns real text as bf16 does, and all runs learn
from the same text."""

import json
import os
import pathlib
import shutil
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

    def final_loss(self, run):
        rows = [json.loads(line) for line in (pathlib.Path(self.runs) / run / "metrics.jsonl").read_text().splitlines()]
        return [row["validation_loss"] for row in rows if "validation_loss" in row][-1]

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
        # Only the run with delayed scales is not there yet.
        both = self.compare("--steps", "50", "--levels", "O1", "--scaling", "current", "delayed")
        self.assertEqual(both.returncode, 0, both.stdout)
        scaled = [line.split() for line in both.stdout.splitlines()[1:-1]]
        self.assertEqual([row[1] for row in scaled], ["bf16", "O1", "O1-delayed"])
        self.assertEqual(scaled[:2], [rows[0], rows[2]])
        # In all digits: of four, two may agree by chance.
        self.assertNotEqual(self.final_loss("llama-O1-delayed-1"), self.final_loss("llama-O1-1"))
        self.assertLess(float(scaled[2][3]), 4.3, scaled)
        other = self.compare("--steps", "50", "--set", "training.optimizer.beta1=0.8")
        self.assertNotEqual(other.returncode, 0, "runs with other keys were taken for this comparison's")
        other = self.compare("--steps", "51")
        self.assertNotEqual(other.returncode, 0, "runs of another comparison were taken for this one's")


TINY = ("--models gpt2 --levels O0 --layers 1 --hidden 32 --heads 2 --batch 2 --tokens 32 --steps 2 "
        "--tolerance 1").split()
TEXT = "The quick brown fox jumps over the lazy dog.\n"


class TextsTest(unittest.TestCase):
    """In a copy of the script beside other texts, which change between its starts."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        (self.tree / "scripts").mkdir()
        shutil.copy2(ROOT / "scripts/fp8_parity", self.tree / "scripts")
        for name in ("core", "kernels", "parallel", "tests", "docs", "apps"):
            (self.tree / name / "inner").mkdir(parents=True)
            (self.tree / name / "inner" / "text.txt").write_text((name + TEXT) * 40)
        (self.tree / "docs" / "picture.png").write_bytes(b"\x89PNG\xff\xfe")

    def rows(self, runs, *options):
        done = self.start(runs, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split() for line in done.stdout.splitlines()[1:-1] if "mean" not in line]

    def start(self, runs, *options):
        return subprocess.run([self.tree / "scripts/fp8_parity", "--build", BUILD, "--runs", self.tree / runs, *TINY,
                               *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_later_runs_train_on_the_first_ones_texts(self):
        expected = self.rows("whole", "--seeds", "2")
        # What a copy that was interrupted has left is not taken for one.
        partial = self.tree / "parts" / "texts.partial" / "core"
        partial.mkdir(parents=True)
        (partial / "text.txt").write_text("another text")
        first = self.rows("parts", "--seeds", "1")
        (self.tree / "core/inner/text.txt").write_text("Pack my box with five dozen liquor jugs.\n" * 40)
        (self.tree / "apps/inner/new.txt").write_text("Sphinx of black quartz, judge my vow.\n" * 40)
        (self.tree / "docs/inner/text.txt").rename(self.tree / "docs/text.txt")
        self.assertEqual(self.rows("parts", "--seeds", "1"), first)
        self.assertEqual(self.rows("parts", "--seeds", "2"), expected)
        # The texts do matter.
        self.assertNotEqual(self.rows("later", "--seeds", "1"), first)
        self.assertFalse(list((self.tree / "parts").rglob("*.png")))

    def test_changed_copy_is_refused(self):
        self.rows("runs", "--seeds", "1")
        with open(self.tree / "runs/texts/apps/inner/text.txt", "a", encoding="utf-8") as text:
            text.write("One line more.\n")
        done = self.start("runs", "--seeds", "1")
        self.assertNotEqual(done.returncode, 0, "losses of other texts were shown")
        self.assertIn("other options or texts", done.stderr)


unittest.main()
