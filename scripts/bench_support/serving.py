# SPDX-License-Identifier: Apache-2.0
"""Times how long "llmtrain serve" and llama.cpp's server take to answer /v1/completions on this machine's CPU.

Both have the same weights (a checkpoint, exported for transformers and converted by llama.cpp's own script), precision
of weights, keys and values, and number of threads. They get the same prompts of token ids, as many at once as asked
for, each over a connection of its own, choose the likeliest tokens, and take turns, so that both see the same state of
the machine. No prompt begins like another, so that nobody has read it before. A time is that from the first request to
the last answer. Tokens that differ are counted: sums in another order decide between logits that are all but equal.
"""
import argparse
import concurrent.futures
import json
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from array import array
from pathlib import Path

import cases
import llama_cpp
from bench import processor, warn_when_loaded, write_samples

MODELS = {"quickstart": "quickstart", "gpt2": "gpt2-4x64"}
IDS = 250  # that prompts are made of: bytes, with which the model is trained


def make_model(options, folder):
    """A run of the model over this repository's documentation, byte by byte, and its export."""
    recipe, path = cases.write_case(MODELS[options.model], options.precision, folder)
    text = b"".join(file.read_bytes() for file in sorted((cases.ROOT / "docs").glob("*.md")))
    with (folder / "docs.bin").open("wb") as file:
        array("H", list(text)).tofile(file)
    recipe["model"]["max_sequence_length"] = max(options.prompt + options.tokens, 64)
    recipe.update(data={"train": [{"path": str(folder / "docs.bin")}]}, log={"directory": str(folder / "run")},
                  batch={"global": 4, "micro": 4, "sequence_length": 64}, cluster={"device": "cpu"})
    recipe["training"]["steps"] = options.steps
    path.write_text(json.dumps(recipe), encoding="utf-8")
    for arguments in (["run", path, "-q"], ["checkpoint", "export", folder / "run", folder / "hf", "--to", "hf"]):
        subprocess.run([options.program, *map(str, arguments)], check=True)
    return recipe


class Server:
    def __init__(self, name, command, log, environment, port):
        self.name = name
        self._address = f"http://127.0.0.1:{port}"
        self._log = log
        self._process = subprocess.Popen(list(map(str, command)), stdout=log.open("w"), stderr=subprocess.STDOUT,
                                         env=environment)

    def wait(self):
        for _ in range(600):
            if self._process.poll() is not None:
                raise SystemExit(f"scripts/bench: {self.name} ended with {self._process.returncode}; its messages: "
                                 + self._log.read_text(encoding="utf-8", errors="replace")[-2000:])
            try:
                with urllib.request.urlopen(self._address + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"scripts/bench: {self.name} does not answer; its messages: {self._log}")

    def complete(self, prompt, tokens):
        """The ids of an answer."""
        fields = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, **self.fields}
        request = urllib.request.Request(self._address + "/v1/completions", json.dumps(fields).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            ids = self.ids_of(json.load(answer))
        if len(ids) != tokens:
            raise SystemExit(f"scripts/bench: {self.name} answered with {len(ids)} tokens in place of {tokens}")
        return ids

    def end(self):
        self._process.terminate()
        self._process.wait()


class Llmtrain(Server):
    fields = {"return_token_ids": True}

    def ids_of(self, answer):
        return answer["choices"][0]["token_ids"]


class LlamaCpp(Server):
    fields = {"verbose": True, "return_tokens": True, "cache_prompt": False}

    def ids_of(self, answer):
        return answer["__verbose"]["tokens"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(options, folder):
    recipe = make_model(options, folder)
    llama_cpp.write_tokenizer(folder / "hf", recipe["model"]["vocab_size"])
    gguf = folder / "model.gguf"
    subprocess.run(llama_cpp.conversion(options.llama_source, folder / "hf", gguf, options.precision), check=True,
                   stdout=subprocess.DEVNULL, stderr=(folder / "conversion.log").open("w"))
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    ports = free_port(), free_port()
    ours = [options.program, "serve", folder / "run", "--port", ports[0], "--set", "data.tokenizer=bytes", "--batch",
            max(options.texts)]
    yield Llmtrain("llmtrain", ours, folder / "llmtrain.log", environment, ports[0])
    yield LlamaCpp("llama.cpp", llama_cpp.server(options.llama_server, gguf, options, ports[1]),
                   folder / "llama.cpp.log", environment, ports[1])


def prompts_of(options, generator, count):
    firsts = generator.sample(range(IDS), count)
    return [[first, *(generator.randrange(IDS) for _ in range(options.prompt - 1))] for first in firsts]


def answer(server, prompts, tokens):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        begin = time.perf_counter()
        ids = list(pool.map(lambda prompt: server.complete(prompt, tokens), prompts))
        return time.perf_counter() - begin, ids


def measure(options, servers):
    """{texts: {side: [seconds of a round]}} and how many of all answers, and tokens up to the first that differs."""
    generator = random.Random(0)
    seconds = {texts: {server.name: [] for server in servers} for texts in options.texts}
    counts = {"answers": 0, "equal answers": 0, "tokens": 0, "equal tokens": 0}
    for number in range(-1, options.rounds):  # the first is not counted
        for texts in options.texts:
            prompts, ids = prompts_of(options, generator, texts), {}
            for server in servers[number % 2:] + servers[:number % 2]:
                taken, ids[server.name] = answer(server, prompts, options.tokens)
                if number >= 0:
                    seconds[texts][server.name].append(taken)
            for ours, theirs in zip(*ids.values()):
                same = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), len(ours))
                counts["answers"] += 1
                counts["equal answers"] += same == len(ours)
                counts["tokens"] += len(ours)
                counts["equal tokens"] += same
    return seconds, counts


