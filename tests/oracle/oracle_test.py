# SPDX-License-Identifier: Apache-2.0
"""llmtrain against a plain PyTorch model: same weights, same data, so the same logits, losses and trained weights."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import safetensors  # noqa: F401
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import checkpoint_folder
import program
from oracle_train import read_tokens, train
from reference_model import ReferenceModel, resolve
from variants import VARIANTS, complete, write_recipe, write_tokens

# Relative. This model in float32 against itself in float64: losses 3e-7, norms 4e-7, changes of weights 1.3e-4.
LOSS, NORM, LEARNING_RATE = 1e-5, 1e-5, 1e-12
WEIGHT_CHANGE = 2e-3  # of the change that training made to a parameter, in the L2 norm
LOGITS = 1e-5         # of the largest logit
BF16_LOSS = 1e-2
torch.set_num_threads(1)  # the models are tiny, and a team of threads waits for its slowest


class Case:
    """A variant with random weights, its tokens, and its recipe on the disk."""

    def __init__(self, name, folder, **sections):
        variant = VARIANTS[name]
        self.folder = folder
        write_tokens(folder / "tokens.bin", variant)
        model = ReferenceModel(variant["model"])
        model.randomize(seed=1)
        self.weights = {key: value.detach().clone() for key, value in model.state_dict().items()}
        manifest_recipe = {**variant, "model": vars(resolve(variant["model"]))}
        checkpoint_folder.write(folder / "initial", self.weights, manifest_recipe)
        sections = {"training": {"init_from": str(folder / "initial")}, **sections}
        self.recipe = complete(variant, folder / "tokens.bin", **sections)
        self.recipe_path = write_recipe(folder / "recipe.json", self.recipe)

    def expected(self):
        return train(self.recipe, self.weights, read_tokens(self.folder / "tokens.bin"))

    def actual(self):
        return program.train(self.recipe_path, self.folder / "run")

    def trained_weights(self):
        (checkpoint,) = (self.folder / "run" / "checkpoints").glob("step-*")
        return checkpoint_folder.read(checkpoint)


class OracleTest(unittest.TestCase):
    def for_each(self, names, check, **sections):
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                check(Case(name, Path(folder), **sections))

    def assert_close(self, rows, expected, key, tolerance):
        difference, index = program.worst(rows, expected, key)
        self.assertLessEqual(difference, tolerance, f"{key} of row {index}: {rows[index][key]} instead of "
                                                    f"{expected[index][key]}")

    def assert_same_change(self, case, model):
        """Every parameter went where PyTorch's went: a gradient or a decay that is wrong shows here first."""
        trained, config = case.trained_weights(), model.config
        for name, parameter in model.state_dict().items():
            if name.endswith("key.bias") and config.position == "learned" and not config.qk_norm:
                continue  # softmax does not see it: its gradient is rounding, which Adam makes as large as any other
            change = (parameter - case.weights[name]).norm()
            difference = (trained[name].float() - parameter).norm()
            self.assertLessEqual(difference / change, WEIGHT_CHANGE, f"{name} after training")

    def check_training(self, case):
        expected, model = case.expected()
        actual = case.actual()
        self.assertEqual(len(actual), len(expected))
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        for key, tolerance in (("learning_rate", LEARNING_RATE), ("loss", LOSS), ("grad_norm", NORM)):
            self.assert_close(actual, expected, key, tolerance)
        self.assert_same_change(case, model)

    def test_training_equals_pytorch(self):
        self.for_each(VARIANTS, self.check_training)

    def check_bf16(self, case):
        self.assert_close(case.actual(), case.expected()[0], "loss", BF16_LOSS)

    def test_bf16_stays_near_fp32(self):
        self.for_each(["gpt2", "gpt-rope", "llama", "llama, one key head, qk_norm (Qwen3)"], self.check_bf16,
                      precision={"compute": "bf16"})

    def check_logits(self, case):
        model = ReferenceModel(case.recipe["model"])
        model.load_state_dict(case.weights)
        for length in (model.config.max_sequence_length, 7):
            tokens = torch.arange(length) * 7 % model.config.vocab_size
            output = case.folder / "logits.bin"
            command = [os.environ["LLMTRAIN_LOGITS_TOOL"], case.recipe_path, output, *map(str, tokens.tolist())]
            subprocess.run(command, check=True)
            actual = torch.frombuffer(bytearray(output.read_bytes()), dtype=torch.float32).view(length, -1)
            with torch.no_grad():
                expected = model(tokens[None])[0]
            self.assertEqual(actual.shape, expected.shape)
            self.assertLessEqual((actual - expected).abs().max() / expected.abs().max(), LOGITS)

    def test_logits_equal_pytorch(self):
        self.for_each(VARIANTS, self.check_logits)


if __name__ == "__main__":
    unittest.main()
