# SPDX-License-Identifier: Apache-2.0
"""Faults while a run is under way: files that change, removed folders, time limits, and numbers that are not finite."""
import json
import os
import shutil
import subprocess
import time
import unittest

import checkpoint_folder
from program import PROGRAM, TEXT, TrainingTest, small, tree_hash

class Faults(TrainingTest):
    def endless(self, *arguments):
        process = self.start_program("run", "recipe.json", "--set", "training.steps=1000000", *arguments)
        self.wait_for_a_step(process)
        return process

    def test_data_that_become_shorter(self):
        self.write("long.txt", TEXT * 100)
        process = self.endless("--set", "data.train.0.path=long.txt")
        os.truncate(self.folder / "long.txt", 0)
        said = process.stderr.read()
        self.assertEqual(process.wait(), 65, said)
        self.assertRegex(said, "long.txt: became shorter while it was read")

    def test_a_run_directory_that_is_removed(self):
        process = self.endless()
        # All at once: while a folder is emptied the run may still write into it.
        (self.folder / "runs" / "small").rename(self.folder / "removed")
        shutil.rmtree(self.folder / "removed")
        said = process.stderr.read()
        self.assertEqual(process.wait(), 73, said)
        self.assertRegex(said, "runs/small: was removed or replaced")
        self.assertFalse((self.folder / "runs" / "small").exists())

    def stopped_in_time(self, seconds, variable):
        """The folder and the output of a run that has these seconds, by Slurm's variable or by the recipe's key; and
        whether it ended before."""
        folder = f"runs/{variable or 'recipe'}-{seconds}"
        variables = {variable: str(int(time.time()) + seconds)} if variable else {}
        start = time.monotonic()
        result = self.run_program("run", "recipe.json", "--set", "training.steps=1000000", "--set", "log.every=100",
                                  "--set", f"launch.time_limit_seconds={0 if variable else seconds}",
                                  "--run-dir", folder, environment=variables)
        elapsed = time.monotonic() - start
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("stopped before its time limit after step", result.stderr)
        return folder, result.stderr, elapsed < seconds

    def test_time_limit(self):
        """The run ends before its limit, with a checkpoint that is whole."""
        for variable in ("", "SLURM_JOB_END_TIME"):
            with self.subTest(variable):
                # On a busy machine the start alone may take longer than a short limit.
                for seconds in (7, 20, 80):
                    folder, said, is_in_time = self.stopped_in_time(seconds, variable)
                    if is_in_time and "after step 0" not in said:
                        break
                else:
                    self.fail(said)
                self.assertEqual(self.run_program("checkpoint", "verify", folder).returncode, 0, said)

    def test_pipes_in_place_of_files(self):
        os.mkfifo(self.folder / "pipe.txt")
        os.mkfifo(self.folder / "pipe.bin")
        for name in ("pipe.txt", "pipe.bin"):
            self.refused(65, [name], "run", "recipe.json", "--set", f"data.train.0.path={name}",
                         timeout=20)
        self.refused(2, ["pipe.txt", "not a regular file"], "run", "pipe.txt", timeout=20)

    def test_what_a_kill_left_is_removed_at_the_start(self):
        self.train()
        left = self.folder / "runs/small/checkpoints/step-00000001.tmp-removed"
        left.mkdir()
        self.train()  # finished already: writes nothing
        self.assertFalse(left.exists())


