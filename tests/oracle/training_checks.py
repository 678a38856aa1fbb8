# SPDX-License-Identifier: Apache-2.0
"""A variant trained by llmtrain and by a plain PyTorch model, and what must be equal then."""
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import safetensors  # noqa: F401
    import torch
    import transformers  # noqa: F401
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

import checkpoint_folder
import program
from oracle_train import read_tokens, train
from model_settings import resolve
from reference_model import ReferenceModel
from variants import VARIANTS, complete, write_recipe, write_tokens

# Relative tolerances; "change" is the L2 norm of the difference in a parameter's change by training. The reference in
# float32 and in float64 differ by 3e-7 in losses, 4e-7 in norms and 1.3e-4 in changes.
LEARNING_RATE = 1e-12
FP32 = {"loss": 1e-5, "grad_norm": 1e-5, "change": 5e-4}
BF16 = {"loss": 2e-3, "grad_norm": 1e-2, "change": 6e-2}
# Three more binary digits.
FP16 = {"loss": 2.5e-4, "grad_norm": 1.5e-3, "change": 1e-2}
torch.set_num_threads(1)  # the models are tiny, so that threads would mostly wait for each other


def is_cancelled(name, config):
    """Softmax cancels the bias of keys: its gradient is rounding noise, which Adam scales up like any other."""
    return name.endswith("key.bias") and config.position == "learned" and not config.qk_norm


class Case:
    """A variant, by name or itself, with random weights, its tokens, and its recipe on disk. `course`: see
    oracle_train.train()."""

    course = None

    def __init__(self, variant, folder, seed=1, **sections):
        variant = VARIANTS[variant] if isinstance(variant, str) else variant
        self.folder = folder
        write_tokens(folder / "tokens.bin", variant)
        model = ReferenceModel(variant["model"])
        model.randomize(seed=seed)
        self.weights = {key: value.detach().clone() for key, value in model.state_dict().items()}
        manifest_recipe = {**variant, "model": vars(resolve(variant["model"]))}
        checkpoint_folder.write(folder / "initial", self.weights, manifest_recipe)
        sections = {**sections, "training": {"init_from": str(folder / "initial"), **sections.get("training", {})}}
        self.recipe = complete(variant, folder / "tokens.bin", **sections)
        self.recipe_path = write_recipe(folder / "recipe.json", self.recipe)

    def expected(self, overflows=None):
        tokens = read_tokens(self.folder / "tokens.bin")
        return train(self.recipe, self.weights, tokens, overflows=overflows, course=self.course)

    def actual(self):
        return program.train(self.recipe_path, self.folder / "run")

    def trained_weights(self):
        (checkpoint,) = (self.folder / "run" / "checkpoints").glob("step-*")
        return checkpoint_folder.read(checkpoint)


def is_cancelled(name, config):
    """Whether softmax cancels the parameter: its gradient is rounding noise, which Adam scales up like any other."""
    return name.endswith("key.bias") and config.position == "learned" and not config.qk_norm


class TrainingChecks(unittest.TestCase):
    def for_each(self, names, check, **sections):
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                check(Case(name, Path(folder), **sections))

    def assert_close(self, rows, expected, key, tolerance):
        difference, index = program.worst(rows, expected, key)
        self.assertLessEqual(difference, tolerance, f"{key} of row {index}: {rows[index][key]} instead of "
                                                    f"{expected[index][key]}")

    def assert_same_change(self, case, model, tolerance):
        """Every parameter changed as in PyTorch: a wrong gradient or decay shows here first."""
        trained = case.trained_weights()
        for name, parameter in model.named_parameters():
            if is_cancelled(name, model.config):
                continue
            precise = f"{name}.master" if f"{name}.master" in trained else name
            actual = trained[precise].float() / trained.get(f"{precise}.scale", 1)
            if not parameter.requires_grad:
                self.assertTrue(torch.equal(actual, case.weights[name]), f"{name} is frozen")
                continue
            change = (parameter - case.weights[name]).norm()
            self.assertLessEqual((actual - parameter).norm() / change, tolerance, f"{name} after training")

    def check_same_training(self, case, tolerances):
        expected, model = case.expected()
        actual = case.actual()
        self.assertEqual(len(actual), len(expected))
        self.assert_close(actual, expected, "learning_rate", LEARNING_RATE)
        self.assert_close(actual, expected, "loss", tolerances["loss"])
        self.assert_close(actual, expected, "grad_norm", tolerances["grad_norm"])
        self.assert_same_change(case, model, tolerances["change"])
        return actual, expected

    def check_training(self, case, tolerances):
        actual, expected = self.check_same_training(case, tolerances)
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        return actual, expected
