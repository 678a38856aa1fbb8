# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training process with commands on stdin: "run N" trains N steps, "memory" reports its peak, "release" gives
memory of a GPU back that it does not use.

Each command is answered by one JSON line: {"seconds": [per step]}, {"peak_bytes": VmHWM, or the largest sum of tensors
on a GPU}, {}. The first line is {"ready": true}.
"""
import argparse
import contextlib
import json
import os
import sys
import time

import numpy
import torch

from torch_model import TorchGpt


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


class Training:
    def __init__(self, recipe, compiled, precision, optimizer, device):
        self.batch, self.length = recipe["batch"], recipe["model"]["max_sequence_length"]
        self.length = self.batch.get("sequence_length", self.length)
        width = "<u4" if recipe["model"]["vocab_size"] > 65536 else "<u2"
        self.tokens = numpy.memmap(recipe["data"]["train"][0]["path"], dtype=width, mode="r")
        torch.manual_seed(recipe.get("seed", 1234))
        self.device = torch.device(device)
        with self.device:
            self.model = TorchGpt(recipe["model"])
        if precision == "pure_bf16":
            self.model.to(torch.bfloat16)
        self.cast = (torch.autocast(device, dtype=torch.bfloat16) if precision == "autocast_bf16"
                     else contextlib.nullcontext())
        self.optimizer = self._make_optimizer(recipe["training"], optimizer)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.position = 0

    def _make_optimizer(self, training, implementation):
        decayed = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        options = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[implementation]
        peak = training.get("learning_rate", {}).get("peak", 3e-4)
        return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), **options)

    def _next_batch(self, size):
        starts = [(self.position + i) * self.length % (len(self.tokens) - self.length - 1) for i in range(size)]
        rows = numpy.stack([self.tokens[s : s + self.length + 1] for s in starts]).astype(numpy.int64)
        self.position += size
        rows = torch.from_numpy(rows).to(self.device)
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(self):
        micro_batches = self.batch["global"] // self.batch["micro"]
        for _ in range(micro_batches):
            inputs, targets = self._next_batch(self.batch["micro"])
            with self.cast:
                loss = self.forward(inputs, targets)
            (loss / micro_batches).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def serve(training, device):
    """Answers the commands; `training` has a step()."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = line.split()
        if command == ["memory"]:
            print(json.dumps({"peak_bytes": peak_bytes(device)}), flush=True)
            continue
        if command == ["release"]:
            torch.cuda.empty_cache()
            print("{}", flush=True)
            continue
        seconds, loss = [], None
        for _ in range(int(command[1])):
            start = time.perf_counter()
            loss = training.step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "loss": loss}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "autocast_bf16", "pure_bf16"], default="fp32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--optimizer", choices=["fused", "foreach", "loop"], default="fused")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with open(options.recipe, encoding="utf-8") as file:
        training = Training(json.load(file), options.compiled, options.precision, options.optimizer,
                            options.device)
    serve(training, options.device)


if __name__ == "__main__":
    main()
