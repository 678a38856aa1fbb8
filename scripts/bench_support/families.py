# SPDX-License-Identifier: Apache-2.0
"""Times training steps (forward, backward, clipping, AdamW) of encoders, encoder-decoders and image classifiers against
transformers' models in PyTorch eager and torch.compile, on this machine's CPU.

All sides begin with the same weights, see the same batch in each step, and have the same number of threads. Each is a
process of its own; they take turns of a few steps, so that all of them see the same state of the machine. A ratio is the
median over the rounds of the medians' ratios. The losses of all sides after the first steps must agree. bf16 means fp32
weights and moments with products in bf16, in PyTorch by autocast. There is no dropout, so that losses can be compared.
"""
import argparse
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

import ratios
from bench import busy_cores_while_waiting, processor, warn_when_loaded
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
    for number in range(options.rounds):
        order = list(zip(workers, steps))
        first = number % len(order)
        for worker, count in order[first:] + order[:first]:
            worker.run(count)
    for worker in workers:
        worker.close()
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


def parse_arguments():
    names = [f"{name}-{precision}" for name in NAMES for precision in TOLERANCES]
    parser = argparse.ArgumentParser(prog="scripts/benchmarks/bench_families", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="CASE",
                        help=f"any of {', '.join(names)} (default: all)")
    parser.add_argument("--rounds", type=int, default=10, help="turns per side (default: 10)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per side (default: all cores)")
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (it takes a minute per case)")
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parents[2] / "runs" / "bench_families.json",
                        help="every sample as JSON (default: runs/bench_families.json)")
    parser.add_argument("--step-worker", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    result = {"processor": processor(), "threads": options.threads, "rounds": options.rounds,
              "load_before": warn_when_loaded(), "cases": []}
    print(f"{result['processor']}, {options.threads} threads, {options.rounds} rounds, load {result['load_before']:.1f}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for case in options.cases:
        with tempfile.TemporaryDirectory(prefix="llmtrain-bench-") as folder:
            result["cases"].append(run_case(case, options, Path(folder)))
        options.output.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end; every sample: {options.output}")


if __name__ == "__main__":
    main()
