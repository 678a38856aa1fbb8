# SPDX-License-Identifier: Apache-2.0
"""`llmtrain plan --explain`: why a recipe is slower than a run, key by key."""
import json
import statistics
import unittest

from program import SOURCE, PlanTest, ProgramTest, TrainingTest

LLAMA = str(SOURCE / "recipes" / "models" / "llama3-8b.json")
# What the run had, on eight devices; none of it is the other recipe's.
RUN = {"cluster.profile": "h100-sxm-80gb", "cluster.nodes": 1, "launch.ranks": 8, "parallel.data": 4,
       "parallel.tensor": 2, "memory.recompute": "selective", "batch.micro": 2, "training.steps": 7}
RECIPE = {**RUN, "parallel.data": 2, "parallel.tensor": 4, "memory.recompute": "full", "batch.micro": 1,
          "training.steps": 9}
SPEEDS = [90000.0, 101000.0, 99000.0]


def flags(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


class Explain(PlanTest):
    def write_run(self):
        """A run's folder with steps of known speed."""
        plan = self.report(LLAMA, *flags(RUN))
        self.write("run/recipe.json", plan["recipe"])
        rows = [{"step": step, "loss": 5.0, "learning_rate": 1e-4, "gradient_norm": 1.0, "tokens": 1000 * step,
                 "step_seconds": 1.0, "tokens_per_second": speed, "mfu": 0.4, "memory_bytes": 1, "tensor_bytes": 1,
                 "skipped": 0} for step, speed in enumerate(SPEEDS, 1)]
        self.write("run/metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return plan

    def test_each_change_is_a_plan(self):
        """The keys lead from the recipe to the run, and what each of them makes is what `plan --set` says."""
        source = self.write_run()
        answer = self.report(LLAMA, *flags(RECIPE), "--explain", "run")
        self.assertEqual(answer["recipe"]["throughput"], self.report(LLAMA, *flags(RECIPE))["throughput"])
        self.assertEqual(answer["source"]["plan"]["throughput"], source["throughput"])
        measured = statistics.median(SPEEDS) / 8
        self.assertAlmostEqual(answer["source"]["measured_tokens_per_second_per_device"], measured)
        planned = source["throughput"]["tokens_per_second_per_device"]
        expected = answer["recipe"]["throughput"]["tokens_per_second_per_device"] * measured / planned
        self.assertAlmostEqual(answer["expected_tokens_per_second_per_device"], expected)
        taken, keys = dict(RECIPE), set()
        for change in answer["changes"]:
            for key in change["keys"]:
                keys.add(key["key"])
                taken[key["key"]] = key["source"]
            plan = self.report(LLAMA, *flags(taken))
            self.assertEqual(change["tokens_per_second_per_device"], plan["throughput"]["tokens_per_second_per_device"])
            self.assertEqual(change["peak_bytes"], max(rank["peak_bytes"] for rank in plan["ranks"]))
        # Neither of the degrees that divide the same devices is right without the other.
        self.assertIn({"parallel.data", "parallel.tensor"},
                      [{key["key"] for key in change["keys"]} for change in answer["changes"]])
        self.assertEqual(keys, {"parallel.data", "parallel.tensor", "memory.recompute", "batch.micro"})
        self.assertEqual(answer["changes"][-1]["tokens_per_second_per_device"], planned)
        # And what follows from keys that differ.
        self.assertEqual({key["key"] for key in answer["without_effect"]},
                         {"training.steps", "training.learning_rate.decay_steps", "parallel.expert_tensor"})
        self.assertEqual(answer["refused"], [])

    def test_text(self):
        self.write_run()
        text = self.run_program("plan", LLAMA, *flags(RECIPE), "--explain", "run").stdout
        self.assertRegex(text, r"(?m)^source  run on h100-sxm-80gb, 8 devices$")
        self.assertRegex(text, r"(?m)^  memory.recompute full → selective +[\d.]+k +\+[\d.]+ % +[\d.]+ GiB$")
        self.assertRegex(text, r"(?m)^      recompute -[\d.]+ %(, .*)? of the recipe's step$")
        self.assertRegex(text, r"(?m)^Without effect on either: training.steps,")
        self.assertRegex(text, r"The source measured [\d.]+ of what is planned for it")

    def test_data_ranks_give_way_to_a_degree_that_is_set(self):
        self.write_run()
        recipe = self.report(LLAMA, *flags(RUN))["recipe"]
        recipe.pop("launch")
        self.write("own.json", recipe)
        answer = self.report("own.json", "--set", "parallel.tensor=4", "--explain", "run")
        self.assertEqual((answer["recipe"]["mesh"]["data"], answer["recipe"]["derives_data"]), (2, True))
        self.assertEqual(answer["changes"][-1]["tokens_per_second_per_device"],
                         answer["source"]["plan"]["throughput"]["tokens_per_second_per_device"])
        text = self.run_program("plan", "own.json", "--set", "parallel.tensor=4", "--explain", "run").stdout
        self.assertIn("The recipe's data ranks: 2,", text)

    def test_what_is_no_run(self):
        for place in ("nowhere", "recipe.json"):
            self.write("recipe.json", {})
            result = self.run_program("plan", LLAMA, "--explain", place)
            self.assertEqual(result.returncode, 66, result.stderr)
            self.assertIn("give the directory of a run", result.stderr)
        self.write_run()
        self.write("run/metrics.jsonl", "")
        result = self.run_program("plan", LLAMA, "--explain", "run")
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("states the speed of no step", result.stderr)
        for flag in (["--search"], ["--target", "3d"], ["--html", "page.html"], ["--sweep", "batch.micro=1,2"]):
            self.assertEqual(self.run_program("plan", LLAMA, "--explain", "run", *flag).returncode, 2)


class ExplainPublished(ProgramTest):
    """Against a measurement that comes along."""

    def explain(self, *arguments):
        return self.run_program("plan", LLAMA, *arguments)

    def rows(self):
        return {row["name"]: row for row in json.loads(self.explain("--explain", "published:", "--json").stdout)}

    def test_all_of_them_are_listed(self):
        rows = self.rows()
        self.assertGreater(len(rows), 400)
        text = self.explain("--explain", "published:").stdout
        self.assertTrue(all(name in text for name in rows))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_keys_lead_from_the_recipe_to_the_row(self):
        row = self.rows()["torchtitan-3"]
        self.assertEqual((row["metric"], row["devices"]), ("tokens_per_second_per_device", 8))
        changes = ("--set", "cluster.nodes=1", "--set", "cluster.devices_per_node=8")
        answer = json.loads(self.explain(*changes, "--explain", "published:torchtitan-3", "--json").stdout)
        source = answer["source"]
        self.assertEqual(source["name"], "published:torchtitan-3")
        self.assertIn(row["source"], source["description"])
        self.assertAlmostEqual(source["measured_tokens_per_second_per_device"], row["value"])
        self.assertEqual(source["plan"]["mesh"]["world"], 8)
        self.assertEqual(source["plan"]["recipe"]["cluster"]["program"], row["program"])
        # This source's H100 have 96 GB, which is in no recipe's keys.
        self.assertGreater(source["plan"]["device_memory_bytes"], answer["recipe"]["device_memory_bytes"])
        planned = {who: answer[who]["throughput"]["tokens_per_second_per_device"] if who == "recipe" else
                   source["plan"]["throughput"]["tokens_per_second_per_device"] for who in ("recipe", "source")}
        self.assertAlmostEqual(answer["expected_tokens_per_second_per_device"],
                               planned["recipe"] * row["value"] / planned["source"])
        self.assertIn("cluster.program", {key["key"] for change in answer["changes"] for key in change["keys"]})
        self.assertEqual(answer["refused"], [])
        text = self.explain(*changes, "--explain", "published:torchtitan-3").stdout
        self.assertRegex(text, r"(?m)^source  published:torchtitan-3 on h100-sxm-80gb, 8 devices$")
        self.assertIn("The source measured", text)

    def test_names(self):
        result = self.explain("--explain", "published:torchtitan-300")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("published:torchtitan-300: no measurement has this name; the nearest are torchtitan-1 to",
                      result.stderr)
        # With a slash it is the folder of a run.
        result = self.explain("--explain", "./published:torchtitan-3")
        self.assertEqual(result.returncode, 66, result.stderr)
        self.assertIn("give the directory of a run", result.stderr)


class ExplainRun(TrainingTest):
    def test_a_run_by_its_own_recipe(self):
        """Nothing differs but by name, and its speed is what it has measured."""
        self.train("--run-dir", "runs/one", "--set", "training.steps=3", "--set", "cluster.profile=cpu")
        answer = json.loads(self.run_program("plan", "recipe.json", "--set", "training.steps=3", "--set",
                                             "cluster.profile=cpu", "--explain", "runs/one", "--json").stdout)
        self.assertEqual(answer["changes"], [])
        self.assertEqual(answer["refused"], [])
        speeds = [row["tokens_per_second"] for row in self.rows("runs/one") if "loss" in row]
        self.assertAlmostEqual(answer["source"]["measured_tokens_per_second_per_device"], statistics.median(speeds))


if __name__ == "__main__":
    unittest.main()
