# SPDX-License-Identifier: Apache-2.0
"""The layout does not change what a model learns: a table of layouts compared with a single rank."""
import os
import shutil
import unittest
from concurrent.futures import ThreadPoolExecutor
from random import Random

from program import ProgramTest

# In bf16 layouts differ by 5e-4; a run that learned nothing would be off by a third.
LOSS, NORM, LOSS_IN_BF16, LOSS_IN_FP8 = 1e-5, 1e-4, 5e-3, 5e-3
STEPS = 14
# One layout per line: the number of ranks, then recipe keys by their short names. Each in fp32.
KEYS = {"micro": "batch.micro", "zero": "parallel.zero_stage", "shards": "parallel.zero_shard_ranks",
        "overlap": "parallel.overlap", "pipeline": "parallel.pipeline", "tensor": "parallel.tensor",
        "sequence": "parallel.sequence", "expert": "parallel.expert", "context": "parallel.context", "schedule": "pipeline.schedule",
        "loops": "pipeline.loops", "balance": "pipeline.balance", "recompute": "memory.recompute",
        "attention": "kernels.attention", "compute": "precision.compute", "fp8": "precision.fp8_level",
        "backend": "launch.backend", "parts": "parallel.expert_overlap", "exchange": "parallel.expert_all_to_all",
        "devices": "cluster.devices_per_node", "split": "parallel.expert_tensor"}

# Four layers. Tied embeddings; a vocabulary that no number of tensor ranks divides.
GPT2 = {"architecture": "gpt2", "layers": 4, "hidden_size": 32, "heads": 4, "vocab_size": 257,
        "max_sequence_length": 16}
GPT2_LAYOUTS = """
1 micro=1
1 micro=2 loops=4 recompute=full
1 micro=2 loops=2 balance=[1,3] recompute=full
1 micro=4 loops=6 balance=blocks recompute=selective
1 micro=8 schedule=gpipe recompute=selective
1 micro=8 schedule=1f1b recompute=full
1 micro=4 loops=4 schedule=interleaved
1 micro=1 loops=6 balance=blocks schedule=interleaved recompute=selective
2 micro=4
2 zero=1 loops=2
2 zero=2 loops=4 schedule=interleaved
2 zero=3 loops=4
2 zero=3 loops=6 balance=blocks recompute=selective overlap=false
2 pipeline=2
2 pipeline=2 schedule=gpipe recompute=full
2 pipeline=2 schedule=1f1b overlap=false
2 pipeline=2 loops=2 schedule=interleaved
2 pipeline=2 loops=3 balance=blocks recompute=selective
2 pipeline=2 balance=[3,1]
4 zero=1 loops=4
4 zero=3 loops=2 shards=2
4 zero=2 shards=1 loops=2
4 pipeline=4 micro=2
4 pipeline=2 zero=1 loops=2
4 pipeline=2 zero=2 schedule=1f1b
4 pipeline=2 zero=3 loops=2
4 pipeline=2 zero=3 loops=2 schedule=interleaved micro=1
8 zero=3 loops=4
8 pipeline=4 zero=3 balance=[1,2,1,0] schedule=1f1b
8 pipeline=2 zero=2 loops=2 recompute=full shards=2
8 pipeline=4 zero=1 schedule=gpipe
2 tensor=2
2 tensor=2 sequence=false recompute=full
4 tensor=4
4 tensor=2 zero=3 loops=4
4 tensor=2 zero=1 sequence=false attention=math
4 tensor=2 pipeline=2 loops=2
8 tensor=4 pipeline=2
8 tensor=2 pipeline=2 zero=3 loops=2
8 tensor=2 pipeline=2 zero=1 schedule=1f1b recompute=selective
2 context=2
4 context=4 recompute=full attention=math
4 context=2 tensor=2 zero=1
8 context=2 pipeline=2 zero=3 loops=2
2 zero=3 loops=4 backend=mpi
4 tensor=2 zero=2 loops=2 backend=mpi
4 pipeline=2 zero=2 loops=2 backend=mpi
8 pipeline=4 zero=3 backend=mpi
"""

# Untied embeddings; half as many key heads as query heads.
LLAMA = {"architecture": "llama", "layers": 4, "hidden_size": 32, "heads": 4, "kv_heads": 2, "ffn_hidden_size": 48,
         "vocab_size": 258, "max_sequence_length": 16}
