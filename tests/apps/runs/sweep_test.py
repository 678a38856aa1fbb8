# SPDX-License-Identifier: Apache-2.0
"""`llmtrain sweep`: a recipe trained with every combination of values of keys."""
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import PROGRAM, TrainingTest

PEAK, MICRO = "training.learning_rate.peak", "batch.micro"
GRID = ["--over", f"{PEAK}=1e-4,1e-2", "--over", f"{MICRO}=1,3"]


class Sweep(TrainingTest):
    def sweep(self, *arguments, code=0):
        result = self.run_program("sweep", "recipe.json", *arguments, "--json")
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout), result.stderr

    def test_every_combination_trains_as_run_would(self):
        """What is refused is left out, and the others have the losses of `run` with their values."""
        answer, said = self.sweep(*GRID, "--jobs", "2")
        self.assertIn("peak=1e-4_micro=3 is left out: /batch/global: 2 is not a multiple of 3", said)
        self.assertEqual([run["set"] for run in answer["runs"]],
                         [{PEAK: peak, MICRO: micro} for peak in ("1e-4", "1e-2") for micro in ("1", "3")])
        losses = {}
        for run in answer["runs"]:
            self.assertEqual(run["exit_code"], None if run["refused"] else 0)
            self.assertEqual(run["refused"] is None, run["set"][MICRO] == "1")
            if run["refused"]:
                self.assertEqual((run["steps"], run["loss"]), (None, None))
                continue
            self.train("--run-dir", "alone", *[word for key, value in run["set"].items()
                                               for word in ("--set", f"{key}={value}")], "--resume", "never")
            alone = [row["loss"] for row in self.rows("alone") if "loss" in row]
            self.assertEqual([row["loss"] for row in self.rows(run["directory"]) if "loss" in row], alone)
            self.assertEqual((run["steps"], run["loss"]), (len(alone), alone[-1]))
            losses[run["set"][PEAK]] = alone[-1]
            subprocess.run(["rm", "-r", self.folder / "alone"], check=True)
        self.assertEqual(answer["judged_by"], "loss")
        self.assertEqual(answer["runs"][answer["best"]]["set"][PEAK], min(losses, key=losses.get))
        self.assertEqual(json.loads((self.folder / "runs" / "small-sweep" / "sweep.json").read_text()), answer)
        self.assertIn("peak=1e-2_micro=1", (self.folder / "runs" / "small-sweep" / "sweep.html").read_text())

    def test_the_same_command_goes_on(self):
        """Runs that are done train no further, and more values add runs."""
        first, _ = self.sweep("--over", f"{PEAK}=1e-4", "--run-dir", "all")
        rows = (self.folder / "all" / "peak=1e-4" / "metrics.jsonl").read_bytes()
        second, _ = self.sweep("--over", f"{PEAK}=1e-4,1e-2", "--run-dir", "all")
        self.assertEqual((self.folder / "all" / "peak=1e-4" / "metrics.jsonl").read_bytes(), rows)
        self.assertEqual(second["runs"][0], first["runs"][0])
        self.assertEqual(second["runs"][1]["exit_code"], 0)

    def test_validation_decides_where_all_have_it(self):
        validation = ("--set", 'data.validation=[{"path":"text.txt"}]', "--set", "training.evaluate_every=1", "--set",
                      "training.evaluate_batches=1")
        answer, _ = self.sweep("--over", f"{PEAK}=1e-4,1e-2", *validation)
        best = [min(row["validation_loss"] for row in self.rows(run["directory"]) if "validation_loss" in row)
                for run in answer["runs"]]
        self.assertEqual(answer["judged_by"], "validation_loss")
        self.assertEqual([run["validation_loss"] for run in answer["runs"]], best)
        self.assertEqual(answer["best"], best.index(min(best)))

    def test_draws(self):
        """Combinations are drawn without repetition, the same ones by the same seed."""
        over = ("--over", f"{PEAK}=1,2,3,4", "--over", "seed=1,2,3", "--dry-run")
        whole = [run["set"] for run in self.sweep(*over)[0]["runs"]]
        drawn = {}
        for seed in "0", "1", "0", "2":
            sets = [run["set"] for run in self.sweep(*over, "--random", "5", "--seed", seed)[0]["runs"]]
            self.assertEqual(len({json.dumps(each) for each in sets}), 5)
            self.assertTrue(all(each in whole for each in sets))
            self.assertEqual(drawn.setdefault(seed, sets), sets)
        self.assertEqual(len({json.dumps(sets) for sets in drawn.values()}), 3)
        self.assertEqual(self.sweep(*over, "--random", "50")[0]["runs"], self.sweep(*over)[0]["runs"])
        self.assertFalse((self.folder / "runs").exists())

    def test_a_run_that_fails(self):
        """The others go on, and its exit code is the sweep's."""
        answer, said = self.sweep("--over", "data.train.0.path=none.txt,text.txt", code=66)
        self.assertEqual([run["exit_code"] for run in answer["runs"]], [66, 0])
        self.assertIn("ended with exit code 66: see", said)
        self.assertIn("none.txt", (self.folder / answer["runs"][0]["log"]).read_text())
        self.assertEqual(answer["best"], 1)
        table = self.run_program("sweep", "recipe.json", "--over", "data.train.0.path=none.txt,text.txt")
        self.assertRegex(table.stdout, r"(?m)^\* +text.txt .*\n.* none.txt +exit code 66, see ")

    def test_what_is_refused(self):
        for over, part in (("batch.micro=3,5", "every combination is refused; the first: /batch/global"),
                           ("batch.micro", 'there is no key before a "="'), ("nothing=1,2", "nothing"),
                           ("batch.micro=1,1", "1 is there twice")):
            result = self.run_program("sweep", "recipe.json", "--over", over)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(part, result.stderr)
        self.assertFalse((self.folder / "runs").exists())


class Ends(TrainingTest):
    LONG = ("--over", f"{PEAK}=1e-4,1e-3,1e-2", "--set", "training.steps=1000000", "--run-dir", "all", "--jobs", "2")

    def start(self):
        """A sweep whose first two runs train."""
        process = subprocess.Popen([PROGRAM, "sweep", "recipe.json", *self.LONG, "--json"], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        metrics = [self.folder / "all" / name / "metrics.jsonl" for name in ("peak=1e-4", "peak=1e-3")]
        until = time.monotonic() + 60
        while not all(file.exists() and file.stat().st_size > 0 for file in metrics):
            self.assertLess(time.monotonic(), until, process.poll())
            time.sleep(0.02)
        return process

    def runs_at_work(self):
        """Processes of `run` below this test's folder."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"run" in words and os.readlink(process / "cwd") == str(self.folder.resolve()):
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def test_a_request_to_stop(self):
        """The runs at work save and end, and no other one begins."""
        process = self.start()
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, said)
        answer = json.loads(out)
        self.assertEqual([run["exit_code"] for run in answer["runs"]], [75, 75, None])
        self.assertIn("stopping: the runs at work will save and end", said)
        for name in ("peak=1e-4", "peak=1e-3"):
            self.assertTrue((self.folder / "all" / name / "checkpoints" / "latest").exists())
        self.assertFalse((self.folder / "all" / "peak=1e-2").exists())
        self.assertIsNone(answer["best"])

    def test_runs_end_with_the_sweep(self):
        process = self.start()
        self.assertEqual(len(self.runs_at_work()), 2)
        process.kill()
        process.wait()
        until = time.monotonic() + 30
        while self.runs_at_work():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
