# SPDX-License-Identifier: Apache-2.0
"""Times each token that llmtrain and transformers' generate() write on this machine's CPU, after prompts of several
lengths. With --against int8 or fp8 the other side is llmtrain with keys and values in these types, with "lookup" and "wrong" llmtrain
that guesses four tokens at once: what followed the same tokens before, which texts of hardly trained models repeat
without end, and at random.

Both sides have the same weights (llmtrain's checkpoint, exported for transformers), precision and number of threads, and
take turns of one batch of texts per length, so that both see the same state of the machine. A token's time is the median
of those between two tokens, or against guesses, which come several at a time, their mean, by the number of texts that grow
at once; the first one, which includes the prompts, is listed apart.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cases
from bench import busy_cores_while_waiting, processor, warn_when_loaded, write_samples
from worker import Worker

PROMPTS = [64, 128, 256, 512, 1024]
ROUNDED = ("int8", "fp8")
GUESSES = ("lookup", "wrong")
MODELS = {"quickstart": "quickstart", "gpt2": "gpt2-4x64"}


def make_model(options, folder):
    """A checkpoint of the model after one step, but for texts long enough, and its export."""
    recipe, path = cases.write_case(MODELS[options.model], options.precision, folder)
    recipe["model"]["max_sequence_length"] = max(options.prompts) + options.tokens
    recipe.update(batch={"global": 1, "micro": 1, "sequence_length": 64}, log={"directory": str(folder / "run")},
                  training={"steps": 1}, cluster={"device": "cpu"})
    path.write_text(json.dumps(recipe), encoding="utf-8")
    for arguments in (["run", path, "-q"], ["checkpoint", "export", folder / "run", folder / "hf", "--to", "hf"]):
        subprocess.run([options.program, *map(str, arguments)], check=True)
    return next((folder / "run" / "checkpoints").glob("step-*")), folder / "hf"


def start(options, folder):
    checkpoint, export = make_model(options, folder)
    dtype = "float32" if options.precision == "fp32" else "bfloat16"
    script = str(Path(__file__).with_name("transformers_worker.py"))
    others = {"transformers": [sys.executable, script, str(export), dtype],
              **{mode: [options.sample_worker, str(checkpoint), mode] for mode in (*ROUNDED, *GUESSES)}}
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), TOKENIZERS_PARALLELISM="false",
                       HF_HUB_OFFLINE="1")
    for name, command in (("llmtrain", [options.sample_worker, str(checkpoint)]),
                          (options.against, others[options.against])):
        yield Worker(name, command, environment, folder / f"{name}.log")


def measure(options, workers):
    """{side: {prefix: [answers]}} of the rounds; the turns begin with another side in each."""
    answers = {worker.name: {prefix: [] for prefix in options.prompts} for worker in workers}
    for worker in workers:
        for prefix in options.prompts:
            worker.ask(f"run {prefix} 4 {options.batch}")
    for number in range(options.rounds):
        for prefix in options.prompts:
            for worker in workers[number % 2:] + workers[:number % 2]:
                answers[worker.name][prefix].append(worker.ask(f"run {prefix} {options.tokens} {options.batch}"))
    return answers


def seconds_per_token(answers, batch, is_guessed):
    if is_guessed:
        return statistics.median(sum(answer["seconds"]) / len(answer["seconds"]) for answer in answers) / batch
    return statistics.median(seconds for answer in answers for seconds in answer["seconds"]) / batch


def print_table(answers, batch, other, prompts):
    print(f"  {'prompt':>6} {'llmtrain ms/token':>18} {f'{other} ms/token':>22} {'ratio':>7} {'first token ms':>15} "
          f"{other:>13}")
    for prefix in prompts:
        ours, theirs = answers["llmtrain"][prefix], answers[other][prefix]
        first = [statistics.median(answer["first"] for answer in side) * 1e3 for side in (ours, theirs)]
        per_token = [seconds_per_token(side, batch, other in GUESSES) for side in (ours, theirs)]
        print(f"  {prefix:>6} {per_token[0] * 1e3:>18.3f} {per_token[1] * 1e3:>22.3f} {per_token[1] / per_token[0]:>6.2f}x "
              f"{first[0]:>15.2f} {first[1]:>13.2f}")
    if other in GUESSES:
        all_of = [answer for side in answers[other].values() for answer in side]
        drafted, accepted = (sum(answer[key] for answer in all_of) for key in ("drafted", "accepted"))
        print(f"  {accepted} of {drafted} guesses were right")
    for name, by_prefix in answers.items():
        growth = (seconds_per_token(by_prefix[prompts[-1]], batch, other in GUESSES)
                  / seconds_per_token(by_prefix[prompts[0]], batch, other in GUESSES))
        print(f"  {name}: a token after {prompts[-1]} takes {growth:.2f} times that after {prompts[0]}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/benchmarks/bench_sampling", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="quickstart",
                        help="gpt2 has 124 million parameters, more than caches hold (default: quickstart)")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--against", choices=["transformers", *ROUNDED, *GUESSES], default="transformers",
                        help="the other side (default: transformers)")
    parser.add_argument("--rounds", type=int, default=10, help="texts per side and length (default: 10)")
    parser.add_argument("--prompts", type=int, nargs="+", default=PROMPTS, help="tokens of prompts, ascending")
    parser.add_argument("--tokens", type=int, default=33, help="tokens of each text (default: 33)")
    parser.add_argument("--batch", type=int, default=1, help="texts that grow at once (default: 1)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per side (default: all cores)")
    parser.add_argument("--output", type=Path, default=cases.ROOT / "runs" / "bench_sampling.json",
                        help="every sample as JSON (default: runs/bench_sampling.json)")
    parser.add_argument("--sample-worker", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    load = warn_when_loaded()
    print(f"{processor()}, {options.threads} threads, {options.rounds} rounds, {options.precision}, "
          f"{options.model}, {options.batch} texts at once")
    with tempfile.TemporaryDirectory(prefix="llmtrain-bench-") as folder:
        workers = list(start(options, Path(folder)))
        busy = busy_cores_while_waiting(workers)
        answers = measure(options, workers)
    print_table(answers, options.batch, options.against, options.prompts)
    write_samples(options, batch=options.batch, load_before=load, busy_cores_while_waiting=busy, answers=answers)
    print(f"\nevery sample: {options.output}")


if __name__ == "__main__":
    main()
