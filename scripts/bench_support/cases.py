# SPDX-License-Identifier: Apache-2.0
"""The cases of the benchmark: each is one recipe, which every side reads."""
import json
import random
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPT2 = {"architecture": "gpt2", "layers": 12, "hidden_size": 768, "heads": 12, "vocab_size": 50257,
        "max_sequence_length": 1024}
PRECISIONS = {"fp32": {"compute": "fp32"}, "bf16": {"compute": "bf16"},
              **{name: {"compute": "bf16", "fp8_level": level}
                 for name, level in (("fp8", "O0"), ("fp8_O1", "O1"), ("fp8_O2", "O2"), ("fp8_O3", "O3"))}}
NAMES = [f"{model}-{precision}" for model in ("gpt2-4x64", "gpt2-4x256", "quickstart")
         for precision in (PRECISIONS if model == "gpt2-4x64" else ("fp32", "bf16", "fp8"))]


def _gpt2(sequence_length):
    return {"model": dict(GPT2), "batch": {"global": 4, "micro": 4, "sequence_length": sequence_length}}


def _quickstart():
    with open(ROOT / "recipes" / "quickstart.json", encoding="utf-8") as file:
        recipe = json.load(file)
    if recipe["model"].get("dropout", 0) != 0:
        raise SystemExit("scripts/bench: the quickstart model uses dropout, which the PyTorch side does not implement")
    return {key: recipe[key] for key in ("model", "batch", "memory", "pipeline") if key in recipe}


def _write_tokens(path, vocab_size):
    generator = random.Random(0)
    with path.open("wb") as file:
        array("H", (generator.randrange(vocab_size) for _ in range(300_000))).tofile(file)


def has_fp8(precision):
    return "fp8_level" in PRECISIONS[precision]


def write_recipe(name, recipe, precision, folder):
    """Completes a recipe of a model and a batch, and writes it and its random tokens into `folder`; returns its path."""
    tokens = folder / f"{name}.bin"
    _write_tokens(tokens, recipe["model"]["vocab_size"])
    recipe.update(
        name=name,
        data={"train": [{"path": str(tokens)}], "shuffle": False},
        training={"steps": 1_000_000, "learning_rate": {"schedule": "constant", "peak": 3e-4}},
        precision=PRECISIONS[precision],
    )
    path = folder / f"{name}.json"
    path.write_text(json.dumps(recipe, indent=1), encoding="utf-8")
    return path


def write_case(model, precision, folder):
    """Writes the case's recipe and its random tokens into `folder`; returns (recipe, path of the recipe)."""
    recipe = _quickstart() if model == "quickstart" else _gpt2(int(model.split("x")[1]))
    return recipe, write_recipe(f"{model}-{precision}", recipe, precision, folder)


def tokens_per_step(recipe):
    return recipe["batch"]["global"] * recipe["batch"].get("sequence_length", recipe["model"]["max_sequence_length"])
