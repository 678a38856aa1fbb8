# SPDX-License-Identifier: Apache-2.0
"""Runs bodies through body_tool, and compares them with modules of PyTorch."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file

TOOL = None  # the program

# Sums of a few dozen terms in another order, through a norm or two.
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-13}


def run_body(settings, tensors):
    """The results by name, and what the tool prints."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(pathlib.Path(folder) / name) for name in ("settings.json", "given", "made")]
        pathlib.Path(files[0]).write_text(json.dumps(settings))
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, files[1])
        done = subprocess.run([TOOL, *files], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{settings}: {done.stderr}")
        return load_file(files[2]), json.loads(done.stdout)


def randomize(module):
    """Weights of a size with which no part of a block is negligible, and norms that scale and shift."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            is_norm = "norm" in name.lower()
            weight.copy_(torch.randn_like(weight) * (0.2 if weight.dim() > 1 or is_norm else 0.3))
            if is_norm and name.endswith("weight"):
                weight.add_(1)
    return module


class Ragged:
    """Sequences of these lengths in rows of the longest: what follows in a row is padding, a document of its own."""

    def __init__(self, lengths):
        self.lengths, self.tokens = lengths, max(lengths)
        runs = []
        for row, length in enumerate(lengths):
            runs.append((row * self.tokens, length))
            if length < self.tokens:
                runs.append((row * self.tokens + length, self.tokens - length))
        self.documents = torch.tensor(runs)
        self.is_real = torch.arange(self.tokens)[None, :] < torch.tensor(lengths)[:, None]

    def rows(self, hidden, dtype):
        return torch.randn(len(self.lengths), self.tokens, hidden, dtype=dtype)

    def mask(self, dtype, is_causal=False, queries=None):
        """What transformers' layers add to scores."""
        seen = self.is_real[:, None, None, :].expand(-1, 1, queries or self.tokens, -1)
        if is_causal:
            seen = seen & torch.ones(self.tokens, self.tokens, dtype=torch.bool).tril()
        return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)

    def of_real(self, rows):
        """The rows, with zeros in place of padding."""
        return rows * self.is_real.view(*self.is_real.shape, *[1] * (rows.dim() - 2)).to(rows.dtype)


class BodyTest(unittest.TestCase):
    def assert_close(self, got, expected, name, unit=None):
        """Within the tolerance of the largest element, or of `unit` where that is larger."""
        self.assertEqual(got.dtype, expected.dtype, name)
        size = max(expected.abs().max().item(), unit or 0)
        distance = (got.reshape(expected.shape) - expected).abs().max().item()
        self.assertLessEqual(distance, TOLERANCES[expected.dtype] * size, name)

    def check_block(self, settings, module, names, given, compute, real=None, no_gradient=(),
                    output=None):
        """Compares a body of these settings with what compute(tensors) makes of `module`, both passes.

        `names`: of the module's parameters by the body's; `given`: the inputs and fields by the body's names; `real`:
        leaves of results what is not padding; `no_gradient`: names of parameters whose gradient is zero but for
        rounding; `output`: the shape that the body has the result in, where it is another. Returns what the
        tool prints."""
        weights = dict(module.named_parameters())
        self.assertEqual(sorted(names.values()), sorted(weights), "all parameters of the module are compared")
        real = real or (lambda rows: rows)
        inputs = {name: tensor.clone().requires_grad_() for name, tensor in given.items()
                  if tensor.is_floating_point() and name not in ("pixels",)}
        module.zero_grad()
        expected = compute({**given, **inputs})
        gradient = real(torch.randn_like(expected))
        expected.backward(gradient)
        shapes = self.shapes_of(settings)
        tensors = {own: weights[theirs].detach().reshape(shapes(own, weights[theirs].shape))
                   for own, theirs in names.items()}
        results, report = run_body(settings, {**given, **tensors, "gradient_0": gradient.reshape(output or gradient.shape)})
        self.assert_close(real(results["output_0"].reshape(expected.shape)), real(expected.detach()), "output")
        for name, tensor in inputs.items():
            self.assert_close(results[f"gradient.{name}"], tensor.grad, f"gradient of {name}")
        largest = max(weight.grad.abs().max().item() for weight in weights.values())
        for own, theirs in names.items():
            unit = largest if own in no_gradient else None
            self.assert_close(results[f"gradient.{own}"], weights[theirs].grad, f"gradient of {own}", unit)
        made = {name for name in results if name.startswith("gradient.")}
        self.assertEqual(made, {f"gradient.{name}" for name in [*names, *inputs]})
        return report

    @staticmethod
    def shapes_of(settings):
        """The shape that a body has a parameter in: projections of attention tell heads and their features apart."""
        def shape(name, of_module):
            if name == "class.weight":
                return of_module[1:]
            if name == "position.weight":
                return of_module[-2:]
            if "attention." not in name:
                return of_module
            heads = settings["heads"]
            if name.endswith("output.weight"):
                return (of_module[0], heads, of_module[1] // heads)
            if name.endswith("output.bias"):
                return of_module
            return (heads, of_module[0] // heads, *of_module[1:])
        return shape
