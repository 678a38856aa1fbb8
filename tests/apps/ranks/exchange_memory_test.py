# SPDX-License-Identifier: Apache-2.0
"""`checkpoint import` and `checkpoint export` pass a model on in pieces: their memory does not grow with it.

LLMTRAIN_LARGE_EXCHANGE=1 also passes on a model that is 20 times larger than what the process may have: 8 GB of disk."""
import os
import resource
import shutil
import subprocess
import unittest

import huggingface_folder as hf
from program import PROGRAM, ProgramTest

LARGE, SMALL = hf.config_of(layers=24, hidden=512), hf.config_of()


class ExchangeMemory(ProgramTest):
    def peak_bytes(self, *arguments):
        """The largest resident set of one command, from the kernel's own account of it."""
        process = subprocess.Popen([PROGRAM, "checkpoint", *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, arguments)
        return usage.ru_maxrss * 1024

    def exchange(self, name, config):
        """The peaks of both directions. The weights are zeros: what comes back is checked with other models."""
        hf.write(self.folder / name, config, hole=True)
        peaks = (self.peak_bytes("import", name, f"{name}-in", "--from", "hf"),
                 self.peak_bytes("export", f"{name}-in", f"{name}-out", "--to", "hf"))
        written = sum(file.stat().st_size for file in (self.folder / f"{name}-out").glob("*.safetensors"))
        for folder in (name, f"{name}-in", f"{name}-out"):
            shutil.rmtree(self.folder / folder)
        return peaks, written

    def test_peak(self):
        # The difference of two models leaves out the program with its libraries.
        small, _ = self.exchange("small", SMALL)
        large, weights = self.exchange("large", LARGE)
        self.assertGreater(weights, 200e6)
        for direction, least, most in zip(("import", "export"), small, large):
            with self.subTest(direction):
                self.assertLessEqual(20 * (most - least), weights)


class BeyondMemory(ProgramTest):
    LIMIT = 128 << 20  # bytes that the process may write to; its libraries alone need 96 MiB

    def fill(self, path):
        """Random bytes in place of the hole after the header; returns its offset."""
        with open(path, "r+b") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            file.seek(start)
            for begin in range(start, path.stat().st_size, 1 << 24):
                file.write(os.urandom(min(1 << 24, path.stat().st_size - begin)))
        return start

    def limited(self, *arguments):
        result = self.run_program("checkpoint", *arguments, environment={"MALLOC_ARENA_MAX": "1"},
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (self.LIMIT, self.LIMIT)))
        self.assertEqual(result.returncode, 0, result.stderr)

    @unittest.skipUnless(os.environ.get("LLMTRAIN_LARGE_EXCHANGE"), "LLMTRAIN_LARGE_EXCHANGE is not set")
    def test_every_bit_comes_back(self):
        hf.write(self.folder / "hf", hf.config_of(layers=56, hidden=1024), hole=True)
        source = self.folder / "hf" / "model.safetensors"
        self.assertGreater(source.stat().st_size, 20 * self.LIMIT)
        start = self.fill(source)
        self.limited("import", "hf", "checkpoint", "--from", "hf")
        self.limited("export", "checkpoint", "out", "--to", "hf", "--max-shard-size", "100GB")
        # The tensors are in the order of their names, so that all that follows the header is the same.
        target = self.folder / "out" / "model.safetensors"
        with open(source, "rb") as one, open(target, "rb") as other:
            one.seek(start)
            other.seek(8 + int.from_bytes(other.read(8), "little"))
            while piece := one.read(1 << 24):
                self.assertTrue(piece == other.read(1 << 24))
            self.assertEqual(other.read(1), b"")


if __name__ == "__main__":
    unittest.main()
