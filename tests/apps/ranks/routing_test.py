# SPDX-License-Identifier: Apache-2.0
"""Where tokens go: counts of a run's routing, and a run and a plan that replay them."""
import json
import unittest

from program import TrainingTest


class Routing(TrainingTest):
    """A run counts the tokens of each expert, and another one replays them."""

    MOE = {"experts": 4, "top_k": 2, "ffn_hidden_size": 16, "capacity_factor": 0, "every": 2}

    def counts(self, run):
        return [json.loads(line) for line in (self.folder / "runs" / run / "routing.jsonl").read_text().splitlines()]

    def test_recorded_and_replayed(self):
        recipe = self.recipe({"model.moe": self.MOE, "model.layers": 4, "training.steps": 2, "log.routing": True})
        self.write("recipe.json", recipe)
        self.train("--run-dir", "runs/recorded")
        recorded = self.counts("recorded")
        self.assertEqual([(row["step"], row["layer"]) for row in recorded], [(1, 1), (1, 3), (2, 1), (2, 3)])
        tokens = recipe["batch"]["global"] * recipe["model"]["max_sequence_length"]
        for row in recorded:
            self.assertEqual(sum(row["chosen"]), 2 * tokens)
        for row in self.rows("runs/recorded"):
            self.assertTrue(0 < row["router_entropy"] <= 1)
        trace = ("--set", "model.moe.routing_trace=runs/recorded/routing.jsonl")
        self.train("--run-dir", "runs/replayed", "--set", "seed=7", *trace)
        self.assertEqual(self.counts("replayed"), recorded)
        self.write("recipe.json", {**recipe, "log": {"routing": False}})
        planned = self.run_program("plan", "recipe.json", "--json", *trace)
        self.assertGreater(json.loads(planned.stdout)["routing"]["expert_load"], 1, planned.stderr)
        planned = self.run_program("plan", "recipe.json", "--set", "model.moe.routing_zipf=9")
        self.assertIn("the fullest expert has 2.00 times", " ".join(planned.stdout.split()))
        self.refused(2, ["/model/moe/routing_trace:"], "plan", "recipe.json", *trace, "--set", "model.moe.routing_zipf=1")
        self.refused(66, ["nowhere.jsonl"], "plan", "recipe.json", "--set", "model.moe.routing_trace=nowhere.jsonl")
        (self.folder / "runs/recorded/routing.jsonl").write_text("{}")
        self.refused(65, ["routing.jsonl: line 1"], "run", "recipe.json", *trace)

    def test_drops_of_a_crowded_expert_are_in_the_log_of_any_ranks(self):
        """All of 16 tokens choose the first expert, which has places for 4."""
        moe = {"experts": 4, "top_k": 1, "ffn_hidden_size": 16, "capacity_factor": 1, "routing_zipf": 100}
        self.write("recipe.json", self.recipe({"model.moe": moe, "batch.global": 4, "batch.micro": 1, "log.routing": True,
                                               "launch.backend": "local"}))
        layouts = {"one": ("launch.ranks=1",), "four": ("launch.ranks=4", "parallel.expert=4"),
                   "tensor": ("launch.ranks=4", "parallel.expert=2", "parallel.tensor=2")}
        for run, settings in layouts.items():
            with self.subTest(run):
                self.train("--run-dir", f"runs/{run}", *(word for each in settings for word in ("--set", each)))
                self.assertEqual([row["chosen"] for row in self.counts(run)], [[64, 0, 0, 0]] * 2)
                for row in self.rows(f"runs/{run}"):
                    self.assertEqual((row["dropped_share"], row["expert_load"], row["skipped"]), (0.75, 4, 0))

    def test_routers_learn_from_conversations(self):
        """Their losses are means over all rows, whatever of them counts in the other loss."""
        lines = ({"prompt": "a" * prompt, "completion": "bcd" * answer} for prompt, answer in ((2, 3), (5, 1), (1, 4), (9, 2)))
        self.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        moe = {**self.MOE, "every": 1, "balance_loss": "none"}
        self.write("recipe.json", self.recipe({
            "data": {"train": [{"path": "chat.jsonl"}], "fine_tuning": {"packing": False}}, "model.moe": moe,
            "batch.global": 4, "batch.micro": 4, "training.steps": 3, "launch": {"ranks": 1, "backend": "local"},
            "training.learning_rate.peak": 0.01}))
        taught = ("--set", "model.moe.z_coefficient=0.5")
        rows = {}
        for run, flags in (("untaught", ()), ("whole", taught), ("cut", (*taught, "--set", "batch.micro=1")),
                           ("ranks", (*taught, "--set", "launch.ranks=2", "--set", "batch.micro=1",
                                      "--set", "parallel.expert=2")),
                           ("balanced", ("--set", "model.moe.balance_loss=gshard"))):
            with self.subTest(run):
                self.train("--run-dir", f"runs/{run}", *flags)
                rows[run] = self.rows(f"runs/{run}")
        for run in ("cut", "ranks"):
            for row, whole in zip(rows[run], rows["whole"], strict=True):
                for key in ("loss", "z_loss"):
                    self.assertAlmostEqual(row[key], whole[key], delta=1e-4 * whole[key])
        for run in ("whole", "balanced"):
            self.assertNotEqual([row["loss"] for row in rows[run]], [row["loss"] for row in rows["untaught"]])
        # The first losses are those of the same weights; later routers have smaller logits.
        self.assertEqual(rows["whole"][0]["loss"], rows["untaught"][0]["loss"])
        self.assertLess(rows["whole"][-1]["z_loss"], rows["whole"][0]["z_loss"])

    def test_a_resumed_run_goes_on_with_the_splits_that_were_tried(self):
        self.write("recipe.json", self.recipe({
            "model.moe": {**self.MOE, "every": 1}, "batch.global": 4, "training.steps": 3,
            "launch": {"ranks": 2, "backend": "local"},
            "parallel": {"expert_tensor": "auto", "expert_slices": 2, "zero_stage": 3}}))
        self.train("--run-dir", "run")
        tried = self.exchange("run")["split_trials"]
        self.assertEqual([trial["step"] for trial in tried], [1, 2, 3])
        self.assertEqual({trial["expert_tensor"] for trial in tried}, {1, 2})
        resumed = self.run_program("run", "recipe.json", "--run-dir", "run", "--set", "training.steps=4")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(self.exchange("run")["split_trials"][:3], tried)

    def exchange(self, run):
        return json.loads((self.folder / run / "exchange.json").read_text())

    def test_a_resumed_run_goes_on_with_the_exchanges_that_were_found(self):
        self.write("recipe.json", self.recipe({
            "model.moe": {**self.MOE, "every": 1}, "batch.global": 4, "training.steps": 4,
            "launch": {"ranks": 2, "backend": "local"},
            "parallel": {"expert": 2, "expert_overlap": "auto", "expert_all_to_all": "auto"}}))
        self.train("--run-dir", "run")
        found = self.exchange("run")
        self.assertEqual([trial["step"] for trial in found["trials"]], [1, 2, 3, 4])
        # Within a node nothing can be relayed.
        self.assertEqual({(trial["parts"], trial["all_to_all"]) for trial in found["trials"]},
                         {(parts, "linear") for parts in (1, 2, 4, 8)})
        longer = ("--run-dir", "run", "--set", "training.steps=6")
        resumed = self.run_program("run", "recipe.json", *longer)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("experts exchange rows as run/exchange.json says", resumed.stderr)
        trials = self.exchange("run")["trials"]
        self.assertEqual(trials[:4], found["trials"])
        self.assertEqual([trial["step"] for trial in trials], [1, 2, 3, 4, 5, 6])
        # Another layout's times say nothing.
        other = self.run_program("run", "recipe.json", "--run-dir", "run", "--set", "training.steps=7", "--set",
                                 "parallel.zero_stage=1")
        self.assertIn("run/exchange.json is of another layout", other.stderr)
        self.assertEqual([trial["step"] for trial in self.exchange("run")["trials"]], [7])

    def test_needs_experts(self):
        self.refused(2, ["/log/routing:"], "validate", "recipe.json", "--set", "log.routing=true")


if __name__ == "__main__":
    unittest.main()
