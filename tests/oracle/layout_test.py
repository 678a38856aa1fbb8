# SPDX-License-Identifier: Apache-2.0
"""The division of a step into micro-batches, stages, schedules and recompute does not change what is learned."""
import tempfile
import unittest
from pathlib import Path

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
        write_tokens(self.folder / "tokens.bin", variant)
        expected = self.train(variant, "whole", batch={"micro": 8})
        for index, (micro, schedule, loops, balance, recompute) in enumerate(LAYOUTS):
            with self.subTest(micro=micro, schedule=schedule, loops=loops, balance=balance, recompute=recompute):
                rows = self.train(variant, f"layout-{index}", batch={"micro": micro}, memory={"recompute": recompute},
                                  pipeline={"schedule": schedule, "loops": loops, "balance": balance})
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
