# SPDX-License-Identifier: Apache-2.0
"""`sample` and `eval` hold weights alone: no gradients, no optimizer states, no second copy while loading."""
import os
import subprocess
import unittest

from program import PROGRAM, ProgramTest

MODEL = {"architecture": "gpt2", "layers": 4, "heads": 8, "vocab_size": 256, "max_sequence_length": 16}
WIDE, NARROW = 768, 16
# Over the weights: activations of one row of tokens, and what the allocator holds back.
MOST = 1.3


def parameters(hidden):
    """Counts GPT-2's matrices; biases and norms are less than a percent."""
    return 12 * MODEL["layers"] * hidden * hidden + (MODEL["vocab_size"] + MODEL["max_sequence_length"]) * hidden


class WeightsMemory(ProgramTest):
    def train(self, hidden):
        self.write("text.txt", bytes(range(32, 127)) * 16)
        self.write("recipe.json", {"name": "weights", "model": {**MODEL, "hidden_size": hidden},
                                   "data": {"train": [{"path": "text.txt"}]}, "batch": {"global": 1, "micro": 1},
                                   "log": {"tensorboard": False}, "training": {"steps": 1}})
        result = self.run_program("run", "recipe.json", "-q", "--run-dir", f"run-{hidden}")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return f"run-{hidden}"

    def peak_bytes(self, *arguments):
        """The largest resident set of one command, from the kernel's own account of it."""
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, arguments)
        return usage.ru_maxrss * 1024

    def test_peak(self):
        wide, narrow = self.train(WIDE), self.train(NARROW)
        weights = 4 * (parameters(WIDE) - parameters(NARROW))
        for command in (("sample", "--tokens", "1"), ("eval", "--data", "text.txt")):
            with self.subTest(command[0]):
                name, *options = command
                # The difference of two models leaves out the program with its libraries.
                growth = self.peak_bytes(name, wide, *options) - self.peak_bytes(name, narrow, *options)
                self.assertLessEqual(growth, MOST * weights)
                self.assertGreaterEqual(growth, 0.9 * weights, "the weights are not in memory: the test sees nothing")


if __name__ == "__main__":
    unittest.main()
