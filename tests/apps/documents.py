# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md and docs, and what a reader has who types them: texts, and recipes of tiny models, so that
training takes no time."""
import json
import os
import re
import struct
import subprocess
import zlib

# Commands that belong to other tests, by their first word or words.
ELSEWHERE = {
    "scripts/quickstart": "it is this build", "scripts/test": "it runs this test", "scripts/setup": "it is this build",
    "cmake --install": "install_test", "/opt/llmtrain/bin/llmtrain": "install_test",
    "cd build && cpack": "install_test", "apt-get install": "it needs an empty machine",
    "podman": "it needs podman", "apptainer": "it needs apptainer", "source <(llmtrain completion": "shell_test",
    "llmtrain serve": "serve_test", "curl": "serve_test", "llmtrain eval runs/mine --rollouts": "routed_experts_test",
    "sbatch": "it needs Slurm", "srun": "it needs Slurm", "hf download": "it needs the network",
    "mpirun --hostfile": "it needs other machines", "scripts/benchmarks/bench_serving": "it needs llama.cpp",
}
# Commands that start many processes or measure this machine for minutes.
SLOW = ("calibrate", "mpirun -n 16", "--ranks 8", "--ranks 4  ")

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40
TINY = {"architecture": "llama", "layers": 4, "hidden_size": 16, "heads": 8, "vocab_size": 256,
        "max_sequence_length": 32}


def commands(text):
    """Those of a document's sh blocks and of its indented blocks, in order: without comments, and one per line."""
    blocks = re.findall(r"^```sh\n(.*?)^```|((?:^    [a-z][^\n]*\n)+)", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for fenced, indented in blocks for line in (fenced or indented).splitlines()]
    return [re.sub(r"\s+# .*", "", line) + ("  " if "# starts" in line else "") for line in lines if line]


def documents(root):
    """By their paths in the tree `root`, in the order of a reader: README.md first."""
    return ["README.md", *(f"docs/{path.name}" for path in sorted((root / "docs").glob("*.md")))]


def elsewhere(command):
    """Why a command is not run here; None where it is."""
    return next((reason for word, reason in ELSEWHERE.items() if command.startswith(word)), None)


def slow(command):
    return any(word in command for word in SLOW)


def recipe(name, **sections):
    data = {key: [{"path": "book.txt"}] for key in ("train", "validation")}
    batch, training = {"global": 2, "micro": 2}, {"steps": 4}
    return {"name": name, "model": TINY, "data": data, "batch": batch, "training": training, **sections}


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def run(command, folder, **variables):
    """As a person's shell runs it in `folder`, whose build/ is in the path."""
    path = f"{folder / 'build'}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8",
                   # More ranks than cores, and root in a container.
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def png(width, pixels):
    """A PNG file of pixels, each of red, green and blue, with `width` in a row."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = [pixels[i:i + width] for i in range(0, len(pixels), width)]
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    data = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def bring(folder):
    """What is a reader's own in every document."""
    for name in ("book.txt", "held-out.txt", "other.txt", "books/a.txt"):
        write(folder, name, TEXT)
    write(folder, "recipe.json", recipe("recipe", batch={"global": 16, "micro": 1}))
    write(folder, "other.json", recipe("other", batch={"global": 8, "micro": 2}))


def bring_base_model(folder):
    """A model in a folder of transformers, and conversations."""
    model = {**TINY, "vocab_size": 300, "max_sequence_length": 128}
    tokenizer = {"tokenizer": {"huggingface": "tokenizer.json"}, "train": [{"path": "book.txt"}]}
    write(folder, "base.run.json", recipe("base", model=model, data=tokenizer))
    write(folder, "chats.jsonl", json.dumps({"instruction": "Name the opposite.", "output": "warm"}) + "\n")
    write(folder, "held-out.jsonl", json.dumps({"prompt": "A token is", "completion": " a piece."}) + "\n")
    chat = {"model": {"from": "hf:base"}, "batch": {"global": 2, "micro": 2}, "training": {"steps": 4}, "name": "chat",
            "data": {"train": [{"path": "chats.jsonl"}], "fine_tuning": {}}}
    write(folder, "chat.json", chat)
    return ["llmtrain data train-tokenizer book.txt --output tokenizer.json --vocab-size 300",
            "llmtrain run base.run.json", "llmtrain checkpoint export runs/base base --to hf"]


def bring_for(document, folder):
    """What one document speaks of beyond that. Returns the commands whose runs it has."""
    if document == "README.md":
        write(folder, "my-first.json", recipe("my-first", training={"steps": 510}))
        return ["build/llmtrain run recipes/quickstart.json"]
    if document == "docs/chat-model.md":
        return bring_base_model(folder)
    if document != "docs/command-line.md":
        return []
    write(folder, "prompts.txt", "The \n")
    write(folder, "photos/cat/a.png", png(1, [(255, 128, 0)]))
    write(folder, "questions.jsonl", json.dumps({"context": "a", "choices": ["b", "c"], "answer": 0}) + "\n")
    write(folder, "rollouts.jsonl", json.dumps({"prompt_token_ids": [1], "token_ids": [2, 3]}) + "\n")
    write(folder, "corpus/a.jsonl", json.dumps({"text": "abc"}) + "\n")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    write(folder, "chats.jsonl", json.dumps({"messages": turns}) + "\n")
    runs = {"other": {"training": {"steps": 100}}, "first": {"training": {"steps": 2}},
            "second": {"training": {"steps": 2}},
            "mine": {"data": {"train": [{"path": "chats.jsonl"}], "fine_tuning": {}},
                     "model": {**TINY, "max_sequence_length": 128}}}
    for name, sections in runs.items():
        write(folder, f"{name}.run.json", recipe(name, **sections))
    return [*(f"llmtrain run {name}.run.json" for name in runs), "zstd -q --rm corpus/a.jsonl"]