LLAMA_LAYOUTS = """
1 micro=4 loops=2 recompute=selective
1 micro=8 loops=3 balance=[0,1,3] recompute=selective
1 micro=2 schedule=gpipe recompute=full
1 micro=2 schedule=1f1b recompute=selective
1 micro=1 schedule=1f1b attention=math
2
2 zero=1 micro=2
2 zero=2 loops=2 schedule=gpipe
2 zero=3 loops=4 schedule=interleaved recompute=full
2 pipeline=2 micro=2
2 pipeline=2 loops=2
2 pipeline=2 loops=2 balance=[0,2,1,1]
2 pipeline=2 schedule=1f1b recompute=full micro=2
4 zero=2 loops=4 micro=2
4 zero=3 loops=4 overlap=false
4 zero=1 shards=2
4 pipeline=4 schedule=gpipe
4 pipeline=4 schedule=1f1b recompute=selective
4 pipeline=2 loops=2 schedule=interleaved
4 pipeline=2 zero=1 schedule=gpipe
4 pipeline=2 zero=2 loops=2
4 pipeline=2 zero=3 loops=2 recompute=full
4 pipeline=2 zero=3 schedule=1f1b overlap=false
8
8 zero=1
8 zero=2 shards=4 loops=2
8 pipeline=2 zero=3 loops=2
8 pipeline=4 zero=2 schedule=1f1b
8 pipeline=2 zero=3 loops=3 balance=blocks shards=2
2 tensor=2 micro=2
4 tensor=4
4 tensor=4 sequence=false recompute=selective
4 tensor=2 zero=2 loops=2
4 tensor=2 pipeline=2 schedule=1f1b
8 tensor=4 zero=3 loops=4
8 tensor=4 pipeline=2 balance=[1,3]
8 tensor=2 pipeline=2 zero=3 loops=2
8 tensor=2 pipeline=4
2 context=2 zero=3 loops=4 micro=2
4 context=2 tensor=2 recompute=selective
8 context=4 tensor=2 zero=2
8 context=2 tensor=2 pipeline=2 loops=2
2 zero=1 loops=2 backend=mpi
4 pipeline=2 zero=3 loops=2 backend=mpi
8 tensor=2 pipeline=2 zero=3 loops=2 backend=mpi
"""

# Experts: capacity and the balance loss count over micro-batches, so that all layouts have those of one rank, of one
# sequence. In the second model every second layer drops tokens.
DROPLESS = {"architecture": "llama", "layers": 4, "hidden_size": 32, "heads": 4, "vocab_size": 258,
            "max_sequence_length": 16, "moe": {"experts": 8, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 24,
                                               "z_coefficient": 0.001}}
DROPPING = {"architecture": "gpt2", "layers": 4, "hidden_size": 32, "heads": 4, "vocab_size": 257,
            "max_sequence_length": 16, "moe": {"experts": 4, "top_k": 2, "capacity_factor": 1.0, "every": 2,
                                               "ffn_hidden_size": 40, "shared_experts": 1, "priority": "score"}}
# Each rank has all experts and whole sequences: one of the models.
WHOLE_EXPERT_LAYOUTS = """
1 loops=4 recompute=full
1 recompute=selective schedule=1f1b
2 zero=2 loops=4 schedule=interleaved
2 zero=3 loops=4
4 zero=3 loops=2 shards=2
4 zero=2 shards=1 loops=2
8 zero=3 loops=4 overlap=false
2 pipeline=2 recompute=full
2 pipeline=2 loops=2 schedule=interleaved
4 pipeline=4 schedule=1f1b
4 pipeline=2 zero=2 balance=[1,3]
8 pipeline=2 zero=3 loops=2
2 zero=3 loops=4 backend=mpi
"""

# Ranks share experts or tokens.
SHARED_EXPERT_LAYOUTS = """
4 context=2 expert=2 zero=3 loops=2
4 tensor=4 sequence=false recompute=selective
8 tensor=2 expert=2 pipeline=2 zero=1 loops=2
4 tensor=2 expert=2 zero=2 backend=mpi
2 expert=2
2 expert=2 zero=1 recompute=full parts=2
4 expert=4 zero=3 loops=4 schedule=interleaved
4 expert=2 zero=2 loops=2 schedule=interleaved
4 expert=4 zero=3 loops=4 overlap=false exchange=hierarchical devices=2
4 expert=2 pipeline=2 loops=2 recompute=selective
8 expert=4 zero=1 loops=2
8 expert=2 zero=3 loops=2 shards=4
8 expert=2 pipeline=2 zero=3 loops=2
2 expert=2 zero=3 backend=mpi
4 expert=2 pipeline=2 zero=2 backend=mpi parts=auto
4 expert=2 split=2 zero=3 loops=2 backend=mpi
4 tensor=2 expert=4 split=1 backend=mpi
8 tensor=2 context=2 expert=4 split=1 zero=3 loops=2
"""

# Layouts in which sums and messages could occur in a different order the second time.
GPT2_TWICE = """
2 zero=2 loops=4
4 pipeline=2 zero=1 loops=2 backend=mpi
4 pipeline=2 zero=3 loops=2 balance=[0,2,1,1]
4 tensor=4
8 tensor=2 pipeline=2 zero=3 loops=2
"""

LLAMA_TWICE = """
4 zero=3 loops=4 schedule=interleaved
4 pipeline=4 schedule=1f1b
4 tensor=4 sequence=false
4 context=2 tensor=2
4 tensor=2 pipeline=2 backend=mpi
8 pipeline=2 zero=3 loops=2 compute=bf16
"""

