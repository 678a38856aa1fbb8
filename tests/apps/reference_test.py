# SPDX-License-Identifier: Apache-2.0
"""docs/recipe.md contains the key table as the program prints it."""

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Reference(unittest.TestCase):
    def test_the_documented_keys_are_the_programs(self):
        table = subprocess.run(
            [os.environ["LLMTRAIN_PROGRAM"], "schema", "--markdown"], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("| `training.steps` |", table)
        self.assertTrue(
            (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8").endswith(table),
            "docs/recipe.md is out of date: replace its table with what `llmtrain schema --markdown` prints",
        )


unittest.main()
