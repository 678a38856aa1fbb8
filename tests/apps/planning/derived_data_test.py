# SPDX-License-Identifier: Apache-2.0
"""`llmtrain plan --set` of degrees, to which the data ranks that a recipe fixes give way."""
import json
import unittest

from program import SOURCE, PlanTest, small

GPT3 = str(SOURCE / "recipes" / "papers" / "gpt3-175b.json")


class DerivedData(PlanTest):
    CHANGED = ("--set", "parallel.tensor=4", "--set", "parallel.pipeline=4")

    def refused(self, part, *arguments):
        result = self.run_program("plan", GPT3, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(part, result.stderr)

    def test_data_ranks_are_what_set_degrees_leave(self):
        alone = self.report(GPT3)
        self.assertFalse(alone["derives_data"])
        derived = self.report(GPT3, *self.CHANGED)
        self.assertTrue(derived["derives_data"])
        data = alone["mesh"]["world"] // 16
        self.assertEqual((derived["mesh"]["world"], derived["mesh"]["data"]), (alone["mesh"]["world"], data))
        given = self.report(GPT3, *self.CHANGED, "--set", f"parallel.data={data}")
        self.assertFalse(given["derives_data"])
        self.assertEqual({**given, "derives_data": True}, derived)
        text = " ".join(self.plan(GPT3, *self.CHANGED, "--html", "plan.html").stdout.split())
        self.assertIn(f"Data ranks: {data}, what the other degrees leave of the recipe's ranks", text)
        self.assertIn(f"a run keeps the recipe's and needs --set parallel.data={data}", text)
        self.assertIn(f"needs --set parallel.data={data}", (self.folder / "plan.html").read_text())

    def test_ranks_that_are_asked_for_stay(self):
        for flags in (["--set", "parallel.data=8"], ["--set", "cluster.nodes=16"], ["--ranks", "1024"],
                      ["--set", "cluster.devices_per_node=8"]):
            with self.subTest(flags):
                result = self.run_program("plan", GPT3, "--json", *self.CHANGED, *flags)
                if result.returncode == 0:
                    self.assertFalse(json.loads(result.stdout)["derives_data"])
        self.refused("/cluster/nodes", *self.CHANGED, "--set", "parallel.data=8")

    def test_what_does_not_divide_is_refused(self):
        self.refused(GPT3 + ": /parallel: tensor 8 × pipeline 6 × context 1 does not divide the recipe's 1024 ranks",
                     "--set", "parallel.pipeline=6")

    def test_one_rank_has_none_to_share(self):
        self.write("recipe.json", small({"parallel.data": 1, "batch.global": 8, "cluster.profile": "cpu"}))
        report = self.report("recipe.json", "--set", "parallel.tensor=2")
        self.assertEqual((report["mesh"]["world"], report["derives_data"]), (2, False))

    def test_a_run_keeps_its_ranks(self):
        """Here more tensor ranks make more ranks, of which a plan would say nothing."""
        recipe = small({"parallel.data": 2, "batch.global": 8, "cluster.profile": "cpu"})
        self.write("recipe.json", recipe)
        self.assertEqual(self.report("recipe.json", "--set", "parallel.tensor=2")["mesh"]["world"], 2)
        run = self.run_program("run", "recipe.json", "--set", "parallel.tensor=2", "--dry-run")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("on 4 devices", run.stdout)

    def test_comparisons_explanations_and_searches(self):
        recipe = small({"parallel.data": 4, "batch.global": 8, "batch.micro": 1, "cluster.profile": "a100-80gb"})
        self.write("recipe.json", recipe)
        self.write("other.json", {**recipe, "memory": {"recompute": "full"}})
        two = ("--set", "parallel.tensor=2")
        comparison = self.report("recipe.json", "other.json", *two)
        self.assertEqual([(plan["mesh"]["data"], plan["derives_data"]) for plan in comparison["plans"]], [(2, True)] * 2)
        self.assertEqual([entry["key"] for entry in comparison["differences"]], ["memory.recompute"])
        self.assertIsNone(comparison["differences"][0]["refused"])
        self.assertIn("second's data ranks: 2,", self.plan("recipe.json", "other.json", *two).stdout)
        search = self.report("recipe.json", "--search", *two)
        self.assertTrue(search["derives_data"])
        alone = self.report("recipe.json", "--search")
        self.assertEqual(search["front"], alone["front"])
        self.assertFalse(alone["derives_data"])
        self.assertIn("data: what the other degrees leave", self.plan("recipe.json", "--search", *two).stdout)
        self.plan("recipe.json", "--target", "3d", *two)


if __name__ == "__main__":
    unittest.main()
