# SPDX-License-Identifier: Apache-2.0
"""usage: torch_roofs.py cuda|cpu

Prints what PyTorch reaches on this device as JSON: bytes per second of a copy, read and written, and floating-point
operations per second of square products in bf16 and FP8.
"""
import json
import statistics
import sys
import time

import torch


def seconds_of(operation, device, repeats=20):
    """The median over some calls, after three that load what is needed."""
    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    samples = []
    for repeat in range(repeats + 3):
        wait()
        start = time.perf_counter()
        operation()
        wait()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples[3:])


def product(device, size):
    first, second = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: first @ second, device)


def fp8_product(device, size):
    first, second = (torch.randn(size, size, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)

    def multiply():
        return torch._scaled_mm(first, second.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return 2 * size**3 / seconds_of(multiply, device)


def copy(device, size):
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_of(lambda: target.copy_(source), device)


def main():
    device = sys.argv[1]
    size, copied = (8192, 1 << 30) if device == "cuda" else (256, 1 << 20)
    found = {"copy_bytes_per_second": copy(device, copied), "bf16_flops": product(device, size)}
    if device == "cuda" and torch.cuda.get_device_capability() >= (8, 9):
        found["fp8_flops"] = fp8_product(device, size)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
