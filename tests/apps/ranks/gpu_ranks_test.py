# SPDX-License-Identifier: Apache-2.0
"""Runs on GPUs with one and with many ranks, compared with the CPU and with each other. Exits with 77 without a GPU."""
import json
import shutil
import sys
import unittest

from gpus import SKIPPED, count_gpus, gpu_environment
from program import PROGRAM, ProgramTest, small

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40
ZERO = ("parallel.zero_stage=1", "parallel.zero_stage=3")


GPUS = count_gpus()


def flags(settings):
    return [word for setting in settings for word in ("--set", setting)]


class GpuRanks(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", small({
            "data": {"train": [{"path": "text.txt"}], "validation": [{"path": "text.txt"}]},
            "model": {"architecture": "llama", "layers": 4, "hidden_size": 64, "heads": 4, "vocab_size": 256,
                      "max_sequence_length": 32},
            "batch": {"global": 8, "micro": 1}, "cluster": {"device": "cuda"}, "launch": {"watchdog_seconds": 60},
            "training": {"steps": 20, "evaluate_every": 10, "evaluate_batches": 2,
                         "learning_rate": {"warmup_steps": 20}}}))

    def run_gpu(self, *arguments, **options):
        return self.run_program("run", "recipe.json", *arguments, environment=gpu_environment(), **options)

    def train(self, folder, ranks=1, *settings):
        result = self.run_gpu("--run-dir", folder, "--ranks", str(ranks), *flags(settings))
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.rows(folder), result.stderr

    def assert_close(self, rows, expected, tolerance=1e-5):
        self.assertEqual([row["step"] for row in rows], [row["step"] for row in expected])
        for row, wanted in zip(rows, expected):
            for name in ("loss", "validation_loss", "grad_norm"):
                if name in wanted:
                    allowed = (10 if name == "grad_norm" else 1) * tolerance * wanted[name]
                    self.assertAlmostEqual(row[name], wanted[name], delta=allowed, msg=f"{name} of step {row['step']}")

    def check_layouts(self, backend, layouts, said):
        expected, _ = self.train("alone")
        for ranks, settings in layouts:
            with self.subTest(ranks=ranks, settings=settings):
                layout = (ranks, f"launch.backend={backend}", *settings)
                name = f"{backend}-{ranks}-{'-'.join(settings).replace('=', '-')}"
                rows, words = self.train(name, *layout)
                self.assertIn(said, words)
                self.assert_close(rows, expected)
                again, _ = self.train(name + "-again", *layout)
                self.assertEqual([row.get("loss") for row in again], [row.get("loss") for row in rows])

    def test_one_rank_learns_what_the_cpu_learns(self):
        gpu, words = self.train("gpu")
        cpu, _ = self.train("cpu", 1, "cluster.device=cpu")
        self.assertNotIn("CPU,", words)
        self.assert_close(gpu, cpu)

    def test_ranks_share_a_gpu_over_mpi(self):
        self.check_layouts("mpi", [(2, ZERO[:1]), (2, ZERO[1:]), (2, ("parallel.tensor=2",)),
                                   (2, ("parallel.context=2",)),
                                   (4, ("parallel.pipeline=2", ZERO[1], "pipeline.loops=2"))], "over MPI")

    def test_threads_share_a_gpu(self):
        self.check_layouts("local", [(2, ZERO[1:]), (2, ("parallel.pipeline=2",))], "threads of this process")

    def test_a_checkpoint_of_many_ranks(self):
        expected, _ = self.train("alone")
        self.train("two", 2, "launch.backend=mpi", ZERO[1], "checkpoint.every=10")
        result = self.run_gpu("--run-dir", "on", "--resume", "two/checkpoints/step-00000010")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = self.rows("on")
        self.assert_close(rows, [row for row in expected if row["step"] > 10])

    def test_timeline(self):
        result = self.run_gpu("--ranks", "2", "--set", "launch.backend=mpi", "--set", "parallel.pipeline=2", "--trace",
                              "trace.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        for rank in range(2):
            own = sorted((event["ts"], event["dur"]) for event in events if event["ph"] == "X" and event["pid"] == rank)
            self.assertGreater(len(own), 10)
            for (start, duration), (following, _) in zip(own, own[1:]):
                self.assertLessEqual(start + duration, following + 1)

    def test_more_ranks_than_gpus_over_nccl(self):
        ranks = 2 * GPUS
        result = self.run_gpu("--ranks", str(ranks), "--set", "launch.backend=nccl", "--set", f"batch.global={ranks}")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count(f"{ranks} ranks and {GPUS} GPUs"), 1, result.stderr)

    @unittest.skipUnless(GPUS >= 2, f"NCCL needs two GPUs, and there are {GPUS}")
    def test_ranks_with_a_gpu_each_over_nccl(self):
        for backend in ("nccl", "auto"):
            self.check_layouts(backend, [(2, ZERO[:1]), (2, ZERO[1:]), (2, ("parallel.tensor=2",)),
                                         (2, ("parallel.context=2",)),
                                         (2, ("parallel.pipeline=2", "pipeline.loops=2"))], "over NCCL")

    @unittest.skipUnless(GPUS >= 4, f"a mix needs four GPUs, and there are {GPUS}")
    def test_a_mix_over_nccl(self):
        self.check_layouts("nccl", [(4, ("parallel.pipeline=2", ZERO[1], "pipeline.loops=2")),
                                    (4, ("parallel.tensor=2", "parallel.pipeline=2")),
                                    (4, ("parallel.zero_shard_ranks=2", ZERO[0])),
                                    (4, ("parallel.pipeline=4", "model.tie_embeddings=true"))], "over NCCL")


if __name__ == "__main__":
    HAS_PART = (PROGRAM.parent / "libllmtrain_cuda.so").exists()
    REASON = ("this machine has no GPU" if GPUS == 0 else "this build has no CUDA part" if not HAS_PART else
              "no mpirun" if not shutil.which("mpirun") else "")
    if REASON:
        print(f"skipped: {REASON}")
        sys.exit(SKIPPED)
    unittest.main()
