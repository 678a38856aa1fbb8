# SPDX-License-Identifier: Apache-2.0
"""What a run notices while it trains: ranks that hang, and replicas that differ. The faults are those of a build with
tests (core/base/fault_point.h)."""
import shutil
import unittest

from program import TrainingTest


class Watching(TrainingTest):
    def run_with(self, fault, *arguments):
        return self.run_program("run", "recipe.json", "-q", "--set", "launch.backend=local", "--set", "training.steps=40",
                                *arguments, environment={"LLMTRAIN_FAULT": fault})

    def test_a_rank_that_hangs_in_a_step(self):
        """The report says where the ranks are, and each rank's log what it did last."""
        result = self.run_with("stall:forward:1:7", "--ranks", "2", "--set", "batch.micro=1", "--set",
                               "launch.watchdog_seconds=4")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, r"^rank 0 waited 4\.0s in step 7, OptimizerStep, in all_reduce of \d+ fp32 for "
                                        r"data_parallel in group data \[0 1\] for rank 1 \(last operation: .*, in step 7, "
                                        r"Forward stage 0 micro 0\): it hangs or is lost; .*; rank 1 did not end on its own$")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        log = (self.folder / "runs/small/log/rank-00000.log").read_text()
        self.assertIn("this rank is in step 7, OptimizerStep; its last operations:", log)
        self.assertRegex(log, r"operation \d+: all_reduce of \d+ fp32 for data_parallel in group data \[0 1\], not done, "
                              r"started .* ago")

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_a_rank_that_hangs_before_it_joins(self):
        result = self.run_with("stall:recipe:1:0", "--ranks", "2", "--set", "batch.micro=1", "--set",
                               "launch.backend=mpi", "--set", "launch.watchdog_seconds=4")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, r"^MPI did not start within 4\.0s: a rank hangs, .*$")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_a_bit_that_flips_in_one_replica(self):
        every = ("--ranks", "4", "--set", "batch.global=4", "--set", "batch.micro=1", "--set", "checkpoint.every=10",
                 "--set", "launch.check_replicas_every=4")
        result = self.run_with("flip:weights:2:14", *every)
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stderr, r"^step 16: the weights of rank 2 \(host \S+\) differ from those of the other "
                                        r"ranks of \[0, 1, 2, 3\], .* resumes from the newest checkpoint$")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        # Before a checkpoint they are compared, too: none has the flipped bit.
        result = self.run_with("flip:weights:2:29", "--run-dir", "other", *every, "--set",
                               "launch.check_replicas_every=35")
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("step 30: the weights of rank 2", result.stderr)
        self.assertFalse((self.folder / "other/checkpoints/step-00000030").exists())
        # And the run goes on from the newest.
        self.train("--run-dir", "other", "--ranks", "2", "--set", "launch.backend=local", "--set", "batch.global=4",
                   "--set", "training.steps=40")
        self.assertEqual([row["step"] for row in self.rows("other")], list(range(1, 41)))


if __name__ == "__main__":
    unittest.main()
