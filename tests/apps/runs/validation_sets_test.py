# SPDX-License-Identifier: Apache-2.0
"""Validation data as sets that each have a name: their losses, wherever a run says them, and which one judges it."""
import json
import random
import unittest

from program import TrainingTest

NAMES = ("plain", "two \"words\"", "long")


class ValidationSets(TrainingTest):
    def setUp(self):
        super().setUp()
        self.sets = []
        for seed, name in enumerate(NAMES):
            letters = ("abcdef", "ghijklmn ", "The quick brown fox")[seed]
            self.write(f"set-{seed}.txt", "".join(random.Random(seed).choices(letters, k=16 * (seed + 3) + 5)))
            self.sets.append({"path": f"set-{seed}.txt", "name": name})
        self.write("recipe.json", self.recipe({
            "data.validation": self.sets, "training.evaluate_every": 2, "training.steps": 4, "checkpoint.every": 2,
            "training.learning_rate.peak": 0.01}))

    def evaluations(self, folder):
        return {row["step"]: row for row in self.rows(folder) if "validation_loss" in row}

    def eval_loss(self, checkpoint, data):
        result = self.run_program("eval", checkpoint, "--data", data, "--packed", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["loss"]

    def test_each_has_the_loss_of_eval(self):
        """To the bit; the validation loss is that of the set that judges the run."""
        for judged in (None, "long"):
            with self.subTest(judged):
                folder = f"runs/{NAMES.index(judged) if judged else 'first'}"
                self.train("--run-dir", folder, "--set", f"training.judged_by={json.dumps(judged)}")
                evaluations = self.evaluations(folder)
                for step in (2, 4):
                    row = evaluations[step]
                    losses = {name: self.eval_loss(f"{folder}/checkpoints/step-0000000{step}", f"set-{seed}.txt")
                              for seed, name in enumerate(NAMES)}
                    self.assertEqual(row["validation_losses"], losses)
                    self.assertEqual(row["validation_loss"], losses[judged or NAMES[0]])
                self.assertEqual(len(set(losses.values())), len(NAMES))

    def test_where_they_are_said(self):
        result = self.run_program("run", "recipe.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        folder = self.folder / "runs/small"
        losses = self.evaluations("runs/small")[4]["validation_losses"]
        self.assertIn(f"plain {losses['plain']:.4f}", result.stderr)
        self.assertIn("validation long: 85 tokens in 1 file", result.stderr)
        metrics = (folder / "metrics.prom").read_text()
        self.assertIn(f'llmtrain_validation_set_loss{{run="small",set="long"}} {losses["long"]}', metrics)
        page = (folder / "report.html").read_text()
        self.assertTrue("Validation loss of long" in page, "no card of the set")
        self.assertTrue("Validation loss of “long”" in page, "no chart of the set")
        events = b"".join(path.read_bytes() for path in folder.rglob("*tfevents*"))
        self.assertIn(b"validation/loss/long", events)
        manifest = json.loads((folder / "checkpoints/step-00000004/manifest.json").read_text())
        self.assertEqual(manifest["evaluations"]["sets"], losses)
        described = json.loads((folder / "data.json").read_text())["validation"]
        self.assertEqual([source["name"] for source in described], list(NAMES))

    def test_eval_gives_all_of_them(self):
        """A result each: packed those of the run, to the bit, else those of the files alone."""
        self.train()
        row = self.evaluations("runs/small")[4]
        for flags in (("--packed",), ()):
            with self.subTest(flags):
                result = self.run_program("eval", "runs/small", "--json", *flags)
                self.assertEqual(result.returncode, 0, result.stderr)
                losses = {each["data"]: each["loss"] for each in json.loads(result.stdout)["results"]}
                alone = self.run_program("eval", "runs/small", "--json", *flags, *(
                    word for seed in range(len(NAMES)) for word in ("--data", f"set-{seed}.txt")))
                expected = [each["loss"] for each in json.loads(alone.stdout)["results"]]
                self.assertEqual(losses, dict(zip(NAMES, expected)))
                if flags:
                    self.assertEqual(losses, row["validation_losses"])
        missing = self.run_program("eval", "runs/small", "--set", "data.validation.1.path=nowhere.txt")
        self.assertIn("/data/validation/1/path", missing.stderr)

    def test_every_layout_has_the_same(self):
        """Up to the rounding of fp32 sums in another order; each set's last batch is not full."""
        changes = ("--set", "batch.global=4", "--set", "batch.micro=1")
        self.train(*changes)
        expected = self.evaluations("runs/small")
        for axis in ("data", "tensor", "context"):
            self.train(*changes, "--run-dir", f"runs/{axis}", "--ranks", "2", "--set", f"parallel.{axis}=2", "--set",
                       "launch.backend=local")
            for step, row in self.evaluations(f"runs/{axis}").items():
                for name, loss in expected[step]["validation_losses"].items():
                    self.assertAlmostEqual(row["validation_losses"][name], loss, delta=1e-5 * loss)

    def test_the_named_set_keeps_and_stops(self):
        """A run that learns one set's letters learns nothing of the other's, whose loss falls by less than a tenth."""
        text = "ab" * 400
        self.write("text.txt", text)
        self.write("same.txt", text)
        self.write("other.txt", "xyz!" * 60)
        sets = json.dumps([{"path": "same.txt", "name": "same"}, {"path": "other.txt", "name": "other"}])
        for judged in ("same", "other"):
            result = self.run_program(
                "run", "recipe.json", "--run-dir", f"runs/{judged}", "--set", f"data.validation={sets}", "--set",
                f"training.judged_by={judged}", "--set", "training.steps=12", "--set", "checkpoint.keep=1", "--set",
                "checkpoint.keep_best=1", "--set", 'training.early_stopping={"evaluations": 3, "improvement": 0.1}')
            self.assertEqual(result.returncode, 0, result.stderr)
            losses = {step: row["validation_losses"][judged]
                      for step, row in self.evaluations(f"runs/{judged}").items()}
            kept = [int(path.name[5:]) for path in (self.folder / f"runs/{judged}/checkpoints").glob("step-*")]
            self.assertIn(min(losses, key=losses.get), kept)
            self.assertEqual("training.early_stopping" in result.stderr, judged == "other", result.stderr)

    def test_another_judge(self):
        """Is refused in the run that has compared by one, and counts anew in a run that begins with its checkpoint."""
        self.train("--set", "training.judged_by=plain")
        self.refused(2, ["/training/judged_by: \"long\", in the run \"plain\"; the run's best checkpoints"], "run",
                     "recipe.json", "--set", "training.steps=6", "--set", "training.judged_by=long")
        self.train("--run-dir", "runs/other", "--resume", "runs/small", "--set", "training.steps=6", "--set",
                   "training.judged_by=long")
        row = self.evaluations("runs/other")[6]
        manifest = json.loads((self.folder / "runs/other/checkpoints/step-00000006/manifest.json").read_text())
        self.assertEqual(manifest["evaluations"]["best_step"], 6)
        self.assertEqual(manifest["evaluations"]["best_loss"], row["validation_losses"]["long"])

    def test_going_on_keeps_them(self):
        """A resumed run writes the rows that one without a stop writes."""
        self.train()
        self.train("--run-dir", "runs/other", "--resume", "runs/small/checkpoints/step-00000002")
        self.assertEqual(self.evaluations("runs/other")[4], self.evaluations("runs/small")[4])

    def test_sources_without_names_are_one_set(self):
        for source in self.sets:
            source.pop("name")
        self.train("--set", f"data.validation={json.dumps(self.sets)}")
        row = self.evaluations("runs/small")[4]
        self.assertNotIn("validation_losses", row)
        manifest = json.loads((self.folder / "runs/small/checkpoints/step-00000004/manifest.json").read_text())
        self.assertNotIn("sets", manifest["evaluations"])

    def test_refusals(self):
        for settings, code, fragment in (
                (["data.validation.0.name=null"], 2, "/data/validation: some of its entries have a name"),
                (["data.validation.0.name=long"], 2, "/data/validation: has two sets with the name long"),
                (["training.judged_by=other"], 2, "/training/judged_by: other names no set of data.validation"),
                (["data.validation.2.path=nowhere.txt"], 66, "/data/validation/2/path")):
            with self.subTest(settings):
                flags = [word for setting in settings for word in ("--set", setting)]
                result = self.run_program("run", "recipe.json", *flags)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(fragment, result.stderr)


if __name__ == "__main__":
    unittest.main()
