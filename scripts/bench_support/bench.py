# SPDX-License-Identifier: Apache-2.0
"""Times training steps of llmtrain against PyTorch eager and torch.compile on this machine's CPU.

All sides train the same model with the same batch, precision and number of threads, each in a separate process, and
take turns of a few steps, so that all of them see the same state of the machine. bf16 means fp32 weights and optimizer
state with bf16 matrix products (autocast in PyTorch); "all bf16" rows keep weights and moments in bf16 too: less work,
less accurate. fp8 cases (precision.fp8_level O0, and fp8_O1 to fp8_O3, with compute bf16) compare with llmtrain's own
fp32 and bf16, since PyTorch has no FP8 for the training of a plain model on a CPU. They also print how long a step takes
beside the faster of the two, and one of bf16 beside one of fp32, each as the median over the rounds.
"""
import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import cases
import ratios
from worker import Worker

TURN_SECONDS = 2.0
WARM_UP_STEPS = 4


def sides(precision, compile_too):
    """(name, further arguments of torch_worker.py) of each PyTorch side; the first is the reference."""
    numerics = [("", "fp32")] if precision == "fp32" else [("", "autocast_bf16"), (", all bf16", "pure_bf16")]
    for suffix, name in numerics:
        yield "eager" + suffix, ["--precision", name]
        if compile_too:
            yield "compiled" + suffix, ["--precision", name, "--compiled"]


def commands_of(options, model, precision, folder):
    """(name, command) of each side; the first is what the others are compared with."""
    def ours(of):
        return [options.step_worker, str(cases.write_case(model, of, folder)[1])]

    if cases.has_fp8(precision):
        return [(f"llmtrain, {of}", ours(of)) for of in (precision, "fp32", "bf16")]
    script = str(Path(__file__).with_name("torch_worker.py"))
    command = ours(precision)
    commands = [] if options.only_torch else [("llmtrain", command)]
    for name, arguments in sides(precision, not options.no_compile):
        commands.append((name, [sys.executable, script, command[-1], *arguments]))
    return commands


def start_workers(options, commands, folder):
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), TOKENIZERS_PARALLELISM="false",
                       TORCHINDUCTOR_CACHE_DIR=str(folder.parent / "llmtrain-bench-inductor"))
    for name, command in commands:
        worker = Worker(name, command, environment, folder / f"{name}.log")
        yield worker, worker.warm_up(WARM_UP_STEPS)


def warn(message):
    print(f"scripts/bench: warning: {message}", file=sys.stderr)


def warn_when_loaded():
    load = os.getloadavg()[0]
    if load > 0.5 * os.cpu_count():
        warn(f"the machine is busy (load {load:.2f} on {os.cpu_count()} cores): the figures will be inaccurate")
    return load


