# SPDX-License-Identifier: Apache-2.0
"""Residual convolutional blocks with group norms against the same in PyTorch's modules (families_oracle_test.py)."""
import torch
from body_program import BodyTest, randomize
from torch import nn

GROUPS, SAMPLES, HEIGHT, WIDTH = 2, 3, 9, 7


def convolution(read, made, kernel, stride=1):
    return nn.Conv2d(read, made, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    """As torchvision.models.resnet's BasicBlock and Bottleneck are, with these norms."""

    def __init__(self, read, width, made, stride, is_bottleneck):
        super().__init__()
        if is_bottleneck:
            parts = [convolution(read, width, 1), convolution(width, width, 3, stride), convolution(width, made, 1)]
        else:
            parts = [convolution(read, made, 3, stride), convolution(made, made, 3)]
        self.conv = nn.ModuleList(parts)
        self.norm = nn.ModuleList([nn.GroupNorm(GROUPS, part.out_channels) for part in parts])
        self.shortcut = None
        if stride != 1 or read != made:
            self.shortcut = nn.Sequential(convolution(read, made, 1, stride), nn.GroupNorm(GROUPS, made))

    def forward(self, x):
        made = x
        for i, (conv, norm) in enumerate(zip(self.conv, self.norm)):
            made = norm(conv(made))
            if i + 1 < len(self.conv):
                made = made.relu()
        return (made + (x if self.shortcut is None else self.shortcut(x))).relu()

    def names(self):
        names = {f"conv{i + 1}.weight": f"conv.{i}.weight" for i in range(len(self.conv))}
        for part in ("weight", "bias"):
            names |= {f"norm{i + 1}.{part}": f"norm.{i}.{part}" for i in range(len(self.norm))}
        if self.shortcut is not None:
            names |= {"shortcut.conv.weight": "shortcut.0.weight", "shortcut.norm.weight": "shortcut.1.weight",
                      "shortcut.norm.bias": "shortcut.1.bias"}
        return names


class ResnetTest(BodyTest):
    SETTINGS = {"groups": GROUPS, "samples": SAMPLES, "height": HEIGHT, "image_width": WIDTH}

    def test_blocks(self):
        for dtype in (torch.float32, torch.float64):
            for is_bottleneck in (False, True):
                for read, made, stride in ((6, 6, 1), (6, 8, 1), (6, 6, 2), (4, 8, 2)):
                    module = randomize(Residual(read, 4, made, stride, is_bottleneck).to(dtype))
                    settings = {**self.SETTINGS, "body": "resnet.block", "is_bottleneck": is_bottleneck, "width": 4,
                                "channels": made, "stride": stride, "read_channels": read}
                    with self.subTest(settings=settings, dtype=dtype):
                        report = self.check_block(settings, module, module.names(),
                                                  {"x": torch.randn(SAMPLES, 1, read, HEIGHT, WIDTH, dtype=dtype)},
                                                  lambda t, m=module: m(t["x"][:, 0]).unsqueeze(1))
                        self.assertEqual(report["forward_flops"], self.flops(module))

    @staticmethod
    def flops(module):
        """2 · samples · made extents · weights of each convolution."""
        convolutions = [*module.conv, *([] if module.shortcut is None else [module.shortcut[0]])]
        extents, total = {}, 0
        for conv in convolutions:
            first = conv is module.conv[0] or (module.shortcut is not None and conv is module.shortcut[0])
            read = (HEIGHT, WIDTH) if first else extents
            extents = tuple((extent + 2 * (conv.kernel_size[0] // 2) - conv.kernel_size[0]) // conv.stride[0] + 1
                            for extent in read)
            total += 2 * SAMPLES * extents[0] * extents[1] * conv.weight.numel()
        return total

    def test_stem_and_classifier(self):
        for dtype in (torch.float32, torch.float64):
            stem = nn.Sequential(nn.Conv2d(3, 6, 7, 2, 3, bias=False), nn.GroupNorm(GROUPS, 6), nn.ReLU(),
                                 nn.MaxPool2d(3, 2, 1))
            module = randomize(stem.to(dtype))
            settings = {**self.SETTINGS, "height": 21, "image_width": 18, "read_channels": 3, "channels": 6}
            self.check_block({**settings, "body": "resnet.stem"}, module,
                             {"conv.weight": "0.weight", "norm.weight": "1.weight", "norm.bias": "1.bias"},
                             {"pixels": torch.randn(SAMPLES, 3, 21, 18, dtype=dtype)},
                             lambda t, m=module: m(t["pixels"]).unsqueeze(1))
            linear = randomize(nn.Linear(6, 4).to(dtype))
            self.check_block({**self.SETTINGS, "body": "resnet.classifier", "read_channels": 6, "classes": 4}, linear,
                             {"classifier.weight": "weight", "classifier.bias": "bias"},
                             {"x": torch.randn(SAMPLES, 1, 6, HEIGHT, WIDTH, dtype=dtype)},
                             lambda t, m=linear: m(t["x"].mean((3, 4))))
