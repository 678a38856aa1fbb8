# SPDX-License-Identifier: Apache-2.0
"""Times training steps (forward, backward, clipping, AdamW) of encoders, encoder-decoders and image classifiers against
transformers' models in PyTorch eager and torch.compile, on this machine's CPU.

All sides begin with the same weights, see the same batch in each step, and have the same number of threads. Each is a
process of its own; they take turns of a few steps, so that all of them see the same state of the machine. A ratio is the
median over the rounds of the medians' ratios. The losses of all sides after the first steps must agree. bf16 means fp32
weights and moments with products in bf16, in PyTorch by autocast. There is no dropout, so that losses can be compared.
"""
import dataclasses
import os
import sys
from pathlib import Path

import ratios
from bench import busy_cores_while_waiting, case_parser, measure_cases, take_turns
from worker import Worker

NAMES = ("bert-layer", "translation", "vit")
TURN_SECONDS = 2.0
WARM_UP_STEPS = 3
# Relative, of a loss after three steps: fp32 differs by roundings, and the rules of what autocast computes in bf16 are
# PyTorch's own.
TOLERANCES = {"fp32": 1e-4, "bf16": 2e-2}


def start_workers(options, name, precision, folder):
    """(worker, steps per turn) of each side; the first is llmtrain."""
    import family_cases  # here, so that --help needs neither PyTorch nor its time

    recipe = family_cases.write_case(name, precision, folder)
    theirs = [sys.executable, str(Path(__file__).with_name("family_worker.py")), str(folder), "--precision", precision]
    commands = {"llmtrain": [options.step_worker, str(recipe)], "eager": theirs}
    if not options.no_compile:
        commands["compiled"] = [*theirs, "--compiled"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                       TORCHINDUCTOR_CACHE_DIR=str(folder.parent / "llmtrain-bench-inductor"))
    for side, command in commands.items():
        worker = Worker(side, command, environment, folder / f"{side}.log")
        yield worker, max(1, round(TURN_SECONDS / worker.warm_up(WARM_UP_STEPS)))


def require_same_losses(case, workers, tolerance):
    ours, *others = workers
    for other in others:
        if not abs(ours.loss - other.loss) <= tolerance * abs(other.loss):
            raise SystemExit(f"scripts/benchmarks/bench_families: {case}: after {WARM_UP_STEPS} steps the loss of "
                             f"llmtrain is {ours.loss}, and {other.loss} of {other.name}: they do not compute the same")


def run_case(case, options, folder):
    name, precision = case.rsplit("-", 1)
    workers, steps = zip(*start_workers(options, name, precision, folder))
    require_same_losses(case, workers, TOLERANCES[precision])
    busy = busy_cores_while_waiting(workers)
    take_turns(workers, steps, options.rounds)
    ours, *others = workers
    found = [ratios.of_rounds(f"{other.name} ÷ llmtrain", other.turns, ours.turns) for other in others]
    print_table(case, workers, found)
    return {"case": case, "busy_cores_while_waiting": busy, "ratios": [dataclasses.asdict(ratio) for ratio in found],
            "sides": [{"side": worker.name, "loss": worker.loss, "median_seconds": worker.median(),
                       "peak_bytes": worker.peak_bytes, "seconds_by_round": worker.turns} for worker in workers]}


def print_table(case, workers, found):
    print(f"\n{case}\n  {'side':<10} {'ms/step':>9} {'steps':>6} {'peak MiB':>9} {'loss':>9}")
    for worker in workers:
        print(f"  {worker.name:<10} {worker.median() * 1e3:>9.1f} {len(worker.samples()):>6} "
              f"{worker.peak_bytes / 2**20:>9.0f} {worker.loss:>9.5f}")
    for ratio in found:
        print(ratio.line(), flush=True)


def main():
    names = [f"{name}-{precision}" for name in NAMES for precision in TOLERANCES]
    options = case_parser("scripts/benchmarks/bench_families", __doc__, names, "bench_families.json").parse_args()
    measure_cases(options, run_case)


if __name__ == "__main__":
    main()