def busy_seconds():
    """Busy time of all cores since boot: everything except idle and I/O wait."""
    with open("/proc/stat", encoding="ascii") as file:
        times = [int(field) for field in file.readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")


def busy_cores_while_waiting(workers):
    """Cores in use while every side waits for its turn; a spinning thread pool of one side slows down the others."""
    before, total = [worker.cpu_seconds() for worker in workers], busy_seconds()
    time.sleep(1)
    busy = busy_seconds() - total
    for worker, seconds in zip(workers, before):
        if worker.cpu_seconds() - seconds > 0.1:
            warn(f"{worker.name} uses the processor while it waits")
    if busy > 0.25:
        warn(f"other processes keep {busy:.1f} of {os.cpu_count()} cores busy: the figures will be inaccurate")
    return busy


def take_turns(workers, steps, rounds):
    """Each runs its steps in each round, of which each begins with another one; then all end."""
    order = list(zip(workers, steps))
    for number in range(rounds):
        first = number % len(order)
        for worker, count in order[first:] + order[:first]:
            worker.run(count)
    for worker in workers:
        worker.close()


def run_case(name, options, folder):
    model, precision = name.rsplit("-", 1)
    recipe, _ = cases.write_case(model, precision, folder)
    workers, steps = [], []
    for worker, step_seconds in start_workers(options, commands_of(options, model, precision, folder), folder):
        workers.append(worker)
        steps.append(max(1, min(200, round(TURN_SECONDS / step_seconds))))
    busy = busy_cores_while_waiting(workers)
    take_turns(workers, steps, options.rounds)
    print_table(name, recipe, workers)
    found = list(fp8_ratios(workers)) if cases.has_fp8(precision) else []
    for ratio in found:
        print(ratio.line(), flush=True)
    return {"case": name, "recipe": recipe, "busy_cores_while_waiting": busy,
            "ratios": [dataclasses.asdict(ratio) for ratio in found],
            "sides": [{"side": worker.name, "median_seconds": worker.median(), "peak_bytes": worker.peak_bytes,
                       "tokens_per_second": cases.tokens_per_step(recipe) / worker.median(),
                       "seconds_by_round": worker.turns} for worker in workers]}


def fp8_ratios(workers):
    return ratios.fp8_ratios({worker.name.removeprefix("llmtrain, "): worker.turns for worker in workers},
                             cpuinfo("flags", "Features").split())


def print_table(name, recipe, workers):
    """Speed-up: how many times faster the first side is than this one; memory: its peak divided by this one's."""
    ours = workers[0]
    speed_up = ours.name + " speed-up"
    print(f"\n{name}: {cases.tokens_per_step(recipe)} tokens per step")
    print(f"  {'side':<20} {'tokens/s':>9} {'ms/step':>9} {'fastest':>9} {'steps':>6} {'peak MiB':>9} "
          f"{speed_up} {'memory':>7}")
    for worker in workers:
        median, fastest = worker.median(), min(worker.samples())
        ratio = "" if worker is ours else f"{median / ours.median():.2f}x"
        memory = "" if worker is ours else f"{ours.peak_bytes / worker.peak_bytes:.2f}x"
        print(f"  {worker.name:<20} {cases.tokens_per_step(recipe) / median:>9.0f} {median * 1e3:>9.1f} "
              f"{fastest * 1e3:>9.1f} {len(worker.samples()):>6} {worker.peak_bytes / 2**20:>9.0f} "
              f"{ratio:>{len(speed_up)}} {memory:>7}", flush=True)


def cpuinfo(*names):
    """What Linux says of the first processor under the first of these names that it has; empty: nothing."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith(names)), "")


def processor():
    return cpuinfo("model name") or "unknown"


def write_samples(options, **samples):
    """What a benchmark of models has measured, with what it measured, as JSON."""
    options.output.parent.mkdir(parents=True, exist_ok=True)
    measured = {"processor": processor(), "threads": options.threads, "model": options.model, **samples}
    options.output.write_text(json.dumps(measured), encoding="utf-8")


def case_parser(program, description, names, output):
    """What all benchmarks of cases ask for."""
    parser = argparse.ArgumentParser(prog=program, description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="CASE",
                        help=f"any of {', '.join(names)} (default: all)")
    parser.add_argument("--rounds", type=int, default=10, help="turns per side (default: 10)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per side (default: all cores)")
    parser.add_argument("--no-compile", action="store_true", help="skip torch.compile (it takes a minute per case)")
    parser.add_argument("--output", type=Path, default=cases.ROOT / "runs" / output,
                        help=f"every sample as JSON (default: runs/{output})")
    parser.add_argument("--step-worker", required=True, help=argparse.SUPPRESS)
    return parser


def parse_arguments():
    parser = case_parser("scripts/bench", __doc__, cases.NAMES, "bench.json")
    parser.add_argument("--only-torch", action="store_true", help="time only the PyTorch sides")
    return parser.parse_args()


def measure_cases(options, run_case):
    """Runs the cases, each in a folder of its own, and writes what run_case(name, options, folder) returns of them."""
    result = {"processor": processor(), "threads": options.threads, "rounds": options.rounds,
              "load_before": warn_when_loaded(), "cases": []}
    print(f"{result['processor']}, {options.threads} threads, {options.rounds} rounds, load {result['load_before']:.1f}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.cases:
        with tempfile.TemporaryDirectory(prefix="llmtrain-bench-") as folder:
            result["cases"].append(run_case(name, options, Path(folder)))
        options.output.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end; every sample: {options.output}")


def main():
    measure_cases(parse_arguments(), run_case)


if __name__ == "__main__":
    main()
