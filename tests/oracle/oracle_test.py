# SPDX-License-Identifier: Apache-2.0
"""llmtrain compared with a plain PyTorch model: same weights and data give the same logits, losses and results."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from training_checks import BF16, FP16, FP32, Case, TrainingChecks, is_cancelled  # first: skips the test where a package is missing

import torch
from fp8_states import Fp8StatesTest  # noqa: F401  one of these tests, which shares their imports
from reference_model import ReferenceModel
from variants import TINY, VARIANTS

LOGITS, GRADIENT = 1e-5, 1e-5  # relative
# Sums in another order differ in the last bit, which now and then moves a number over the middle between two FP8
# numbers: one element is off by a tenth, and the runs drift apart as two seeds of dropout would. The first step is
# close; core/model's tests compare all gradients in float64, where this does not happen.
FP8 = {"loss": 5e-3, "grad_norm": 2e-2, "change": 0.2}
# Over eight seeds the first step differs by up to 2.0e-5 in losses and 1.2e-3 in norms, or by 1e-7 where no number moves.
FP8_FIRST_STEP = {"loss": 3e-5, "grad_norm": 2e-3}
FP8_TINY = 1e-5  # of losses over 20 steps of a model so small that this seldom happens

# The iteration that orthogonalises scales small singular values, which are rounding errors, by up to 3.44 to the fifth.
MUON = {"loss": 1e-5, "grad_norm": 1e-5, "change": 2e-3}


class OracleTest(TrainingChecks):
    def test_training_equals_pytorch(self):
        self.for_each(VARIANTS, lambda case: self.check_training(case, FP32))

    def test_frozen_parameters_are_those_that_pytorch_gives_no_gradient(self):
        frozen = {"gpt2": ["embedding.token.*", "*.ffn.*", "layers.0.*norm*", "layers.1.attention.*.bias"],
                  "llama, 8 experts (Mixtral)": ["*.router.*", "layers.1.ffn.*", "embedding.*"]}
        for name, patterns in frozen.items():
            self.for_each([name], lambda case: self.check_training(case, FP32), training={"freeze": patterns, "steps": 20})

    def test_muon_is_pytorchs(self):
        def check(case):
            self.check_training(case, MUON)

        muon = {"steps": 25, "optimizer": {"name": "muon"}}
        self.for_each(["llama, one key head, qk_norm and biases (Qwen3)",
                       "llama, qkv_bias, 5 experts and a gated shared one (Qwen2-MoE)"], check, training=muon)
        as_published = {"name": "muon", "weight_decay": 0.3,
                        "muon": {"momentum": 0.9, "nesterov": False, "steps": 3, "scale": "original"}}
        self.for_each(["gpt2"], check, training={**muon, "optimizer": as_published})

    def test_bf16_stays_near_fp32(self):
        self.for_each(["gpt2", "llama", "llama, one key head, qk_norm and biases (Qwen3)", "gpt-rope, qk_norm, bias on qkv alone"],
                      lambda case: self.check_training(case, BF16), precision={"compute": "bf16"})

    def test_fp16_stays_near_fp32(self):
        self.for_each(["gpt2", "llama"], lambda case: self.check_training(case, FP16), precision={"compute": "fp16"})

    def check_loss_scale(self, case):
        actual = case.actual()
        # A norm that is not finite is null.
        overflows = [index for index, row in enumerate(actual) if row["grad_norm"] is None]
        expected, model = case.expected(overflows)
        self.assertEqual([row["loss_scale"] for row in actual], [row["loss_scale"] for row in expected])
        # Overflows at the first scale and, as it grows, later on.
        self.assertGreater(len(overflows), 3)
        self.assertIn(0, overflows)
        self.assertGreater(overflows[-1], 10)
        self.assertEqual(actual[-1]["skipped"], len(overflows))
        self.assert_close(actual, expected, "loss", FP16["loss"])
        updated = [index for index in range(len(actual)) if index not in overflows]
        self.assert_close([actual[index] for index in updated], [expected[index] for index in updated], "grad_norm",
                          FP16["grad_norm"])
        self.assert_same_change(case, model, FP16["change"])

    def test_fp16_loss_scale_is_pytorchs(self):
        self.for_each(["gpt2"], self.check_loss_scale,
                      precision={"compute": "fp16", "loss_scale": {"initial": 2 ** 24, "growth_steps": 6}})

    def test_fp8_products_are_those_of_pytorchs_casts(self):
        def check(case):
            actual, expected = self.check_training(case, FP8)
            for key, tolerance in FP8_FIRST_STEP.items():
                self.assert_close(actual[:1], expected[:1], key, tolerance)

        self.for_each(["gpt2", "llama", "llama, one key head, qk_norm and biases (Qwen3)", "gpt2, rmsnorm, swiglu with bias"],
                      check, precision={"fp8_level": "O0"})
        # FP8 gradients and fp16 weights too, then with small moments, then with FP8 weights.
        for names, level in ((["gpt2", "llama"], "O1"), (["gpt2"], "O2"), (["llama"], "O3")):
            self.for_each(names, check, precision={"fp8_level": level})
        self.for_each(["llama"], check, precision={"fp8_level": "O3", "high_precision": {"first_layers": 1}})

        # A history so short that what it forgets shows within a run, and steps that grow beyond it.
        for names, level in ((["llama"], "O0"), (["gpt2"], "O2")):
            self.for_each(names, check, precision={
                "fp8_level": level, "fp8_scaling": {"method": "delayed", "history_steps": 3, "margin": 0}})

    def for_one_seed(self, check, variant, **sections):
        """`check` holds for one of eight seeds. A bug shows with each; a number that rounding moves to another FP8
        number shows with some."""
        for seed in range(1, 9):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(Case(variant, Path(folder), seed=seed, **sections))
                    return
                except AssertionError as problem:
                    last = problem
        self.fail(f"with no seed: {last}")

    def check_fp8_steps(self, case):
        (expected, _), actual = case.expected(), case.actual()
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        for key in ("loss", "grad_norm"):
            self.assert_close(actual[:1], expected[:1], key, FP8_TINY / 10)
        self.assert_close(actual, expected, "loss", FP8_TINY)

    def test_fp8_levels_are_exact_where_no_number_moves(self):
        for level, architecture in (("O0", "llama"), ("O1", "gpt2"), ("O2", "llama"), ("O3", "gpt2"), ("O3", "llama")):
            with self.subTest(f"{level}, {architecture}"):
                self.for_one_seed(self.check_fp8_steps, TINY[architecture], precision={"fp8_level": level})

    def test_every_gradient_of_fp8_products_is_exact_where_no_number_moves(self):
        for level, architecture in (("O0", "gpt2"), ("O0", "llama"), ("O1", "gpt2"), ("O1", "llama")):
            with self.subTest(f"{level}, {architecture}"):
                self.for_one_seed(self.check_gradients, TINY[architecture], precision={"fp8_level": level},
                                  training={"steps": 1, "clip_norm": 0, "learning_rate": {}})

    def check_gradients(self, case):
        """After one step without clipping the first moment is the gradient times 1 - beta1."""
        _, model = case.expected()
        case.actual()
        trained = case.trained_weights()
        for name, parameter in model.named_parameters():
            if is_cancelled(name, model.config):
                continue
            gradient = trained[f"{name}.m"] / 0.1
            self.assertLessEqual((gradient - parameter.grad).norm() / parameter.grad.norm(), GRADIENT, name)

    def test_gradients_of_experts_equal_pytorch(self):
        self.for_each([name for name in VARIANTS if "experts" in name], self.check_gradients,
                      training={"steps": 1, "clip_norm": 0, "learning_rate": {}})

    def check_drops(self, case):
        """Compares what the last step dropped, in the mean over its layers with experts."""
        _, model = case.expected()
        shares = [layer.ffn.dropped_share for layer in model.layers if hasattr(layer.ffn, "dropped_share")]
        self.assertGreater(min(shares), 0)
        self.assertAlmostEqual(case.actual()[-1]["dropped_share"], sum(shares) / len(shares))

    def test_experts_drop_what_pytorch_drops(self):
        self.for_each([name for name, variant in VARIANTS.items()
                       if variant["model"].get("moe", {"capacity_factor": 0}).get("capacity_factor", 1) != 0],
                      self.check_drops, training={"steps": 3})

    def check_logits(self, case):
        model = ReferenceModel(case.recipe["model"])
        model.load_state_dict(case.weights)
        model.eval()
        sequences = [torch.arange(length) * 7 % model.config.vocab_size
                     for length in (model.config.max_sequence_length, 7)]
        first, second = ([str(token) for token in tokens.tolist()] for tokens in sequences)
        output = case.folder / "logits.bin"
        subprocess.run([os.environ["LLMTRAIN_LOGITS_TOOL"], case.recipe_path, output, *first, ",", *second], check=True)
        with torch.no_grad():
            expected = [model(tokens[None])[0] for tokens in sequences]
        actual = torch.frombuffer(bytearray(output.read_bytes()), dtype=torch.float32)
        self.assertEqual(actual.numel(), sum(logits.numel() for logits in expected))
        for logits, found in zip(expected, actual.split([logits.numel() for logits in expected]), strict=True):
            self.assertLessEqual((found.view_as(logits) - logits).abs().max() / logits.abs().max(), LOGITS)

    def test_logits_equal_pytorch(self):
        self.for_each(VARIANTS, self.check_logits)


if __name__ == "__main__":
    unittest.main()
