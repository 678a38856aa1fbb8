# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own Muon of the layers' matrices, and its AdamW of everything else, as one optimizer."""
from unittest import mock

import torch

MATRICES = (".attention.", ".ffn.")
NO_MATRICES = (".router", ".shared_gate")


def is_matrix(name, parameter):
    """Whether it is one of a layer's linear maps; the experts' are stacked. Routers are not, nor what has one axis."""
    return (name.startswith("layers.") and name.endswith(".weight") and parameter.dim() >= 2
            and any(part in name for part in MATRICES) and not any(part in name for part in NO_MATRICES))


class MuonAndAdamW:
    """`products`: the type in which Muon's matrices are multiplied; torch.optim.Muon knows bfloat16 alone, and here it
    runs the same code in another type."""

    def __init__(self, matrices, adamw, options, muon, products=torch.float32):
        self.sources, self.slices = [], []
        for matrix in matrices:
            for number in range(len(matrix) if matrix.dim() == 3 else 1):
                self.sources.append((matrix, number))
                self.slices.append(torch.nn.Parameter(self.slice_of(matrix.data, number)))
        self.muon = torch.optim.Muon(
            self.slices, lr=1.0, weight_decay=options["weight_decay"], momentum=muon["momentum"],
            nesterov=muon["nesterov"], ns_steps=muon["steps"], adjust_lr_fn=muon["scale"])
        self.adamw, self.products = adamw, products
        self.param_groups = self.muon.param_groups + adamw.param_groups

    @staticmethod
    def slice_of(tensor, number):
        """A view, so that an update of it is one of the model."""
        return tensor[number] if tensor.dim() == 3 else tensor

    def zero_grad(self):
        for matrix, _ in self.sources:
            matrix.grad = None
        self.adamw.zero_grad()

    def step(self):
        for part, (matrix, number) in zip(self.slices, self.sources):
            part.grad = None if matrix.grad is None else self.slice_of(matrix.grad, number)
        widened = mock.patch.object(torch.Tensor, "bfloat16", lambda tensor: tensor.to(self.products, copy=True))
        with widened:
            self.muon.step()
        self.adamw.step()
