# SPDX-License-Identifier: Apache-2.0
"""Random layouts of ranks with GPUs, over NCCL and staged through the host in turn, train what one CPU trains.

LLMTRAIN_LAYOUTS is how many are drawn, and LLMTRAIN_SEED the seed. The emulated GPU ends a run in which streams race.
"""
import os
import random
import unittest

from emulated import EmulatedTest, backend_for, distance, main, read_weights, without_warnings

STEPS = 4
LOSS, NORM, CHANGE = 1e-6, 1e-4, 1e-4
SEED = int(os.environ.get("LLMTRAIN_SEED", "33"))
COUNT = int(os.environ.get("LLMTRAIN_LAYOUTS", "20"))
MODEL = {"architecture": "llama", "layers": 4, "hidden_size": 32, "heads": 4, "kv_heads": 2, "ffn_hidden_size": 48,
         "vocab_size": 258, "max_sequence_length": 16}


def random_layout(draw):
    """The number of ranks and the keys of a layout that the recipe above allows."""
    ranks = draw.choice((2, 2, 2, 3, 4, 4))
    keys, left = {}, ranks
    for axis in draw.sample(("parallel.tensor", "parallel.pipeline", "parallel.context"), 3):
        degree = draw.choice([degree for degree in (1, 2, 4) if left % degree == 0])
        keys[axis] = degree
        left //= degree
    shards = left * keys["parallel.context"]
    keys["parallel.zero_stage"] = draw.choice((0, 1, 2, 3)) if shards > 1 else 0
    if left == 4 and keys["parallel.zero_stage"] > 0:
        keys["parallel.zero_shard_ranks"] = draw.choice((2, 4))
    if keys["parallel.tensor"] > 1:
        keys["parallel.sequence"] = draw.choice(("true", "false"))
    if keys["parallel.pipeline"] > 1:
        keys["pipeline.schedule"] = draw.choice(("gpipe", "1f1b", "breadth_first"))
    if keys["parallel.pipeline"] == 2 and keys.get("pipeline.schedule") == "breadth_first":
        keys["pipeline.loops"] = draw.choice((1, 2))
    keys["parallel.overlap"] = draw.choice(("true", "true", "false"))
    keys["memory.recompute"] = draw.choice(("none", "selective", "full"))
    keys["memory.offload.optimizer"] = draw.choice(("true", "false", "false"))
    keys["memory.offload.activations"] = draw.choice(("true", "false"))
    if draw.random() < 0.3:
        keys.update({"parallel.zero_stage": 3, "memory.offload.optimizer": "true", "memory.offload.weights": "true"})
    if keys.get("pipeline.loops") == 2 and keys["memory.offload.optimizer"] == "true":
        keys[draw.choice(("memory.offload.gradients", "training.update_in_backward"))] = "true"
        keys["training.clip_norm"] = 0
    if left == 3:
        keys["batch.global"] = 12
    return ranks, keys


class Layouts(EmulatedTest):
    variables = {"EMULATED_MEMORY": "512", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "20"}

    def setUp(self):
        super().setUp()
        draw, token, text = random.Random(1), 0, bytearray()
        for _ in range(4000):  # something to learn: each token depends on the previous one, up to noise
            token = (3 * token + 1 + draw.randrange(4)) % 40
            text.append(32 + token)  # a text, not a binary file
        self.write("text.txt", bytes(text))
        self.write("recipe.json", {
            "name": "layouts", "model": MODEL, "data": {"train": [{"path": "text.txt"}]},
            "batch": {"global": 8, "micro": 1}, "log": {"tensorboard": False}, "checkpoint": {"every": 1, "keep": 0},
            "cluster": {"device": "cuda"}, "launch": {"watchdog_seconds": 60},
            "training": {"steps": STEPS, "learning_rate": {"peak": 3e-3, "warmup_steps": 2}}})
        self.on_cpu = {}

    def train(self, folder, ranks, keys):
        flags = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", folder, "--ranks", str(ranks), *flags)
        self.assertEqual((result.returncode, without_warnings(result.stderr)), (0, ""), f"{ranks} {keys}")
        rows = self.rows(folder)
        self.assertEqual(len(rows), STEPS)
        first, last = (self.folder / folder / "checkpoints" / f"step-{step:08}" for step in (1, STEPS))
        return rows, read_weights(first), read_weights(last)

    def expected(self, **keys):
        """What one CPU trains from the same data."""
        name = str(keys)
        if name not in self.on_cpu:
            self.on_cpu[name] = self.train(f"cpu-{len(self.on_cpu)}", 1, {"cluster.device": "cpu", **keys})
        return self.on_cpu[name]

    def check(self, folder, ranks, keys):
        rows, _, weights = self.train(folder, ranks, keys)
        on_cpu_too = ("batch.global", "data.document_mask", "training.clip_norm", "training.freeze")
        of_data = {name: value for name, value in keys.items() if name in on_cpu_too}
        wanted_rows, first, wanted = self.expected(**of_data)
        for row, other in zip(rows, wanted_rows, strict=True):
            self.assertAlmostEqual(row["loss"], other["loss"], delta=LOSS * other["loss"])
            self.assertAlmostEqual(row["grad_norm"], other["grad_norm"], delta=NORM * other["grad_norm"])
        change = distance(wanted, first)
        self.assertGreater(change, 0)
        self.assertLessEqual(distance(weights, wanted), CHANGE * change)

    def test_random_layouts(self):
        draw = random.Random(SEED)
        for number in range(COUNT):
            ranks, keys = random_layout(draw)
            backend = backend_for(("nccl", "mpi")[number % 2], ranks)
            with self.subTest(backend=backend, ranks=ranks, keys=keys):
                self.check(str(number), ranks, {**keys, "launch.backend": backend})

    def test_documents_of_ranks_that_share_sequences(self):
        documents = {"data.document_mask": '{"end_of_text": 42}', "batch.micro": 2, "launch.backend": "mpi"}
        self.check("documents", 2, {**documents, "parallel.context": 2, "memory.recompute": "selective"})

    def test_stages_without_a_backward(self):
        frozen = {"training.freeze": '["embedding.*", "layers.0.*", "layers.1.*"]', "launch.backend": "mpi"}
        self.check("pipeline", 2, {**frozen, "parallel.pipeline": 2, "memory.offload.activations": "true"})
        self.check("weights", 2, {**frozen, "parallel.zero_stage": 3, "memory.offload.optimizer": "true",
                                  "memory.offload.weights": "true", "memory.offload.activations": "true"})


if __name__ == "__main__":
    main()
