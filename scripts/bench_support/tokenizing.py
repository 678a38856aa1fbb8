# SPDX-License-Identifier: Apache-2.0
"""Times `llmtrain data tokenize` against the tokenizers package on one thread, on the same documents with the same
tokenizer.json, in turns.

Of llmtrain the processor time of the whole command counts, with reading, parsing JSON Lines and writing the token file;
of tokenizers that of encode_batch_fast() alone, on texts in memory. Processor time and not the clock's, so that other
work on the machine weighs less. The documents are the repository's own texts, or the JSON Lines that --texts names; the
tokenizers are trained on a part of them.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import processor, warn_when_loaded

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import byte_level_bpe  # noqa: E402
import tokenizer_kinds  # noqa: E402

PATTERNS = {"GPT-2": None, "Llama 3": byte_level_bpe.LLAMA3, "Qwen": byte_level_bpe.QWEN2}
KINDS = {"BERT": tokenizer_kinds.bert, "Llama 2": tokenizer_kinds.llama2, "Gemma": tokenizer_kinds.gemma,
         "XLM-R": tokenizer_kinds.xlm_roberta}


def repository_texts():
    """Paragraphs of about two kilobytes."""
    texts = []
    for folder, pattern in (("docs", "*.md"), ("core", "**/*.*"), ("parallel", "**/*.*"), ("tests", "**/*.*p*")):
        for path in sorted((ROOT / folder).glob(pattern)):
            if path.suffix in (".md", ".h", ".cpp", ".py"):
                text = path.read_text(encoding="utf-8")
                texts += [text[start:start + 2000] for start in range(0, len(text), 2000)]
    return texts


def seconds_of_ours(options, lines, tokenizer, folder):
    """Processor seconds of one command, from the kernel's account of it."""
    command = [options.program, "data", "tokenize", str(lines), "--tokenizer", str(tokenizer), "--threads", "1",
               "--output", str(folder / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    for ending in (".bin", ".idx"):
        (folder / f"out{ending}").unlink()
    return usage.ru_utime + usage.ru_stime


def seconds_of_theirs(tokenizer, texts):
    start = time.process_time()
    tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return time.process_time() - start


def measure(options, texts, folder):
    lines = folder / "texts.jsonl"
    lines.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), encoding="utf-8")
    trained = {name: byte_level_bpe.train(texts[::4], pattern, 8192) for name, pattern in PATTERNS.items()}
    trained |= {name: make(texts[::4]) for name, make in KINDS.items()}
    rounds = {"bytes": [], **{name: [] for name in trained}}
    for name, tokenizer in trained.items():
        tokenizer.save(str(folder / f"{name}.json"))
    for _ in range(options.rounds):
        rounds["bytes"].append((seconds_of_ours(options, lines, "bytes", folder), None))
        for name, tokenizer in trained.items():
            rounds[name].append((seconds_of_ours(options, lines, folder / f"{name}.json", folder),
                                 seconds_of_theirs(tokenizer, texts)))
    return rounds


def print_table(rounds, megabytes):
    print(f"  {'tokenizer':<10} {'llmtrain MB/s':>14} {'tokenizers MB/s':>16} {'ratio':>7}")
    for name, times in rounds.items():
        ours = statistics.median(mine for mine, _ in times)
        row = f"  {name:<10} {megabytes / ours:>14.1f}"
        if times[0][1] is not None:
            theirs = statistics.median(other for _, other in times)
            row += f" {megabytes / theirs:>16.1f} {theirs / ours:>6.2f}x"
        print(row)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/benchmarks/bench_tokenizing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of each side and tokenizer (default: 5)")
    parser.add_argument("--texts", type=Path, help="JSON Lines with \"text\" (default: the repository's texts)")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    warn_when_loaded()
    texts = repository_texts()
    if options.texts:
        texts = [json.loads(line)["text"] for line in options.texts.read_text(encoding="utf-8").splitlines()]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{processor()}, one thread, {options.rounds} rounds, {len(texts)} documents of {megabytes:.1f} MB")
    with tempfile.TemporaryDirectory(prefix="llmtrain-bench-") as folder:
        print_table(measure(options, texts, Path(folder)), megabytes)


if __name__ == "__main__":
    main()
