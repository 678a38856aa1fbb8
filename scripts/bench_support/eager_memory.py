# SPDX-License-Identifier: Apache-2.0
"""Trains the model of a recipe in PyTorch eager on random samples, and prints as JSON what memory that takes:
"resident_bytes", the largest resident set of this process (VmHWM), and "parameters". With --tensors instead
"tensor_bytes", the most that LibTorch's allocator had handed out at once, by the events that PyTorch's profiler records
of each allocation; the profiler itself takes memory, so that one process does not measure both."""
import argparse
import fnmatch
import json
import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from torch_model import TorchGpt

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracle" / "encoders"))
from residual_network import ResidualNetwork  # noqa: E402

# Parameters of TorchGpt by the names of ours.
NAMES = {"token_embedding": "embedding", "position_embedding": "embedding", "final_norm": "final", "head": "head"}


def resnet(recipe):
    model, batch = recipe["model"], recipe["batch"]["global"]
    size, classes = model["image"]["size"], len(recipe["data"]["images"]["classes"])
    shape = {"channels": 3, "stem_channels": 64, "groups": 32, "block": "basic", **model["resnet"]}
    pixels, labels = torch.randn(batch, 3, size, size), torch.arange(batch) % classes
    network = ResidualNetwork(shape, classes)
    return network, lambda: network(pixels, labels).loss


def decoder(recipe):
    model, batch = recipe["model"], recipe["batch"]
    tokens = torch.randint(0, model["vocab_size"], (batch["global"], batch["sequence_length"] + 1))
    network = TorchGpt(model)
    for name, parameter in network.named_parameters():
        first, *rest = name.split(".")
        ours = ".".join([NAMES.get(first, first), *rest])
        parameter.requires_grad = not any(fnmatch.fnmatch(ours, pattern)
                                          for pattern in recipe["training"].get("freeze", []))
    return network, lambda: network(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def train(recipe, steps):
    network, loss_of = (resnet if recipe["model"]["architecture"] == "resnet" else decoder)(recipe)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        optimizer.step()
    return sum(parameter.numel() for parameter in network.parameters())


def most_at_once(recorded):
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def resident_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--tensors", action="store_true")
    options = parser.parse_args()
    recipe = json.loads(options.recipe.read_text(encoding="utf-8"))
    if not options.tensors:
        print(json.dumps({"parameters": train(recipe, options.steps), "resident_bytes": resident_bytes()}))
        return
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        train(recipe, options.steps)
    print(json.dumps({"tensor_bytes": most_at_once(recorded)}))


if __name__ == "__main__":
    main()