def print_table(options, seconds, counts):
    print(f"  {'texts':>5} {'llmtrain tokens/s':>18} {'llama.cpp tokens/s':>19} {'ratio':>7}")
    for texts, sides in seconds.items():
        ours, theirs = (statistics.median(side) for side in sides.values())
        print(f"  {texts:>5} {texts * options.tokens / ours:>18.1f} {texts * options.tokens / theirs:>19.1f} "
              f"{theirs / ours:>6.2f}x")
    print(f"  {counts['equal answers']} of {counts['answers']} answers are equal, and {counts['equal tokens']} of "
          f"{counts['tokens']} tokens before the first that differs")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/benchmarks/bench_serving", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", type=Path, required=True, help="llama.cpp's program llama-server")
    parser.add_argument("--llama-source", type=Path, required=True,
                        help="folder of llama.cpp's sources, which have convert_hf_to_gguf.py")
    parser.add_argument("--model", choices=MODELS, default="quickstart",
                        help="gpt2 has 124 million parameters, more than caches hold (default: quickstart)")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=20, help="of training before (default: 20)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each side (default: 6)")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of a prompt (default: 64)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer (default: 64)")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 16], help="requests at once (default: 1 16)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per side (default: all cores)")
    parser.add_argument("--output", type=Path, default=cases.ROOT / "runs" / "bench_serving.json",
                        help="every sample as JSON (default: runs/bench_serving.json)")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    load = warn_when_loaded()
    print(f"{processor()}, {options.threads} threads, {options.rounds} rounds, {options.precision}, {options.model}, "
          f"{options.prompt} + {options.tokens} tokens, load {load:.1f}")
    with tempfile.TemporaryDirectory(prefix="llmtrain-bench-") as folder:
        servers = list(start(options, Path(folder)))
        try:
            for server in servers:
                server.wait()
            seconds, counts = measure(options, servers)
        finally:
            for server in servers:
                server.end()
    print_table(options, seconds, counts)
    write_samples(options, load_before=load, seconds=seconds, counts=counts)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end; every sample: {options.output}")


if __name__ == "__main__":
    main()
