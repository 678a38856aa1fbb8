# SPDX-License-Identifier: Apache-2.0
"""`llmtrain plan --policies`: a row per policy within a limit, as text and as JSON."""
import json
import unittest

from program import ProgramTest

RECIPE = {"model": {"architecture": "gpt2", "layers": 8, "hidden_size": 2048, "heads": 16, "vocab_size": 8192,
                    "max_sequence_length": 512},
          "batch": {"global": 4, "micro": 1}, "training": {"steps": 10, "clip_norm": 0},
          "precision": {"compute": "bf16", "gradients": "bf16"},
          "cluster": {"profile": "a100-40gb", "devices_per_node": 1, "device": "cuda"}}


class Policies(ProgramTest):
    def plan(self, *arguments):
        result = self.run_program("plan", self.write("recipe.json", json.dumps(RECIPE)), "--policies", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_every_policy_has_a_row_within_the_limit(self):
        table = json.loads(self.plan("4e9", "--json"))
        self.assertEqual(table["limit_bytes"], 4_000_000_000)
        self.assertGreater(table["unlimited_peak_bytes"], 4e9)
        rows = {row["policy"]: row for row in table["policies"]}
        self.assertEqual(list(rows), ["naive_swapping", "zero_offload", "zero_infinity", "patrickstar", "harmony", "own"])
        for row in rows.values():
            self.assertEqual(row["least_bytes"] is None, row["fits"])
            if row["fits"]:
                self.assertLessEqual(row["peak_bytes"], 4e9)
                self.assertLessEqual(rows["own"]["step_seconds"], row["step_seconds"])
        self.assertEqual(rows["naive_swapping"]["update"], "device")
        self.assertGreater(rows["naive_swapping"]["fetched_bytes"], rows["harmony"]["fetched_bytes"])
        self.assertTrue(rows["harmony"]["early_update"])
        self.assertEqual(table["notes"], [])

    def test_with_room_for_everything_nothing_moves_and_with_too_little_it_says_what_is_enough(self):
        rows = json.loads(self.plan("1", "--json"))["policies"]
        self.assertEqual([rows[0]["fetched_bytes"], rows[0]["written_bytes"]], [0, 0])
        text = self.plan("5e8")
        self.assertIn("needs", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_norms_hold_updates_back_and_other_outputs_are_refused(self):
        text = " ".join(self.plan("0.5", "--set", "training.clip_norm=1").split())
        self.assertIn("training.clip_norm: updates wait for the norm of all gradients", text)
        recipe = self.write("recipe.json", json.dumps(RECIPE))
        for flags in (("4e9", "--search"), ("0",), ("much",), ("0.5", "--set", "kernels.cuda_graphs=true")):
            refused = self.run_program("plan", recipe, "--policies", *flags)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
