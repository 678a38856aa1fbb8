# SPDX-License-Identifier: Apache-2.0
"""Passes that are launched as CUDA graphs (kernels.cuda_graphs) train what passes of single launches train, bit by bit."""
import unittest

from emulated import EmulatedTest, backend_for, emulated_only, main
from program import small

STEPS = 4
TEXT = "The quick brown fox jumps over the lazy dog, 12 times.\nIt barks. " * 60
# Ranks, and keys beside those of the recipe.
LAYOUTS = {
    "fp32_tied": (1, {"precision.compute": "fp32", "memory.recompute": "full", "model.tie_embeddings": "true",
                      "training.optimizer.name": "muon"}),
    # The loss scale, which is a number in the work, rises twice.
    "fp16": (1, {"precision.compute": "fp16", "precision.loss_scale.growth_steps": "2",
                 "precision.loss_scale.initial": "1024", "model.architecture": "gpt2", "kernels.attention": "math",
                 "memory.recompute": "selective"}),
    "adapters_and_stages": (1, {"model.lora": '{"rank": 4}', "memory.recompute": "computation", "pipeline.loops": "2",
                                "pipeline.schedule": "breadth_first"}),
    "fp8": (1, {"precision.fp8_level": "O0"}),
    "pipeline": (2, {"parallel.pipeline": "2", "pipeline.schedule": "1f1b", "model.tie_embeddings": "true"}),
    # The first stage has no backward, and the loss scale rises.
    "frozen": (2, {"parallel.pipeline": "2", "pipeline.schedule": "1f1b", "precision.compute": "fp16",
                   "precision.loss_scale.growth_steps": "2", "precision.loss_scale.initial": "1024",
                   "training.freeze": '["embedding.*", "layers.0.*"]'}),
    "zero": (2, {"parallel.zero_stage": "1"}),
    "interleaved": (4, {"parallel.pipeline": "2", "pipeline.loops": "2", "parallel.zero_stage": "1",
                        "model.layers": "4"}),
}


def recipe():
    return small({
        "model": {"architecture": "llama", "layers": 2, "hidden_size": 32, "heads": 4, "kv_heads": 2, "vocab_size": 256,
                  "max_sequence_length": 32},
        "data": {"train": [{"path": "text.txt"}]}, "cluster": {"device": "cuda"}, "precision": {"compute": "bf16"},
        "batch": {"global": 4, "micro": 1}, "checkpoint": {"every": STEPS, "keep": 0},
        "training": {"steps": STEPS, "learning_rate": {"peak": 0.003}}})


class Graphs(EmulatedTest):
    variables = {"EMULATED_MEMORY": "512", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "20", "EMULATED_SUMMARY": "1"}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", recipe())

    def train(self, folder, ranks, keys, graphs):
        keys = {**keys, "kernels.cuda_graphs": "true" if graphs else "false"}
        flags = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", folder, "--ranks", str(ranks), *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def kept(self, folder):
        """Losses, norms, and all bytes of the last checkpoint's tensors."""
        numbers = [(row["loss"], row["grad_norm"]) for row in self.rows(folder) if "loss" in row]
        self.assertEqual(len(numbers), STEPS)
        files = sorted(self.newest_checkpoint(folder).glob("*.safetensors"))
        return numbers, [(path.name, path.read_bytes()) for path in files]

    def test_same_bits(self):
        for number, (name, (ranks, keys)) in enumerate(LAYOUTS.items()):
            with self.subTest(name):
                backend = {"launch.backend": backend_for(("nccl", "mpi")[number % 2], ranks)} if ranks > 1 else {}
                usual = self.train(f"{name}-usual", ranks, {**keys, **backend}, False)
                graphs = self.train(f"{name}-graphs", ranks, {**keys, **backend}, True)
                self.assertEqual(self.kept(f"{name}-usual"), self.kept(f"{name}-graphs"))
                for before, after in zip(self.counts_of(usual), self.counts_of(graphs), strict=True):
                    self.assertLess(after["launches"], before["launches"])

    @emulated_only
    def test_a_step_is_two_launches_for_each_micro_batch_and_what_surrounds_them(self):
        counts = {}
        for layers in (2, 4):
            for steps in (3, 5):
                keys = {"training.steps": str(steps), "model.layers": str(layers), "checkpoint.every": "0"}
                counts[layers, steps] = self.counts_of(self.train(f"{layers}-{steps}", 1, keys, True), 1)[0]["launches"]
        of_two = (counts[2, 5] - counts[2, 3]) / 2
        # Two graphs, two copies of the batch, and the sum of its losses; and the step's batch and update, which is one
        # launch for all layers.
        self.assertLessEqual(of_two, 5 * 4 + 7)
        self.assertEqual((counts[4, 5] - counts[4, 3]) / 2, of_two)

    def test_a_resumed_run(self):
        self.train("whole", 1, {"checkpoint.every": "3"}, True)
        for steps in (3, STEPS):
            keys = {"checkpoint.every": "3", "training.steps": str(steps),
                    "training.learning_rate.decay_steps": str(STEPS)}
            self.train("resumed", 1, keys, True)
        self.assertEqual(self.kept("whole"), self.kept("resumed"))

    @emulated_only
    def test_without_a_gpu(self):
        self.refused(2, ["/kernels/cuda_graphs: true needs a GPU", "use false"], "run", "recipe.json", "-q", "--set",
                     "kernels.cuda_graphs=true", "--set", "cluster.device=auto",
                     environment={"CUDA_VISIBLE_DEVICES": ""})


if __name__ == "__main__":
    main()