BF16 = """
1
2 zero=3 loops=4
4 pipeline=2 zero=2 loops=2
4 pipeline=4 schedule=1f1b
4 tensor=4
4 context=2 zero=3 loops=2
8 pipeline=2 zero=3 loops=2 recompute=full
8 tensor=2 pipeline=2 zero=3 loops=2
"""

FP8 = """
1 loops=4 recompute=full
2 zero=3 loops=4
4 pipeline=2 zero=2 loops=2
4 tensor=4 recompute=selective
4 context=2 tensor=2 backend=mpi
8 tensor=2 pipeline=2 zero=3 loops=2
"""


def lines_of(table):
    lines = [line for line in table.splitlines() if line]
    return lines if shutil.which("mpirun") else [line for line in lines if "backend=mpi" not in line]


def flags_of(line):
    ranks, *settings = line.split()
    flags = ["--ranks", ranks]
    if "backend=" not in line:
        settings.append("backend=local")
    for setting in settings:
        name, value = setting.split("=")
        flags += ["--set", f"{KEYS[name]}={value}"]
    return flags


class Layouts(ProgramTest):
    def setUp(self):
        super().setUp()
        random, token, text = Random(1), 0, bytearray()
        for _ in range(4000):  # something to learn: each token depends on the previous one, up to noise
            token = (3 * token + 1 + random.randrange(4)) % 40
            text.append(32 + token)  # a text, not a binary file
        self.write("text.txt", bytes(text))

    def write_recipe(self, model):
        self.write("recipe.json", {"name": "layouts", "model": model, "data": {"train": [{"path": "text.txt"}]},
                                   "batch": {"global": 8, "micro": 1}, "log": {"tensorboard": False},
                                   "training": {"steps": STEPS, "learning_rate": {"peak": 3e-3, "warmup_steps": 4}}})

    def train(self, job):
        """The losses and gradient norms of a run; `job` is its folder and the line of its layout."""
        folder, line = job
        result = self.run_program("run", "recipe.json", "-q", "--run-dir", folder, *flags_of(line))
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        rows = self.rows(folder)
        self.assertEqual(len(rows), STEPS, line)
        shutil.rmtree(self.folder / folder)
        return [row["loss"] for row in rows], [row["grad_norm"] for row in rows]

    def train_all(self, lines):
        """The results of each line. Several runs share the processors, so that none of them is left idle."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self.train, ((str(index), line) for index, line in enumerate(lines))))

    def assert_close(self, values, expected, tolerance):
        worst = max(abs(value - wanted) / abs(wanted) for value, wanted in zip(values, expected, strict=True))
        self.assertLessEqual(worst, tolerance)

    def check(self, model, table, loss_tolerance, norm_tolerance=None, alone="1 micro=8"):
        self.write_recipe(model)
        lines = lines_of(table)
        expected, *results = self.train_all([alone, *lines])
        self.assertLess(expected[0][-1], 0.9 * expected[0][0], "nothing was learned")
        for line, (losses, norms) in zip(lines, results, strict=True):
            with self.subTest(line):
                self.assert_close(losses, expected[0], loss_tolerance)
                if norm_tolerance:
                    self.assert_close(norms, expected[1], norm_tolerance)

    def test_gpt2(self):
        self.check(GPT2, GPT2_LAYOUTS, LOSS, NORM)

    def test_llama(self):
        self.check(LLAMA, LLAMA_LAYOUTS, LOSS, NORM)

    def test_experts(self):
        for model in (DROPLESS, DROPPING):
            self.check(model, SHARED_EXPERT_LAYOUTS, LOSS, NORM, alone="1")
        self.check(DROPPING, WHOLE_EXPERT_LAYOUTS, LOSS, NORM, alone="1")

    def test_the_same_layout_gives_the_same_bits(self):
        for model, table in ((GPT2, GPT2_TWICE), (LLAMA, LLAMA_TWICE)):
            self.write_recipe(model)
            lines = lines_of(table)
            results = self.train_all(lines + lines)
            for line, first, second in zip(lines, results, results[len(lines):]):
                with self.subTest(line, model=model["architecture"]):
                    self.assertEqual(first, second)

    def test_recompute_gives_the_same_bits(self):
        self.write_recipe(LLAMA)
        none, *others = self.train_all(["1 micro=2", "1 micro=2 recompute=selective", "1 micro=2 recompute=full"])
        for other in others:
            self.assertEqual(other, none)

    def check_in_turns(self, table, setting, tolerance, alone):
        """Every other layout with each of the dense models."""
        lines = [f"{line} {setting}" for line in lines_of(table)]
        for first, model in enumerate((GPT2, LLAMA)):
            self.check(model, "\n".join(lines[first::2]), tolerance, alone=alone)

    def test_bf16(self):
        self.check_in_turns(BF16, "compute=bf16", LOSS_IN_BF16, "1 micro=8")

    def test_fp8(self):
        self.check_in_turns(FP8, "fp8=O0", LOSS_IN_FP8, "1 micro=8 fp8=O0")


if __name__ == "__main__":
    unittest.main()
