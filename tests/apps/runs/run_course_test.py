# SPDX-License-Identifier: Apache-2.0
"""The course of a run: which checkpoints stay for their validation losses, when the loss ends it, and how it is cooled."""
import unittest

from program import TrainingTest


class RunCourse(TrainingTest):
    def steps_saved(self, folder):
        return [int(path.name.removeprefix("step-")) for path in sorted((self.folder / folder).glob("checkpoints/step-*"))]

    def validation_losses(self, folder):
        return {row["step"]: row["validation_loss"] for row in self.rows(folder) if "validation_loss" in row}

    def test_the_best_checkpoints(self):
        """With a rate that raises the loss the best one is neither the newest nor removed."""
        self.train_validated("--run-dir", "kept", "--set", "training.steps=5", "--set", "checkpoint.every=1", "--set",
                             "checkpoint.keep=1", "--set", "checkpoint.keep_best=2", "--set",
                             "training.learning_rate.peak=1", "--set", "training.learning_rate.schedule=constant")
        losses = self.validation_losses("kept")
        best = sorted(range(1, 6), key=losses.get)[:2]
        self.assertNotIn(5, best)
        self.assertEqual(self.steps_saved("kept"), sorted([*best, 5]))

    def test_early_stopping(self):
        """Nothing is learned with a rate of 0, so that the evaluations after the first are no progress."""
        frozen = ["--set", "training.steps=9", "--set", "training.learning_rate.peak=0", "--set", "checkpoint.every=5"]
        patience = [*frozen, "--set", 'training.early_stopping={"evaluations": 2}']
        first = self.train_validated(*patience)
        self.assertIn("the run ends after step 2: 2 evaluations in a row without progress", first.stderr)
        self.assertEqual(self.steps_saved("runs/small"), [2])
        again = self.train_validated(*patience)
        self.assertIn("the run has ended after step 2, as training.early_stopping says", again.stderr)
        self.train_validated(*frozen, "--set", 'training.early_stopping={"evaluations": 4}')
        self.assertEqual(self.steps_saved("runs/small"), [2, 4])
        self.assertEqual(list(self.validation_losses("runs/small")), [0, 1, 2, 3, 4])

    def train_validated(self, *arguments):
        result = self.run_program("run", "recipe.json", "--set", 'data.validation=[{"path": "text.txt"}]', "--set",
                                  "training.evaluate_every=1", "--set", "training.evaluate_batches=1", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_a_cooldown_from_a_checkpoint(self):
        """A decay that begins at any checkpoint of a constant rate is bitwise the run that was planned so."""
        constant = ["--set", "training.learning_rate.schedule=constant", "--set", "log.every=1"]
        self.train(*constant, "--set", "training.steps=4", "--set", "checkpoint.every=2")
        cooldown = [word for key in ("training.steps=5", "training.learning_rate.schedule=wsd",
                                     "training.learning_rate.decay_length=3",
                                     "training.learning_rate.decay_shape=one_minus_sqrt", "log.every=1")
                    for word in ("--set", key)]
        self.train(*cooldown, "--run-dir", "cooled", "--resume", "runs/small/checkpoints/step-00000002")
        self.train(*cooldown, "--run-dir", "planned")
        self.assertEqual([row["step"] for row in self.rows("cooled")], [3, 4, 5])
        for key in ("loss", "grad_norm", "learning_rate"):
            self.assertEqual([row[key] for row in self.rows("cooled")], [row[key] for row in self.rows("planned")][2:])
        self.assertGreater(self.rows("planned")[2]["learning_rate"], self.rows("planned")[3]["learning_rate"])
        tensors = [{path.name: path.read_bytes() for path in self.folder.glob(f"{run}/checkpoints/step-00000005/*.safetensors")}
                   for run in ("cooled", "planned")]
        self.assertTrue(tensors[0])
        self.assertEqual(tensors[0], tensors[1])


if __name__ == "__main__":
    unittest.main()
