# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts and token dropping on emulated GPUs: what the CPU learns, with no race, and no wait in a layer."""
import json
import shutil
import unittest

from emulated import EMULATED, EmulatedTest, backend_for, emulated_only, main
from program import TEXT, small

FP32 = {"tolerance": 1e-6, "of_change": 1e-3}
BF16 = {"tolerance": 1e-3, "of_change": 0.15}
# Routers that decide between nearly equal experts would send some tokens elsewhere. Adam's first updates are the signs of
# gradients: one near 0, whose sign is that of its rounding, would count as much as all others without a large eps.
IN_BF16 = {"precision.compute": "bf16", "precision.gradients": "fp32", "model.moe.routing_zipf": 0.7,
           "training.optimizer.eps": 0.01}
# Messages of GPUs go through the host's memory.
STAGED = {"launch.backend": "mpi"}


def mixture(changes=None):
    return small({"model": {"architecture": "llama", "layers": 2, "hidden_size": 32, "heads": 4, "vocab_size": 256,
                            "max_sequence_length": 16,
                            "moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 24, "capacity_factor": 0.8}},
                  "batch": {"global": 4, "micro": 2},
                  "training": {"steps": 3, "learning_rate": {"peak": 0.003}},
                  "data": {"train": [{"path": "text.txt"}]},
                  "checkpoint": {"every": 1, "keep": 0}, "log": {"tensorboard": False}, **(changes or {})})


class Experts(EmulatedTest):
    variables = {"EMULATED_MEMORY": "1024", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "20", "EMULATED_SUMMARY": "1"}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)

    def start(self, *arguments):
        result = self.run_emulated(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def train(self, device, changes, folder=None):
        """The rows of a run's steps, and what its GPUs did."""
        folder = folder or device
        self.write(f"{folder}.json", mixture({**changes, "cluster.device": device}))
        result = self.start("run", f"{folder}.json", "-q", "--run-dir", folder)
        counts = self.counts_of(result, changes.get("launch.ranks", 1) if device == "cuda" else 0)
        return [row for row in self.rows(folder) if "loss" in row], [each["waits"] for each in counts]

    def differences(self, first, second):
        """{name: ‖first − second‖ ÷ ‖first‖} for the weights of two checkpoints."""
        result = self.run_program("checkpoint", "diff", first, second, "--json", program=EMULATED)
        found = {tensor["name"]: tensor["relative"] for tensor in json.loads(result.stdout)["tensors"]}
        return {name: value for name, value in found.items() if not name.endswith((".m", ".v", ".momentum"))}

    def check_weights(self, steps, of_change, mine="cuda", theirs="cpu"):
        """Weights of routers and experts differ by a small part of what training has changed in them."""
        change = self.differences(f"{theirs}/checkpoints/step-00000001", f"{theirs}/checkpoints/step-{steps:08d}")
        error = self.differences(f"{mine}/checkpoints/step-{steps:08d}", f"{theirs}/checkpoints/step-{steps:08d}")
        routed = [name for name in change if ".experts." in name or ".router." in name]
        self.assertGreater(len(routed), 4)
        for name in routed:
            self.assertLess(error.get(name, 0), of_change * change[name], name)

    def compare(self, changes, tolerance, of_change):
        expected, _ = self.train("cpu", {**changes, **(STAGED if "launch.backend" in changes else {})})
        got, _ = self.train("cuda", changes)
        self.assertEqual([row["step"] for row in got], [1, 2, 3])
        for a, b in zip(got, expected, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=tolerance * b["loss"])
            for name in ("balance_loss", "z_loss", "router_entropy"):
                self.assertAlmostEqual(a[name], b[name], delta=tolerance * max(1, b[name]), msg=name)
            for name in ("dropped_share", "expert_load"):
                self.assertAlmostEqual(a[name], b[name], delta=1e-9, msg=name)
        self.check_weights(3, of_change)

    def test_losses_capacity_and_shared_experts(self):
        self.compare({"model.moe.priority": "score", "model.moe.z_coefficient": 0.01, "model.moe.balance_coefficient": 0.1,
                      "model.moe.shared_experts": 1, "model.moe.shared_gate": True}, **FP32)

    def test_random_numbers_are_those_of_the_cpu(self):
        self.compare({"model.moe.router": "cosine", "model.moe.jitter": 0.1, "model.moe.balance_loss": "load_importance",
                      "model.moe.gate_noise": 1, "memory.recompute": "full", "batch.global": 2}, **FP32)

    def test_bf16(self):
        self.compare({**IN_BF16, "model.moe.capacity_factor": 0}, **BF16)

    def test_bf16_with_biases_and_dropped_tokens(self):
        self.compare({**IN_BF16, "model.architecture": "gpt2", "memory.recompute": "selective"}, **BF16)

    def test_fp8(self):
        changes = {**IN_BF16, "precision.fp8_level": "O0", "model.moe.ffn_hidden_size": 32}
        # Layouts of the CPU differ by a third of what training has changed.
        self.compare(changes, tolerance=1e-3, of_change=0.45)

    def test_token_dropping_and_replayed_routing(self):
        self.compare({"training.token_dropping": {"start": 8, "multiple": 4, "steps": 3, "first_layers": 0},
                      "model.moe.routing_zipf": 1}, **FP32)

    def test_muon(self):
        # GPUs orthogonalise in bf16.
        self.compare({"training.optimizer": {"name": "muon"}, "model.moe.routing_zipf": 0.7}, **BF16)

    def test_ranks_that_split_experts(self):
        self.compare({**STAGED, "launch.ranks": 4, "parallel.tensor": 2, "parallel.expert": 2, "parallel.expert_tensor": 2,
                      "parallel.zero_stage": 3}, **FP32)

    def test_exchanges_that_are_tried(self):
        self.compare({**STAGED, "launch.ranks": 4, "batch.micro": 1, "parallel.expert": 4, "parallel.expert_overlap": "auto",
                      "parallel.expert_all_to_all": "auto", "cluster.devices_per_node": 2}, **FP32)

    def test_nccl(self):
        self.compare({"launch.backend": backend_for("nccl", 2), "launch.ranks": 2, "parallel.expert": 2}, **FP32)

    def test_ranks_that_share_tokens_and_layers(self):
        self.compare({**STAGED, **IN_BF16, "launch.ranks": 4, "parallel.context": 2, "parallel.expert": 2,
                      "parallel.pipeline": 2, "memory.recompute": "computation"}, **BF16)

    def test_checkpoints_samples_and_evaluations(self):
        self.train("cpu", {})
        self.train("cuda", {})
        shutil.rmtree(self.folder / "cuda/checkpoints/step-00000003")
        self.write("resumed.json", mixture({"cluster.device": "cpu"}))
        self.start("run", "resumed.json", "-q", "--run-dir", "cuda")
        self.check_weights(3, 1e-3)
        said, losses = [], []
        for device in ("cpu", "cuda"):
            on = ("--set", f"cluster.device={device}")
            said.append(self.start("sample", "cpu", "--prompt", "The ", "--tokens", "8", "--temperature", "0", *on).stdout)
            loss = self.start("eval", "cpu", "--batches", "1", "--json", "--data", "text.txt", *on).stdout
            losses.append(json.loads(loss)["loss"])
        self.assertEqual(said[0], said[1])
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-5)

    @emulated_only
    def test_no_layer_waits_in_bf16(self):
        """More layers, not one more wait in a step, also where they drop tokens; in fp32 each layer waits once."""
        waits = {}
        dropping = {"start": 8, "multiple": 4, "steps": 100, "first_layers": 0, "last_layers": 0}
        for layers in (1, 3):
            for compute in ("bf16", "fp32"):
                changes = {"model.layers": layers, "precision.compute": compute, "precision.gradients": "fp32",
                           "batch.global": 2, "checkpoint.every": 0, "training.token_dropping": dropping}
                one, three = ((self.train("cuda", {**changes, "training.steps": steps}, f"{layers}-{compute}-{steps}"))[1]
                              for steps in (1, 3))
                waits[layers, compute] = (three[0] - one[0]) / 2
        # With the step's scalars.
        self.assertEqual(waits, {(1, "bf16"): 1, (3, "bf16"): 1, (1, "fp32"): 2, (3, "fp32"): 4})


if __name__ == "__main__":
    main()
