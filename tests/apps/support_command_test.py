# SPDX-License-Identifier: Apache-2.0
"""`llmtrain support` compared with what `plan` and `run` do with the same keys."""
import json
import unittest

from program import ProgramTest


class Support(ProgramTest):
    def setUp(self):
        super().setUp()
        self.report = json.loads(self.run_program("support", "--json").stdout)
        self.write("recipe.json", self.report["recipe"])

    def answers(self, settings):
        """Whether plan accepts it, and whether run gets as far as reporting its missing data."""
        flags = [word for setting in settings for word in ("--set", setting)]
        planned = self.run_program("plan", "recipe.json", *flags)
        run = self.run_program("run", "recipe.json", *flags)
        self.assertEqual(run.returncode, 2, run.stderr)
        return planned, "can be planned but not run" not in run.stderr and "/data/train" in run.stderr

    def check(self, entry):
        planned, runs = self.answers(entry["set"])
        self.assertEqual(entry["plan"], planned.returncode == 0, planned.stderr)
        self.assertEqual(entry["run"], entry["plan"] and runs)
        self.assertEqual(entry["reason"] == "", entry["run"])
        if not entry["plan"]:
            self.assertIn(entry["reason"], planned.stderr)

    def test_every_key_is_as_reported(self):
        self.assertGreater(len(self.report["singles"]), 40)
        for entry in self.report["singles"]:
            with self.subTest(entry["set"]):
                self.check(entry)

    def test_every_pair_is_as_reported_and_does_not_follow_from_its_parts(self):
        alone = {(one["key"], one["value"]): one for one in self.report["singles"]}
        for entry in self.report["pairs"][:40]:
            with self.subTest(entry["set"]):
                self.check(entry)
                first, second = (alone[key, value] for key, value in zip(entry["keys"], entry["values"]))
                both_plan = first["plan"] and second["plan"]
                self.assertTrue(both_plan and not entry["plan"] or
                                entry["run"] != (first["run"] and second["run"]), entry)

    def test_known_answers(self):
        alone = {(one["key"], one["value"]): one for one in self.report["singles"]}
        self.assertTrue(all(one["plan"] for one in alone.values()), [one for one in alone.values() if not one["plan"]])
        self.assertTrue(alone["precision.compute", "bf16"]["run"])
        self.assertTrue(alone["precision.fp8_level", "O3"]["run"])
        self.assertTrue(alone["precision.compute", "fp16"]["run"])
        self.assertFalse(alone["memory.offload.weights", "true"]["run"])
        pairs = {tuple(sorted(zip(one["keys"], one["values"]))) for one in self.report["pairs"]}
        self.assertIn((("pipeline.loops", "2"), ("pipeline.schedule", "gpipe")), pairs)

    def test_table_has_a_line_for_each(self):
        lines = self.run_program("support").stdout.splitlines()
        self.assertEqual(sum(line.startswith(("  yes ", "  no ")) for line in lines),
                         len(self.report["singles"]) + len(self.report["pairs"]))


if __name__ == "__main__":
    unittest.main()
