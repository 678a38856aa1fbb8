# SPDX-License-Identifier: Apache-2.0
"""Plans: of the recipes that come with the program, of sweeps and searches, and of random layouts."""
import json
import pathlib
import random

import layouts
from builds import Case, settings

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
# Searches take seconds, the others milliseconds.
SEARCHED = ("gpt2", "llama3-8b", "qwen3-30b-a3b", "fp8-lm-7b")
SWEPT = {"parallel.zero_stage": "0,1,2,3", "memory.recompute": '"none","full"'}
MOST = {"tensor": 8, "pipeline": 8, "context": 4}
MODELS = {
    "dense": ({"architecture": "gpt2", "layers": 24, "hidden_size": 2048, "heads": 16, "vocab_size": 50257,
               "max_sequence_length": 2048},
              {"architecture": "llama", "layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 8,
               "ffn_hidden_size": 14336, "vocab_size": 128256, "max_sequence_length": 8192},
              {"architecture": "llama", "layers": 16, "hidden_size": 2048, "heads": 16, "vocab_size": 32000,
               "max_sequence_length": 4096, "lora": {"rank": 16}}),
    "experts": ({"architecture": "llama", "layers": 32, "hidden_size": 2048, "heads": 32, "kv_heads": 8, "vocab_size": 32000,
                 "max_sequence_length": 4096, "moe": {"experts": 64, "top_k": 6, "ffn_hidden_size": 1408,
                                                      "shared_experts": 2, "capacity_factor": 0}},
                {"architecture": "gpt2", "layers": 24, "hidden_size": 1024, "heads": 16, "vocab_size": 50304,
                 "max_sequence_length": 1024, "moe": {"experts": 16, "top_k": 2, "every": 2, "capacity_factor": 1.25}}),
    "FP8": ({"architecture": "gpt-rope", "layers": 32, "hidden_size": 4096, "heads": 32, "vocab_size": 50304,
             "max_sequence_length": 2048},
            {"architecture": "llama", "layers": 24, "hidden_size": 2048, "heads": 32, "kv_heads": 8, "vocab_size": 32000,
             "max_sequence_length": 4096, "moe": {"experts": 16, "top_k": 2, "ffn_hidden_size": 2816}}),
}
PROFILES = ("a100-80gb", "h100-sxm-80gb", "b200", "v100-32gb", "cpu")


def plan(*flags):
    return ["plan", "recipe.json", *flags, "--json"]


def bundled():
    """A plan, a timeline and a sweep for each recipe, and for some a search."""
    for path in sorted([*RECIPES.glob("*.json"), *RECIPES.glob("models/*.json"), *RECIPES.glob("papers/*.json")]):
        recipe = json.loads(path.read_text(encoding="utf-8"))
        # Sources of data lie elsewhere in each checkout; this machine's own profile changes with its memory.
        recipe.pop("data", None)
        recipe.setdefault("cluster", {}).setdefault("profile", "cpu")
        files = {"recipe.json": recipe}
        sweep = [word for key, values in SWEPT.items() for word in ("--sweep", f"{key}={values}")]
        yield Case(f"plan-{path.stem}", files, [plan(), plan("--trace", "timeline.json"), plan(*sweep)])
        if path.stem in SEARCHED:
            yield Case(f"search-{path.stem}", files, [plan("--search", "--output", "best.json")])


def random_recipe(draw, kind):
    model = draw.choice(MODELS[kind])
    profile = "h100-sxm-80gb" if kind == "FP8" else draw.choice(PROFILES)
    ranks = draw.choice((1, 2, 4, 8, 16, 32, 64, 128))
    keys = layouts.random_layout(draw, kind, model["layers"], ranks, MOST)
    keys["batch.micro"] = draw.choice((1, 1, 2, 4))
    for offloaded in ("optimizer", "weights", "activations"):
        if profile != "cpu" and draw.random() < 0.1:
            keys[f"memory.offload.{offloaded}"] = True
    recipe = {"name": "random", "model": model, "batch": {"global": 512, "micro": 1}, "training": {"steps": 1000},
              "cluster": {"profile": profile, "device": "cpu" if profile == "cpu" else "cuda"}}
    recipe["cluster"].update({"nodes": max(1, ranks // 8), "devices_per_node": min(ranks, 8)})
    return recipe, keys


def random_plan(seed, number):
    draw = random.Random(f"{seed} plan {number}")
    recipe, keys = random_recipe(draw, layouts.KINDS[number % len(layouts.KINDS)])
    flags = settings(keys)
    return Case(f"plan-{number}", {"recipe.json": recipe}, [plan(*flags), plan("--trace", "timeline.json", *flags)],
                number=number)
