# SPDX-License-Identifier: Apache-2.0
"""The division of a step into micro-batches, stages, schedules and recompute does not change what is learned."""
import os
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import program
from variants import VARIANTS, complete, write_recipe, write_tokens

LOSS, NORM = 1e-5, 1e-4

# (micro, schedule, loops, balance, recompute); the model has three layers, so five blocks.
LAYOUTS = [
    (4, "breadth_first", 1, "layers", "none"),
    (2, "breadth_first", 3, "layers", "none"),
    (1, "breadth_first", 3, "layers", "full"),
    (4, "breadth_first", 5, "blocks", "selective"),
    (2, "breadth_first", 2, [1, 2], "full"),
    (8, "breadth_first", 3, [0, 1, 2], "selective"),
    (8, "gpipe", 1, "layers", "selective"),
    (2, "gpipe", 1, "layers", "full"),
    (8, "1f1b", 1, "layers", "full"),
    (1, "1f1b", 1, "layers", "none"),
    (2, "1f1b", 1, "layers", "selective"),
    (4, "interleaved", 3, "layers", "none"),
    (1, "interleaved", 5, "blocks", "selective"),
    (2, "interleaved", 3, "layers", "full"),
]


class LayoutTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def train(self, variant, name, **sections):
        tokens = self.folder / "tokens.bin"
        recipe = write_recipe(self.folder / f"{name}.json", complete(variant, tokens, **sections))
        return program.train(recipe, self.folder / name)

    def check_layouts(self, variant):
        """One thread per run and one run per processor: the models are too small to share."""
        write_tokens(self.folder / "tokens.bin", variant)

        def train(job):
            index, (micro, schedule, loops, balance, recompute) = job
            return self.train(variant, f"layout-{index}", batch={"micro": micro}, memory={"recompute": recompute},
                              pipeline={"schedule": schedule, "loops": loops, "balance": balance})

        with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"), ThreadPoolExecutor(os.cpu_count()) as pool:
            expected = self.train(variant, "whole", batch={"micro": 8})
            results = list(pool.map(train, enumerate(LAYOUTS)))
        for layout, rows in zip(LAYOUTS, results, strict=True):
            with self.subTest(layout=layout):
                self.assertLessEqual(program.worst(rows, expected, "loss")[0], LOSS)
                self.assertLessEqual(program.worst(rows, expected, "grad_norm")[0], NORM)

    def test_layouts_of_a_tied_model(self):
        self.check_layouts(VARIANTS["gpt2, no bias"])

    def test_layouts_of_an_untied_model(self):
        self.check_layouts(VARIANTS["gpt-rope"])

    def test_recompute_is_bitwise_the_same(self):
        """Recomputed values are bitwise equal to the first ones."""
        variant = VARIANTS["llama"]
        write_tokens(self.folder / "tokens.bin", variant)
        losses = {recompute: [row["loss"] for row in self.train(variant, recompute, memory={"recompute": recompute})]
                  for recompute in ("none", "selective", "full")}
        self.assertEqual(losses["none"], losses["selective"])
        self.assertEqual(losses["none"], losses["full"])


if __name__ == "__main__":
    unittest.main()
