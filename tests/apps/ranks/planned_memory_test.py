# SPDX-License-Identifier: Apache-2.0
"""A process takes as much memory as its plan says: with a large vocabulary, whose logits are freed and allocated again in
every part of a step, and whose pieces the allocator has to find room for."""
import json
import os
import subprocess
import unittest

from program import PROGRAM, ProgramTest

# Its logits of a part of the tokens are 98 MiB, as much as all weights, gradients and moments.
RECIPE = {"name": "large-vocabulary", "data": {"train": [{"path": "text.txt"}]},
          "model": {"architecture": "gpt2", "layers": 2, "hidden_size": 128, "heads": 2, "vocab_size": 50257,
                    "max_sequence_length": 512, "tie_embeddings": True},
          "batch": {"global": 8, "micro": 4, "sequence_length": 256}, "log": {"tensorboard": False},
          "training": {"steps": 3}}
# Each rank's processor time is a third of the lone process's: one micro-batch of half the tokens.
SHORT = ("--set", "batch.sequence_length=128", "--set", "training.steps=2")
# Shares of the plan that a process may take more, and less, as not everything that is planned is in use at once.
MORE, LESS = 0.05, 0.1


class PlannedMemory(ProgramTest):
    def run_recipe(self, *arguments):
        """The largest resident set of the process that was started, by the kernel's account; and what the first rank
        measured and planned."""
        self.write("text.txt", bytes(range(32, 127)) * 80)
        self.write("recipe.json", RECIPE)
        process = subprocess.Popen([PROGRAM, "run", "recipe.json", "--run-dir", "run", *arguments], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        rows = self.rows("run")
        ranks = json.loads((self.folder / "run" / "plan.json").read_text())["ranks"]
        return usage.ru_maxrss * 1024, max(row.get("memory_bytes", 0) for row in rows), ranks

    def check(self, resident, planned):
        self.assertLessEqual(resident, (1 + MORE) * planned)
        self.assertGreaterEqual(resident, (1 - LESS) * planned)

    def test_one_process(self):
        resident, measured, ranks = self.run_recipe()
        self.check(resident, ranks[0]["peak_bytes"])
        # The run goes on to write its checkpoint, for which it needs no more.
        self.assertAlmostEqual(measured / resident, 1, delta=0.02)

    def test_arena(self):
        # The first step is recorded, and has the allocator's memory, which it gives back to the arena of the others.
        resident, measured, ranks = self.run_recipe("--set", "memory.arena=true")
        self.check(resident, ranks[0]["peak_bytes"])
        self.assertAlmostEqual(measured / resident, 1, delta=0.02)
        self.assertGreater(self.rows("run")[-1]["arena_share"], 0.99)

    def test_processes(self):
        _, measured, ranks = self.run_recipe("--ranks", "2", "--set", "parallel.zero_stage=3", *SHORT)
        self.check(measured, ranks[0]["peak_bytes"])

    def test_threads(self):
        resident, _, ranks = self.run_recipe("--ranks", "2", "--set", 'launch.backend="local"', *SHORT)
        # The program's own part counts once. Ranks need not be at their peaks at the same time.
        planned = 2 * ranks[0]["peak_bytes"] - ranks[0]["bytes"]["framework"]
        self.assertLessEqual(resident, (1 + MORE) * planned)


if __name__ == "__main__":
    unittest.main()