class Divergence(TrainingTest):
    """Runs that start from a checkpoint with one value that makes gradients overflow where the token "Z" is read."""

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT + "Z" * 200)
        self.write("recipe.json", self.recipe({"model": {**small()["model"], "tie_embeddings": False}}))
        self.train("--run-dir", "start")

    def spoil(self, row, value):
        """Sets the embedding of a token, or of all tokens. Elements of 3e38 are finite, and their sum is not."""
        def change(name, values):
            if name == "embedding.token.weight":
                for token in range(256) if row is None else [row]:
                    values[16 * token:16 * token + 16] = [value] * 16

        checkpoint_folder.change_values(self.folder / "start/checkpoints/step-00000002", change)

    def go_on(self, folder, *arguments, start="start", environment=None):
        return self.run_program("run", "recipe.json", "-q", "--run-dir", folder, "--resume", start, *arguments,
                                environment=environment)

    def checkpoints(self, folder):
        return sorted(path.name for path in (self.folder / folder / "checkpoints").glob("step-*"))

    def test_skips_in_a_row_end_the_run(self):
        self.spoil(None, 3e38)
        every = ("--set", "checkpoint.every=1")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                result = self.go_on(f"run-{ranks}", "--set", "training.steps=30", *every, "--ranks", str(ranks), "--set",
                                    "batch.micro=1", "--set", "launch.backend=local")
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertEqual(result.stderr.count("step 12: the gradient norm was not finite 10 times in a row"), 1,
                                 result.stderr)
                self.assertIn("training.learning_rate.peak", result.stderr)
                self.assertEqual(self.checkpoints(f"run-{ranks}"), [])

        # They are counted on from a checkpoint: 5 of them, then 3.
        self.assertEqual(self.go_on("first", "--set", "training.steps=7").returncode, 0)
        result = self.go_on("second", "--set", "training.steps=30", "--set", "training.skip_limit=8", start="first")
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("step 10: the gradient norm was not finite 8 times in a row", result.stderr)

        # Without a limit the run ends, and says so even if quiet; what it has learned is of no use.
        result = self.go_on("third", "--set", "training.steps=15", "--set", "training.skip_limit=0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("13 of 15 updates were skipped", result.stderr)
        self.refused(65, ["third", "loss is not finite"], "eval", "third")

    def test_updates_in_the_backward_cannot_be_skipped(self):
        """The first step that is not finite has spoiled weights, also the last one: no checkpoint has them."""
        self.spoil(None, 3e38)
        updates = ("--set", "training.update_in_backward=true", "--set", "training.clip_norm=0", "--set",
                   "checkpoint.every=1")
        for steps in (3, 30):
            with self.subTest(steps=steps):
                result = self.go_on(f"run-{steps}", "--set", f"training.steps={steps}", *updates)
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertIn("step 3: the gradient norm was not finite 1 times in a row: the run has diverged",
                              result.stderr)
                self.assertEqual(self.checkpoints(f"run-{steps}"), [])

    def test_routers_that_are_not_finite_end_the_run_on_any_ranks(self):
        """Logits are no numbers for all tokens, wherever their experts are."""
        self.write("recipe.json", self.recipe({
            "model.moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 16}, "batch.global": 4, "batch.micro": 1}))
        self.train("--run-dir", "routed")

        def change(name, values):
            # Two experts have opposite scores, so that the scores of one of them are infinite.
            if name == "layers.0.ffn.router.weight":
                values[:32] = [3e38] * 16 + [-3e38] * 16

        checkpoint_folder.change_values(self.folder / "routed/checkpoints/step-00000002", change)
        layouts = {"one": ("launch.ranks=1",), "four": ("launch.ranks=4", "parallel.expert=4", "parallel.zero_stage=1"),
                   "tensor": ("launch.ranks=4", "parallel.expert=2", "parallel.tensor=2")}
        for run, layout in layouts.items():
            with self.subTest(run):
                settings = ("training.steps=30", "launch.backend=local", *layout)
                result = self.go_on(run, *(word for each in settings for word in ("--set", each)), start="routed")
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertEqual(result.stderr.count("step 12: the gradient norm was not finite 10 times in a row"), 1,
                                 result.stderr)
                self.assertEqual(self.checkpoints(run), [])

    def test_weights_that_are_not_finite(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                result = self.go_on(f"run-{ranks}", "--set", "training.steps=30", "--set", "training.skip_limit=0", "--set",
                                    "checkpoint.every=5", "--ranks", str(ranks), "--set", "batch.micro=1", "--set",
                                    "launch.backend=local", environment={"LLMTRAIN_FAULT": "nan:weights:0:3"})
                self.assertEqual(result.returncode, 65, result.stderr)
                self.assertEqual(result.stderr.count("has weights that are not finite"), 1, result.stderr)
                self.assertEqual(self.checkpoints(f"run-{ranks}"), [])

    def test_returns_to_a_checkpoint_and_leaves_the_data_out(self):
        """Samples 20 to 29, steps 11 to 15, read the token that overflows. Three skipped updates are a reason to return
        to step 10 and go on after sample 26; two more follow."""
        self.write("text.txt", (TEXT * 9)[:320] + "Z" * 160 + TEXT * 2)
        shutil.rmtree(self.folder / "start")  # its checkpoint counts samples of another text
        self.train("--run-dir", "start")
        self.spoil(ord("Z"), 3e38)
        result = self.go_on("run", "--set", "training.steps=20", "--set", "training.skip_limit=3", "--set",
                            "training.rollbacks=1", "--set", "checkpoint.every=1", "--set", "data.shuffle=false")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("returned to step 10, and going on after sample 26 of the data", result.stderr)
        rows = self.rows("run")
        self.assertEqual([row["step"] for row in rows], list(range(3, 21)))
        self.assertEqual(rows[-1]["skipped"], 5)
        manifest = json.loads((self.folder / "run/checkpoints/step-00000020/manifest.json").read_text())
        self.assertEqual((manifest["data_position"], manifest["skipped"]),
                         (46, {"total": 5, "in_a_row": 0, "rollbacks": 1}))


class Spikes(TrainingTest):
    """Runs in which one element of one rank's gradients is 2^20, or not a number, in one step."""

    SETTINGS = ("--set", "training.steps=24", "--set", "training.learning_rate.decay_steps=24", "--set",
                "training.spikes={\"loss\": 8, \"gradient_norm\": 8, \"window\": 8}", "--set", "batch.micro=1")

    def go(self, folder, fault, *arguments, ranks=1):
        return self.run_program("run", "recipe.json", "-q", "--run-dir", folder, *self.SETTINGS, "--ranks", str(ranks),
                                "--set", "launch.backend=local", "--set", "launch.check_replicas_every=1", *arguments,
                                environment={"LLMTRAIN_FAULT": fault})

    def losses(self, folder):
        return [row["loss"] for row in self.rows(folder)]

    def test_found_in_its_step_on_all_ranks(self):
        for ranks, layout, what, step in ((1, "zero_stage=0", "nan", 3), (2, "zero_stage=3", "spike", 14),
                                          (2, "tensor=2", "nan", 14)):
            with self.subTest(layout, what=what, step=step):
                folder = f"{layout}-{what}"
                result = self.go(folder, f"{what}:gradients:{ranks - 1}:{step}", "--set", f"parallel.{layout}",
                                 ranks=ranks)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("1 of 24 updates were skipped", result.stderr)
                self.assertEqual([row["skipped"] for row in self.rows(folder)], [int(n >= step) for n in range(1, 25)])
                log = (self.folder / folder / "log/rank-00000.log").read_text()
                self.assertRegex(log, f"step {step}: the gradient norm(, .* is a spike: | is not finite; )")

    def test_the_window_survives_a_stop(self):
        """Two steps are too few for a window of eight: that of the checkpoint is continued."""
        fault = "spike:gradients:0:14"
        self.go("straight", fault)
        self.assertEqual(self.go("run", fault, "--set", "training.steps=12").returncode, 0)
        self.assertIn("1 of 24 updates were skipped", self.go("run", fault).stderr)
        self.assertEqual(self.losses("run"), self.losses("straight"))
        of_run, of_straight = (json.loads((self.folder / name / "checkpoints/step-00000024/manifest.json").read_text())
                               for name in ("run", "straight"))
        self.assertEqual(of_run["recent"], of_straight["recent"])
        self.assertEqual(of_run["recent"]["losses"], self.losses("run")[-8:])

    def test_returns_past_the_data_and_ends_if_that_does_not_help(self):
        result = self.go("run", "spike:gradients:0:14", "--set", "training.skip_limit=1", "--set",
                         "training.rollbacks=1", "--set", "checkpoint.every=1", ranks=2)
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("returned to step 13, and going on after sample 28 of the data", result.stderr)
        self.assertIn("step 14: the loss or the gradient norm was a spike or not finite 1 times in a row: the run has "
                      "diverged", result.stderr)


class StoppedEvaluations(TrainingTest):
    """Runs that are asked to stop while they evaluate, which may take much longer than a step."""

    SETTINGS = ("--set", "training.steps=4", "--set", "training.evaluate_every=2", "--set", "batch.micro=1", "--set",
                'data.validation=[{"path": "text.txt"}]', "--set", "checkpoint.every=3")

    def go(self, folder, *arguments, fault=""):
        return self.run_program("run", "recipe.json", "--run-dir", folder, *self.SETTINGS, *arguments,
                                environment={"LLMTRAIN_FAULT": fault})

    def numbers(self, folder):
        return [(row["step"], row.get("loss"), row.get("validation_loss")) for row in self.rows(folder)]

    def test_what_goes_on_equals_what_never_stopped(self):
        local, mpi = (("--ranks", "2", "--set", f"launch.backend={backend}") for backend in ("local", "mpi"))
        stages = ("--set", "parallel.pipeline=2", "--set", "model.layers=2")
        for name, layout, rank, steps in (("alone", (), 0, (0, 2, 4)), ("threads", local, 1, (2,)),
                                          ("stages", (*local, *stages), 1, (2,)), ("processes", mpi, 1, (2,))):
            self.assertEqual(self.go(name, *layout).returncode, 0)
            for step in steps:
                with self.subTest(name, step=step):
                    folder = f"{name}-{step}"
                    stopped = self.go(folder, *layout, fault=f"stop:evaluation:{rank}:{step}")
                    self.assertEqual(stopped.returncode, 75, stopped.stderr)
                    self.assertIn(f"stopped on request after step {step}, in the evaluation, which is repeated",
                                  stopped.stderr)
                    saved = [path.name for path in (self.folder / folder / "checkpoints").glob("step-*")]
                    self.assertEqual(f"step-{step:08}" in saved, step > 0)
                    self.assertNotIn((step, None), [row[:2] for row in self.numbers(folder)])
                    again = self.go(folder, *layout)
                    self.assertEqual(again.returncode, 0, again.stderr)
                    self.assertEqual(self.numbers(folder), self.numbers(name))
        self.assertIn("all 4 steps are already done", self.go("alone-4").stderr)

    def test_an_evaluation_of_which_a_kill_leaves_the_row_is_in_the_log_once(self):
        self.assertEqual(self.go("whole").returncode, 0)
        self.assertEqual(self.go("run", fault="stop:evaluation:0:2").returncode, 75)
        # After the evaluation that the checkpoint calls for, and before the next one.
        killed = subprocess.run([PROGRAM, "run", "recipe.json", "-q", "--run-dir", "run", *self.SETTINGS],
                                cwd=self.folder, check=False, capture_output=True,
                                env={**os.environ, "LLMTRAIN_FAULT": "kill:forward:0:3"})
        self.assertEqual(killed.returncode, -9)
        self.assertEqual(self.go("run").returncode, 0)
        self.assertEqual(self.numbers("run"), self.numbers("whole"))

    def test_a_start_ends_too(self):
        """While a checkpoint is loaded, on any rank; and the same command goes on."""
        self.assertEqual(self.go("run", "--set", "training.steps=2").returncode, 0)
        before = tree_hash(self.folder / "run/checkpoints")
        # Threads share the request, so that the first one has to hear it there.
        for rank, layout in ((0, ()), (0, ("--ranks", "2", "--set", "launch.backend=local")), (1, ("--ranks", "2"))):
            with self.subTest(layout):
                result = self.go("run", *layout, fault=f"stop:load:{rank}:2")
                self.assertEqual(result.returncode, 75, result.stderr)
                self.assertEqual(result.stderr.count("before its limit while loading"), 1, result.stderr)
                self.assertIn("run the same command again", result.stderr)
        self.assertEqual(tree_hash(self.folder / "run/checkpoints"), before)
        (self.folder / "run" / "STOP").touch()
        self.assertEqual([self.go("run").returncode for _ in range(2)], [75, 0])

    def test_the_time_limit(self):
        """An evaluation that takes minutes goes as far as the limit lets it, and the run says that it is too long."""
        self.write("long.txt", TEXT * 20000)
        for seconds in (7, 20, 80):
            start = time.monotonic()
            result = self.go(f"limit-{seconds}", "--set", f"launch.time_limit_seconds={seconds}", "--set",
                             "data.validation.0.path=long.txt")
            elapsed = time.monotonic() - start
            self.assertEqual(result.returncode, 75, result.stderr)
            if elapsed < seconds and "in the evaluation" in result.stderr:
                break
        else:
            self.fail(f"{elapsed} s of {seconds}: {result.stderr}")
        self.assertIn("stopped before its time limit after step 0", result.stderr)
        self.assertIn("set training.evaluate_batches", result.stderr)


class KilledWithStatesOnADisk(TrainingTest):
    def test_it_goes_on_to_the_bits_of_a_run_that_nobody_kills(self):
        """From its checkpoint: the nameless files of its ranks, which have FP8 states, are gone."""
        left = {}
        for folder, fault in (("whole", ""), ("killed", "kill:forward:1:3"), ("killed", "")):
            result = subprocess.run(
                [PROGRAM, "run", "recipe.json", "-q", "--run-dir", folder, "--set", "training.steps=4", "--set",
                 "batch.micro=1", "--set", "checkpoint.every=1", "--set", "memory.offload.optimizer=disk", "--set",
                 "precision.fp8_level=O2", "--set", "parallel.zero_stage=1", "--ranks", "2", "--set",
                 "launch.backend=local"],
                cwd=self.folder, check=False, capture_output=True, env={**os.environ, "LLMTRAIN_FAULT": fault})
            self.assertEqual(result.returncode, -9 if fault else 0, result.stderr)
            saved = self.folder / folder / "checkpoints" / ("step-00000002" if fault else "step-00000004")
            left[folder] = ([(row["step"], row["loss"], row["grad_norm"]) for row in self.rows(folder)],
                            {path.name: path.read_bytes() for path in saved.glob("*.safetensors")})
        self.assertEqual([step for step, _, _ in left["whole"][0]], [1, 2, 3, 4])
        self.assertEqual(left["killed"][0], left["whole"][0])
        self.assertGreaterEqual(len(left["whole"][1]), 2)
        self.assertTrue(left["killed"][1] == left["whole"][1])


class FailedSaves(TrainingTest):
    def go(self, fault):
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        return self.run_program("run", "recipe.json", "-q", "--set", "training.steps=4", "--set", "checkpoint.every=1",
                                "--set", "checkpoint.on_failure=continue", "--ranks", "2", "--set", "batch.micro=1",
                                "--set", "launch.backend=local", environment={"LLMTRAIN_FAULT": fault})

    def checkpoints(self):
        return sorted(path.name[-1] for path in (self.folder / "runs/small/checkpoints").glob("step-????????"))

    def test_the_run_goes_on_without_the_checkpoint(self):
        result = self.go("fail:commit:0:2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("the checkpoint of step 2 is missing: "), 1, result.stderr)
        self.assertEqual(self.checkpoints(), ["1", "3", "4"])

    def test_the_last_checkpoint_must_be_written(self):
        self.assertEqual(self.go("fail:save:1:4").returncode, 73)
        self.assertEqual(self.checkpoints(), ["1", "2", "3"])


if __name__ == "__main__":
    unittest.main()
