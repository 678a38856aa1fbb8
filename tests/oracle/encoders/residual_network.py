# SPDX-License-Identifier: Apache-2.0
"""A residual network of PyTorch's modules with group norms, whose parameters have our names."""
from types import SimpleNamespace

from torch import nn
from torch.nn import functional


def convolution(read, made, kernel, stride=1):
    return nn.Conv2d(read, made, kernel, stride, kernel // 2, bias=False)


class Shortcut(nn.Module):
    def __init__(self, read, made, stride, groups):
        super().__init__()
        self.conv, self.norm = convolution(read, made, 1, stride), nn.GroupNorm(groups, made)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    """As torchvision.models.resnet's BasicBlock and Bottleneck are, with these norms."""

    def __init__(self, read, made, stride, shape):
        super().__init__()
        groups, narrow = shape["groups"], made // 4
        if shape["block"] == "basic":
            parts = [convolution(read, made, 3, stride), convolution(made, made, 3)]
        else:
            parts = [convolution(read, narrow, 1), convolution(narrow, narrow, 3, stride), convolution(narrow, made, 1)]
        for number, part in enumerate(parts, 1):
            setattr(self, f"conv{number}", part)
            setattr(self, f"norm{number}", nn.GroupNorm(groups, part.out_channels))
        self.parts = len(parts)
        self.shortcut = Shortcut(read, made, stride, groups) if stride != 1 or read != made else None

    def forward(self, x):
        made = x
        for number in range(1, self.parts + 1):
            made = getattr(self, f"norm{number}")(getattr(self, f"conv{number}")(made))
            if number < self.parts:
                made = made.relu()
        return (made + (x if self.shortcut is None else self.shortcut(x))).relu()


class ResidualNetwork(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        stem = shape["stem_channels"]
        self.embedding = nn.ModuleDict({"conv": nn.Conv2d(shape["channels"], stem, 7, 2, 3, bias=False),
                                        "norm": nn.GroupNorm(shape["groups"], stem)})
        self.layers, read = nn.ModuleList(), stem
        for number, stage in enumerate(shape["stages"]):
            for block in range(stage["blocks"]):
                stride = 2 if number > 0 and block == 0 else 1
                self.layers.append(Block(read, stage["channels"], stride, shape))
                read = stage["channels"]
        self.head = nn.ModuleDict({"classifier": nn.Linear(read, classes)})

    def forward(self, pixel_values, labels):
        x = self.embedding["norm"](self.embedding["conv"](pixel_values)).relu()
        x = functional.max_pool2d(x, 3, 2, 1)
        for layer in self.layers:
            x = layer(x)
        logits = self.head["classifier"](x.mean((2, 3)))
        return SimpleNamespace(logits=logits, loss=functional.cross_entropy(logits, labels))
