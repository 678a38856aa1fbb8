# SPDX-License-Identifier: Apache-2.0
"""The shapes whose training is timed, as recipes that all sides read."""
import json
import random
from array import array

SEQUENCE = 1024
DELAYED = {"fp8_scaling": {"method": "delayed"}}


def qwen(layers, hidden, heads, kv_heads, ffn, vocabulary, tied):
    return {"architecture": "llama", "layers": layers, "hidden_size": hidden, "heads": heads, "kv_heads": kv_heads,
            "ffn_hidden_size": ffn, "vocab_size": vocabulary, "max_sequence_length": SEQUENCE,
            "tie_embeddings": tied, "qkv_bias": True}


MODELS = {
    "124M": {"architecture": "gpt2", "layers": 12, "hidden_size": 768, "heads": 12, "vocab_size": 50304,
             "max_sequence_length": SEQUENCE},
    "0.5B": qwen(24, 896, 14, 2, 4864, 151936, True),
    "1.5B": qwen(28, 1536, 12, 2, 8960, 151936, True),
    "7B": qwen(28, 3584, 28, 4, 18944, 152064, False),
}
# For trying the command on a processor, which proves nothing.
REHEARSAL = {"tiny": {"architecture": "gpt2", "layers": 2, "hidden_size": 64, "heads": 2, "vocab_size": 256,
                      "max_sequence_length": 64}}
# Sequences of a micro-batch, at most, as llmq's benchmarks have them, and of a step, of which theirs have 512.
MICRO = {"124M": 32, "0.5B": 32, "1.5B": 16, "7B": 4, "tiny": 4}
SEQUENCES = {"124M": 32, "0.5B": 64, "1.5B": 64, "7B": 64, "tiny": 4}
# A 7B model has its weights and states on one GPU only where they are scaled FP8 and bf16.
PRECISIONS = {name: {"bf16": {"compute": "bf16"},
                     "fp8": {"compute": "bf16", "fp8_level": "O2" if name == "7B" else "O0", **DELAYED}}
              for name in SEQUENCES}


def parameters(model):
    hidden, ffn = model["hidden_size"], model.get("ffn_hidden_size", 4 * model["hidden_size"])
    heads = hidden * hidden * 2 + 2 * hidden * hidden * model.get("kv_heads", model["heads"]) // model["heads"]
    layer = heads + (3 if model["architecture"] == "llama" else 2) * hidden * ffn
    tables = 2 if model.get("tie_embeddings") is False else 1
    return model["layers"] * layer + tables * model["vocab_size"] * hidden


def state_bytes(model):
    """fp32 weights, gradients and both moments, which PyTorch's autocast keeps."""
    return 16 * parameters(model)


def torch_bytes(model, micro):
    """About what PyTorch eager's allocator takes under autocast: the states, bf16 copies of the weights, the logits'
    copies, what layers save, and gaps. On an H200 32 sequences took 120 GiB with 0.5B, of which 95 GiB were tensors,
    and 36 GiB with 124M."""
    per_token = 17 * model["vocab_size"] + 50 * model["layers"] * model["hidden_size"]
    return 18 * parameters(model) + micro * model["max_sequence_length"] * per_token


def micro_batch(name, memory):
    """The largest with which PyTorch eager should fit, so that all sides train the same; where none does, the largest."""
    model, most = {**MODELS, **REHEARSAL}[name], MICRO[name]
    sizes = [size for size in range(1, most + 1) if SEQUENCES[name] % size == 0]
    return max((size for size in sizes if torch_bytes(model, size) <= 0.9 * memory), default=most)


def write_tokens(folder, vocabulary):
    """Random tokens of the vocabulary, in the width that data files of its size have."""
    path = folder / f"tokens-{vocabulary}.bin"
    if not path.exists():
        generator = random.Random(0)
        with path.open("wb") as file:
            array("I" if vocabulary > 65536 else "H", generator.choices(range(vocabulary), k=300_000)).tofile(file)
    return path


def write_recipe(folder, name, precision, micro, device, graphs=False):
    """Writes the recipe of a shape in a precision, whose passes are CUDA graphs with `graphs`; returns (recipe, path)."""
    model, sequences = {**MODELS, **REHEARSAL}[name], SEQUENCES[name]
    recipe = {"name": f"{name}-{precision}", "model": model, "batch": {"global": sequences, "micro": micro},
              "data": {"train": [{"path": str(write_tokens(folder, model["vocab_size"]))}], "shuffle": False},
              "training": {"steps": 100_000, "learning_rate": {"schedule": "constant", "peak": 3e-4}},
              "precision": PRECISIONS[name][precision], "cluster": {"device": device}, "log": {"tensorboard": False}}
    if graphs:
        recipe["name"] += "-graphs"
        recipe["kernels"] = {"cuda_graphs": True}
    path = folder / f"{recipe['name']}.json"
    path.write_text(json.dumps(recipe, indent=1), encoding="utf-8")
    return recipe, path


def tokens_per_step(recipe):
    return recipe["batch"]["global"] * recipe["model"]["max_sequence_length"]
