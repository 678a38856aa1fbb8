# SPDX-License-Identifier: Apache-2.0
"""A run over NCCL makes the communicators that its plan counts, as the emulated NCCL has counted them."""
import json
import re
import unittest

from emulated import GPUS, REAL, EmulatedTest, main
from program import TEXT, small

MODEL = {"layers": 4, "hidden_size": 32, "heads": 4, "kv_heads": 2, "vocab_size": 256, "max_sequence_length": 16}
MOE = {"experts": 4, "top_k": 2, "ffn_hidden_size": 24}
GPT2, LLAMA = {"architecture": "gpt2", **MODEL}, {"architecture": "llama", **MODEL}
MIXTURE = {**LLAMA, "moe": MOE}
# By name the model, the keys of a layout of four ranks, and the communicators of the first one.
LAYOUTS = {
    # All for the norm, shards and replicas of them.
    "shards": (GPT2, {"parallel.zero_stage": 1, "parallel.zero_shard_ranks": 2}, 3),
    # Both neighbours in both directions, and the first and the last, which share the embedding.
    "stages": (GPT2, {"parallel.pipeline": 4}, 5),
    "heads": (LLAMA, {"parallel.tensor": 4}, 2),
    "sequences": (LLAMA, {"parallel.context": 2, "parallel.pipeline": 2, "parallel.zero_stage": 3}, 7),
    "experts": (MIXTURE, {"parallel.tensor": 2, "parallel.expert": 2, "parallel.expert_tensor": 2}, 4),
    "nodes": (MIXTURE, {"parallel.expert": 4, "parallel.expert_all_to_all": "hierarchical",
                        "cluster.devices_per_node": 2}, 4),
}
LINE = re.compile(r"connections: (\d+) of NCCL, (\d+) of MPI; a plan counts (\d+) between GPUs")


@unittest.skipIf(GPUS < 4, f"NCCL needs four GPUs, and there are {GPUS}")
class Connections(EmulatedTest):
    variables = {"EMULATED_MEMORY": "256", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "0"}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)

    def train(self, name, model, keys):
        """What each rank says of its connections, by rank: made with NCCL and MPI, and planned."""
        self.write("recipe.json", small({
            "data": {"train": [{"path": "text.txt"}]}, "log": {"tensorboard": False}, "cluster.device": "cuda",
            "model": model, "batch": {"global": 4, "micro": 1}, "training": {"steps": 1}, "launch.ranks": 4,
            "launch.backend": "nccl", **keys}))
        result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", name,
                                   environment={"EMULATED_REPORT_FILE": str(self.folder / f"{name}-report")})
        self.assertEqual(result.returncode, 0, result.stderr)
        logs = [(self.folder / name / f"log/rank-{rank:05}.log").read_text() for rank in range(4)]
        return [tuple(int(number) for number in LINE.search(log).groups()) for log in logs]

    def counted(self, name):
        """By the emulated NCCL, of the processes that have a GPU."""
        reports = [json.loads(path.read_text()) for path in self.folder.glob(f"{name}-report.*")]
        return sorted(report["communicators"]["created"] for report in reports if "communicators" in report)

    def test_as_planned(self):
        for name, (model, keys, of_first) in LAYOUTS.items():
            with self.subTest(name):
                said = self.train(name, model, keys)
                made, planned = [nccl for nccl, _, _ in said], [number for _, _, number in said]
                self.assertEqual(made, planned)
                if not REAL:
                    self.assertEqual(self.counted(name), sorted(planned))
                self.assertEqual(planned[0], of_first)
                # Each set of ranks meets over MPI first, to pass on NCCL's id.
                self.assertTrue(all(mpi > 0 for _, mpi, _ in said))


if __name__ == "__main__":
    main()
