# SPDX-License-Identifier: Apache-2.0
"""Runs of many ranks on emulated GPUs (tests/emulator), one GPU per rank."""
import itertools
import json
import math
import os
import pathlib
import struct

from program import ProgramTest

EMULATED = pathlib.Path(os.environ["LLMTRAIN_EMULATED_PROGRAM"])


def boxes_of(folder, manifest):
    """The fp32 values that each file of a checkpoint holds of a tensor, by (file, tensor)."""
    boxes = {}
    for entry in manifest["files"]:
        content = (folder / entry["name"]).read_bytes()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        for name, tensor in json.loads(content[8:start]).items():
            if name != "__metadata__" and tensor["dtype"] == "F32":
                begin, end = (start + offset for offset in tensor["data_offsets"])
                boxes[entry["name"], name] = struct.unpack(f"<{(end - begin) // 4}f", content[begin:end])
    return boxes


def read_weights(folder):
    """The weights of a checkpoint, without the optimizer's states: {name: flat list}, however ranks have cut them."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    boxes = boxes_of(folder, manifest)
    weights = {}
    for tensor in manifest["tensors"]:
        if tensor["name"].endswith((".m", ".v")):
            continue
        shape = tensor["shape"]
        strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        values = [None] * math.prod(shape)
        for piece in tensor["slices"]:
            ranges = [range(first, first + size) for first, size in zip(piece["offset"], piece["shape"])]
            bounds = ",".join(f"{each.start}:{each.stop}" for each in ranges)
            name = tensor["name"] + ("" if piece["shape"] == shape else f"[{bounds}]")
            box = boxes[piece["file"], name]
            for place, value in zip(itertools.product(*ranges), box, strict=True):
                values[sum(index * stride for index, stride in zip(place, strides))] = value
        weights[tensor["name"]] = values
    return weights


def distance(first, second):
    """Between two models: the root of the sum of squares of all differences."""
    return math.sqrt(sum((a - b) ** 2 for name in first for a, b in zip(first[name], second[name], strict=True)))


def without_warnings(text):
    """Without what LibTorch's count of the CPU's memory says of tensors that the emulator makes on one thread and frees
    on another, and without what the emulator says of operations that are aborted."""
    return "".join(line for line in text.splitlines(True)
                   if "CPUAllocator.cpp" not in line and not line.startswith("emulated: "))


class EmulatedTest(ProgramTest):
    """A race between streams, or a host that touches a GPU's memory, ends a run with another exit code than 0."""

    def run_emulated(self, *arguments, environment=None, **options):
        variables = {"EMULATED_MEMORY": "512", "EMULATED_DEVICES": "4", "EMULATED_DELAY": "20",
                     "EMULATED_NCCL_SECONDS": "60", **(environment or {})}
        return self.run_program(*arguments, program=EMULATED, environment=variables, **options)

    def rows(self, folder):
        return [json.loads(row) for row in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]

    def newest_checkpoint(self, folder):
        return max((self.folder / folder / "checkpoints").glob("step-*"))
