# SPDX-License-Identifier: Apache-2.0
"""scripts/gradient_scaling with a small model and few steps: what of its results does not depend on the length."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop())
SIZE = "--ranks 4 --steps 20 --hidden 32 --layers 1".split()
# Figures of so few steps depend on the text, and the repository's own changes.
TEXT = ROOT / "LICENSE"


def rows_of(lines):
    """[(name, underflowed and saturated share in %, signal to noise in dB)]."""
    for line in lines:
        name, underflow, overflow, noise, _ = line.replace("%", "").split()
        yield name, (float(underflow), float(overflow), float(noise))


class GradientScalingTest(unittest.TestCase):
    def compare(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder, "plot.svg")
            done = subprocess.run([ROOT / "scripts/gradient_scaling", "--build", BUILD, *SIZE, "--text", TEXT,
                                   "--plot", plot],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            xml.etree.ElementTree.parse(plot)
        return done.stdout.splitlines()

    def test_scalings_and_sums(self):
        lines = self.compare()
        runs, sums = dict(rows_of(lines[2:6])), list(rows_of(lines[7:]))
        once, rings = dict(sums[::2]), dict(zip(runs, (figures for _, figures in sums[1::2])))
        self.assertEqual(list(once), ["auto", "pre", "post", "inverse_root"])
        for found in (runs, once):
            # With 1 ÷ ranks no sum is beyond the range; a factor of 1 keeps more of the small gradients.
            self.assertEqual(found["pre"][1], 0)
            self.assertGreater(found["post"][1], 0)
            self.assertLess(found["post"][0], found["pre"][0])
            self.assertGreater(found["auto"][2], found["post"][2] + 1)
        for scaling, figures in rings.items():
            self.assertGreater(once[scaling][2], figures[2], scaling)
        # Two more roundings, of sums of two and three gradients.
        self.assertGreater(once["pre"][2], rings["pre"][2] + 1)


unittest.main()
