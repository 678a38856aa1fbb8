# SPDX-License-Identifier: Apache-2.0
"""A model of transformers that trains on one batch, with the commands of torch_worker.py on stdin."""
import argparse
import contextlib
import os
from pathlib import Path

import torch
import transformers

from family_cases import RATE
from torch_worker import serve


class Training:
    def __init__(self, folder, compiled, precision):
        config = transformers.AutoConfig.from_pretrained(folder / "hf")
        (model_class,) = config.architectures
        self.model = getattr(transformers, model_class).from_pretrained(folder / "hf").train()
        self.batch = torch.load(folder / "batch.pt")
        self.cast = torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0, fused=True)
        self.forward = torch.compile(self.model) if compiled else self.model

    def step(self):
        with self.cast:
            loss = self.forward(**self.batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of family_cases.write_case()")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(Training(options.folder, options.compiled, options.precision), "cpu")


if __name__ == "__main__":
    main()
