# SPDX-License-Identifier: Apache-2.0
"""batch.growth: runs whose global batch grows against runs of each size that go on from one another."""
import json
import unittest

from program import TrainingTest

# By Megatron-LM's rule: three increments, one after each 4 of 12 samples, counted before a step.
GLOBAL, GROWTH = 8, {"start": 2, "increment": 2, "samples": 12}
SIZES = (2, 2, 4, 6, 8, 8, 8, 8)
STEPS = len(SIZES)
LENGTH = 16


def flags(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


class GrowingBatch(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("recipe.json", self.recipe({"training.steps": STEPS, "training.learning_rate.decay_steps": STEPS,
                                               "batch.global": GLOBAL, "batch.micro": 1, "model.layers": 2,
                                               "log.every": 1}))

    def grown(self, folder="runs/grown", *arguments, **layout):
        self.train("--run-dir", folder, *flags({"batch.growth": GROWTH, **layout}), *arguments)
        return self.rows(folder)

    def weights(self, folder):
        return next((self.folder / folder / f"checkpoints/step-{STEPS:08}").glob("*.safetensors")).read_bytes()

    def position(self, folder):
        manifest = self.folder / folder / f"checkpoints/step-{STEPS:08}/manifest.json"
        return json.loads(manifest.read_text())["data_position"]

    def chained(self, folder, layout):
        """Runs of one size each, which go on from the checkpoint of the one before."""
        for size in sorted(set(SIZES)):
            last = STEPS - SIZES[::-1].index(size)
            self.train("--run-dir", folder, *flags({"batch.global": size, "training.steps": last, **layout}))
        return self.rows(folder)

    def test_it_is_the_runs_of_each_size_one_after_another(self):
        """Bitwise: losses, learning rates, tokens and weights, also where the order of passes depends on the size."""
        layouts = ({},
                   {"launch.ranks": 2, "parallel.data": 2, "parallel.zero_stage": 2, "pipeline.loops": 2},
                   {"launch.ranks": 2, "parallel.data": 2, "parallel.zero_stage": 3, "precision.compute": "bf16"},
                   {"launch.ranks": 2, "parallel.pipeline": 2, "pipeline.schedule": "breadth_first"},
                   {"launch.ranks": 2, "parallel.pipeline": 2, "pipeline.schedule": "interleaved",
                    "pipeline.loops": 2, "pipeline.balance": "blocks"})
        names = ("step", "loss", "learning_rate", "grad_norm", "tokens")
        for number, layout in enumerate(layouts):
            with self.subTest(layout=layout):
                grown = self.grown(f"runs/grown-{number}", **layout)
                chained = self.chained(f"runs/chained-{number}", layout)
                self.assertEqual([[row[name] for name in names] for row in grown],
                                 [[row[name] for name in names] for row in chained])
                self.assertEqual([row["global_batch"] for row in grown], list(SIZES))
                self.assertNotIn("global_batch", chained[0])
                self.assertEqual(self.weights(f"runs/grown-{number}"), self.weights(f"runs/chained-{number}"))
                for kind in ("grown", "chained"):
                    self.assertEqual(self.position(f"runs/{kind}-{number}"), sum(SIZES))

    def test_ranks_make_no_difference(self):
        """Up to fp32's rounding of sums that are added in another order."""
        alone = self.grown()
        for number, layout in enumerate(({"launch.ranks": 2, "parallel.data": 2},
                                         {"launch.ranks": 2, "parallel.pipeline": 2},
                                         {"batch.micro": 2})):
            with self.subTest(layout=layout):
                for one, other in zip(alone, self.grown(f"runs/ranks-{number}", **layout), strict=True):
                    self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-5 * one["loss"])
                    self.assertEqual(one["tokens"], other["tokens"])

    def test_going_on_in_the_middle(self):
        """After a step of the second size: bitwise the run that never stopped."""
        whole = self.grown("runs/grown", "--set", "checkpoint.every=3")
        resumed = self.grown("runs/other", "--resume", "runs/grown/checkpoints/step-00000003")
        self.assertEqual([(row["step"], row["loss"], row["global_batch"]) for row in resumed],
                         [(row["step"], row["loss"], row["global_batch"]) for row in whole[3:]])
        self.assertEqual(self.weights("runs/grown"), self.weights("runs/other"))

    def test_shorter_sequences_and_a_clock_of_tokens(self):
        """A step counts on the clock as its share of the tokens of a whole one."""
        lengths = {"start": 8, "steps": 4, "multiple": 8}
        rows = self.grown(**{"data.curriculum.sequence_length": lengths, "training.learning_rate.clock": "tokens",
                             "training.learning_rate.schedule": "linear"})
        tokens = 0
        for row, size, length in zip(rows, SIZES, (8, 8, 8, 16, 16, 16, 16, 16), strict=True):
            self.assertEqual((row["global_batch"], row["sequence_length"]), (size, length))
            done = tokens / (GLOBAL * LENGTH)
            peak = json.loads((self.folder / "recipe.json").read_text())["training"]["learning_rate"].get("peak", 3e-4)
            self.assertAlmostEqual(row["learning_rate"], peak * (1 - done / STEPS), delta=1e-6 * peak)
            tokens += size * length
            self.assertEqual(row["tokens"], tokens)

    def test_plans_know_the_sizes(self):
        """Of tokens, and of time: that of a step of each size, as often as it comes."""
        def plan(**settings):
            result = self.run_program("plan", "recipe.json", "--json", *flags(settings))
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)
        for layout in ({}, {"launch.ranks": 2, "parallel.pipeline": 2}):
            with self.subTest(layout=layout):
                grown = plan(**{"batch.growth": GROWTH, **layout})
                self.assertEqual(grown["run"]["tokens"], sum(SIZES) * LENGTH)
                seconds = sum(plan(**{"batch.global": size, **layout})["step"]["seconds"] for size in SIZES)
                self.assertAlmostEqual(grown["run"]["seconds"], seconds, delta=1e-6 * seconds)
                self.assertEqual(grown["step"], plan(**layout)["step"])
        self.assertEqual(self.grown()[-1]["tokens"], plan(**{"batch.growth": GROWTH})["run"]["tokens"])

    def test_epochs(self):
        """2 + 2 + 4 + 6 + 8 samples are the first that are at least two epochs of ten."""
        self.write("text.txt", "abcdefgh" * 2 * 10 + "a")
        epochs = {"training.steps": None, "training.epochs": 2, "training.learning_rate.decay_steps": 5,
                  "checkpoint.every": 2}
        self.assertEqual([row["global_batch"] for row in self.grown(**epochs)], list(SIZES[:5]))
        # Going on counts the same; with other sizes no number of steps is known.
        self.grown("runs/other", "--resume", "runs/grown/checkpoints/step-00000002", **epochs)
        self.assertEqual(self.rows("runs/other")[-1]["step"], 5)
        self.refused(2, ["/training/epochs:", "has read 22 samples in 5 steps"], "run", "recipe.json", "--run-dir",
                     "runs/grown", *flags({**epochs, "training.epochs": 3}))

    def test_sizes_that_do_not_divide_are_refused_before_ranks_start(self):
        for settings, fragments in (
                ({"launch.ranks": 4, "parallel.data": 4}, ["/batch/growth/start: 2 is not a multiple of 4",
                                                           "batch.micro × parallel.data"]),
                ({"batch.micro": 4}, ["/batch/growth/start: 2 is not a multiple of 4", "batch.micro"]),
                ({"batch.growth.start": 4, "launch.ranks": 4, "parallel.data": 4},
                 ["/batch/growth/increment: 2 makes a batch of 6 sequences, which is not a multiple of 4"]),
                ({"batch.growth.start": 8}, ["/batch/growth/start: 8 leaves nothing to grow to"]),
                ({"batch.growth.increment": 4}, ["/batch/growth/increment: 4 does not divide 6"]),
                ({"kernels.cuda_graphs": True, "cluster.device": "cuda"},
                 ["/kernels/cuda_graphs", "needs batch.growth null"])):
            with self.subTest(settings=settings):
                self.refused(2, fragments, "run", "recipe.json", *flags({"batch.growth": GROWTH, **settings}))


if __name__ == "__main__":
    unittest.main()
