# SPDX-License-Identifier: Apache-2.0
"""training.epochs: how many steps a run has, what they read, and going on in the middle of an epoch."""
import json
import math
import random
import shutil
import unittest

from program import PROGRAM, TrainingTest

LENGTH, SAMPLES = 16, 10


class Epochs(TrainingTest):
    def setUp(self):
        super().setUp()
        text = "".join(random.Random(1).choices("abcdefgh ", k=LENGTH * SAMPLES + 1))
        self.write("text.txt", text)
        self.write("recipe.json", self.recipe({"training.steps": None, "training.epochs": 2}))

    def planned(self, *settings):
        flags = [word for setting in settings for word in ("--set", setting)]
        result = self.run_program("plan", "recipe.json", "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["recipe"]

    def test_steps_follow_from_the_data(self):
        """ceil(epochs x samples / batch.global), also of shorter samples, where the learning rate ends, and packed."""
        for epochs, batch, length in ((1, 2, 16), (2, 2, 16), (3, 4, 16), (1.1, 1, 16), (0.5, 8, 16), (0.01, 2, 16),
                                      (7, 6, 8), (1000000, 2, 16)):
            with self.subTest(epochs=epochs, batch=batch, length=length):
                samples = (LENGTH * SAMPLES + 1 - 1) // length
                steps = math.ceil(round(epochs * samples, 6) / batch)
                recipe = self.planned(f"training.epochs={epochs}", f"batch.global={batch}", "batch.micro=1",
                                      f"batch.sequence_length={length}")
                training = recipe["training"]
                self.assertEqual((training["steps"], training["epochs"]), (steps, None))
                self.assertEqual(training["learning_rate"]["decay_steps"], steps)
        shorter = 'data.curriculum.sequence_length={"start": 8, "steps": 5, "method": "%s"}'
        for method in ("truncate", "reshape"):
            self.assertEqual(self.planned(shorter % method)["training"]["steps"], SAMPLES)

    def test_packed_conversations(self):
        """Their samples are counted after packing: four conversations of two tokens' answers fit into a sequence."""
        lines = [json.dumps({"prompt": "ab", "completion": "c"}) + "\n" for _ in range(7)]
        self.write("chat.jsonl", "".join(lines))
        settings = ('data.train=[{"path": "chat.jsonl"}]', "batch.global=1", "batch.micro=1", "training.epochs=3",
                    'data.fine_tuning={"template": "chatml"}', "model.max_sequence_length=256")
        flags = [word for setting in settings for word in ("--set", setting)]
        result = self.run_program("data", "inspect", "recipe.json", "--json", *flags)
        samples = json.loads(result.stdout)["sources"][0]["samples"]
        self.assertLess(samples, len(lines))
        self.assertEqual(self.planned(*settings)["training"]["steps"], 3 * samples)

    def test_an_epoch_reads_each_sample_once(self):
        """With weights that stay as they are, the losses of an epoch's steps have the mean of an evaluation of the
        data, and those of the next epoch too, in another order."""
        self.train("--set", "training.learning_rate.peak=0")
        losses = [row["loss"] for row in self.rows()]
        self.assertEqual(len(losses), 2 * SAMPLES // 2)
        result = self.run_program("eval", "runs/small", "--data", "text.txt", "--packed", "--json")
        expected = json.loads(result.stdout)["loss"]
        first, second = losses[:SAMPLES // 2], losses[SAMPLES // 2:]
        for epoch in (first, second):
            # fp32: the losses of steps are rounded means of 32 terms.
            self.assertAlmostEqual(sum(epoch) / len(epoch), expected, delta=2e-6 * expected)
        self.assertNotEqual(first, second)

    def test_going_on_in_the_second_epoch(self):
        """Is bitwise the run that never stopped, with its learning rates; with another number of epochs it is a
        longer run."""
        self.train("--set", "checkpoint.every=7")
        whole = [(row["step"], row["loss"], row["learning_rate"]) for row in self.rows()]
        self.train("--run-dir", "runs/other", "--resume", "runs/small/checkpoints/step-00000007")
        resumed = [(row["step"], row["loss"], row["learning_rate"]) for row in self.rows("runs/other")]
        self.assertEqual(resumed, whole[7:])
        weights = [next((self.folder / run / "checkpoints/step-00000010").glob("*.safetensors")).read_bytes()
                   for run in ("runs/small", "runs/other")]
        self.assertEqual(weights[0], weights[1])
        result = self.run_program("run", "recipe.json", "--set", "training.epochs=3")
        self.assertIn("training.steps: 10 -> 15", result.stderr)
        self.assertEqual(self.rows()[-1]["step"], 15)
        manifest = json.loads((self.folder / "runs/small/checkpoints/step-00000015/manifest.json").read_text())
        self.assertEqual(manifest["data_position"], 3 * SAMPLES)

    def test_what_has_no_number_of_steps_is_refused(self):
        for settings, fragments in (
                (["training.steps=3"], ["/training/epochs: 2 stands beside training.steps 3"]),
                (['data.train=[{"path": "text.txt"}, {"path": "text.txt"}]'], ["/training/epochs: 2 of 2 sources"]),
                (["data.train=[]"], ["/data/train: is missing; run needs", "/training/epochs: 2 epochs of no data"]),
                (['data.curriculum.vocabulary_rarity={"steps": 5}'], ["/training/epochs: 2 of samples of which the easy"]),
                (["training.epochs=1e6", "batch.sequence_length=1", "data.train.0.path=nowhere.txt"], ["nowhere.txt"])):
            flags = [word for setting in settings for word in ("--set", setting)]
            for command in ("run", "plan"):
                with self.subTest(settings=settings, command=command):
                    result = self.run_program(command, "recipe.json", *flags)
                    self.assertIn(result.returncode, (2, 66), result.stderr)
                    self.assertIn(fragments[-1 if command == "plan" else 0], result.stderr)

    def test_going_on_with_another_batch(self):
        """In the run's own folder, from another one's checkpoint, and when the batch was changed before."""
        self.train()
        for folder in ((), ("--run-dir", "runs/other", "--resume", "runs/small"),
                       ("--run-dir", "runs/other", "--resume", "runs/small/checkpoints/step-00000010")):
            self.refused(2, ["/training/epochs:", "step-00000010 has read 20 samples in 10 steps, and later steps would "
                             "read 4 each"], "run", "recipe.json", "--set", "batch.global=4", *folder)
        by_steps = ("--set", "training.epochs=null", "--set", "training.steps=11", "--set", "batch.global=4")
        self.train(*by_steps)
        for batch in (2, 4):
            self.refused(2, ["step-00000011 has read 24 samples in 11 steps"], "run", "recipe.json", "--set",
                         f"batch.global={batch}", "--set", "training.epochs=5")

    def test_commands_that_start_runs_or_describe_them(self):
        """slurm, sweep and new count as plan does; a sweep leaves out what cannot be trained."""
        result = self.run_program("slurm", "recipe.json", "--set", "cluster.nodes=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step-00000010", result.stdout)
        result = self.run_program("sweep", "recipe.json", "--over", "batch.global=2,4", "--over",
                                  "training.learning_rate.decay_steps=5,0", "--json", "--set",
                                  "training.learning_rate.warmup_steps=4")
        self.assertEqual(result.returncode, 0, result.stderr)
        runs = json.loads(result.stdout)["runs"]
        self.assertEqual([run["steps"] for run in runs], [10, None, 5, None])
        self.assertIn("decay_steps", runs[1]["refused"])
        letters = 10000
        self.write("long.txt", "a" * letters)
        result = self.run_program("new", "--model", "quickstart", "--data", "long.txt", "--epochs", "200", "--output",
                                  "mine.json", "--machine", "cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        made = json.loads((self.folder / "mine.json").read_text())
        self.assertEqual((made["training"]["epochs"], made["training"].get("steps")), (200, None))
        plan = json.loads(self.run_program("plan", "mine.json", "--json").stdout)["recipe"]
        samples = (letters - 1) // made["batch"]["sequence_length"]
        steps = math.ceil(200 * samples / made["batch"]["global"])
        self.assertEqual((plan["training"]["steps"], plan["checkpoint"]["every"]), (steps, max(1, steps // 10)))
        self.assertEqual(plan["training"]["learning_rate"]["warmup_steps"], steps // 50)
        self.refused(2, ["/training/epochs: 2 epochs of no data"], "new", "--model", "quickstart", "--epochs", "2",
                     "--output", "other.json", "--machine", "cpu")

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_ranks_of_a_launcher_share_the_tokens(self):
        """They count at the same time: one tokenises, and none is refused as its second writer."""
        self.write("tokenizer.json", {
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": [],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}})
        self.write("text.txt", "ab" * 100000)
        command = ("--quiet", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3", PROGRAM, "run",
                   "recipe.json")
        result = self.run_program(*command, "--set", 'data.tokenizer={"huggingface": "tokenizer.json"}', "--set",
                                  "batch.global=3", "--set", "batch.micro=1", "--set", "training.epochs=0.001",
                                  program=shutil.which("mpirun"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("made of"), 1, result.stderr)
        self.assertEqual(len(self.rows()), math.ceil(0.001 * 12499 / 3))

    def test_mistakes_are_told_before_tokenising(self):
        """As without epochs: files of validation data, and ranks that do not fit the recipe."""
        self.write("tokenizer.json", {
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": [],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}})
        self.write("text.txt", "ab" * 2000)
        for code, setting, fragment in ((66, 'data.validation=[{"path": "nowhere.txt"}]', "/data/validation/0/path"),
                                        (2, "launch.ranks=3", "/batch/global")):
            result = self.refused(code, [fragment], "run", "recipe.json", "--set", setting, "--set",
                                  'data.tokenizer={"huggingface": "tokenizer.json"}')
            self.assertNotIn("made of", result.stderr)

    def test_validate_leaves_them_open(self):
        """It reads no data; what it prints is a recipe of the same epochs."""
        result = self.run_program("validate", "recipe.json", "--print")
        training = json.loads(result.stdout)["training"]
        self.assertEqual((training["epochs"], training.get("steps")), (2, None))
        self.assertNotIn("decay_steps", training["learning_rate"])
        self.write("printed.json", result.stdout)
        self.assertEqual(self.run_program("validate", "printed.json", "--print").stdout, result.stdout)


if __name__ == "__main__":
    unittest.main()
