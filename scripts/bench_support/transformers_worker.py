# SPDX-License-Identifier: Apache-2.0
"""transformers' generate() with commands on stdin: "run PREFIX TOKENS BATCH" generates TOKENS tokens after each of BATCH
prompts of PREFIX, all at once, and is answered with {"first": seconds until the first tokens, "seconds": [of each step
after it]}. The first line is {"ready": true}.
"""
import json
import os
import sys
import time

import torch
import transformers


class Clock(transformers.StoppingCriteria):
    """Is called after each token."""

    def __init__(self):
        self.times = [time.perf_counter()]

    def __call__(self, input_ids, scores, **_):
        self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


def run(model, prefix, tokens, batch):
    vocabulary = model.config.vocab_size
    prompt = torch.tensor([[(i * 7 + 3 + text) % vocabulary for i in range(prefix)] for text in range(batch)])
    clock = Clock()
    with torch.inference_mode():
        model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=tokens,
                       eos_token_id=None, pad_token_id=0, stopping_criteria=[clock])
    seconds = [later - earlier for earlier, later in zip(clock.times, clock.times[1:])]
    return {"first": seconds[0], "seconds": seconds[1:]}


def main():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[2])).eval()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        _, *numbers = line.split()
        print(json.dumps(run(model, *map(int, numbers))), flush=True)


if __name__ == "__main__":
    main()
