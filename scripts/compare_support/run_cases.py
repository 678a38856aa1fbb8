# SPDX-License-Identifier: Apache-2.0
"""Runs of some steps of small models: what recipes can ask for, on CPUs and on emulated GPUs, and random layouts."""
import json
import random

import layouts
from builds import EMULATED, PROGRAM, Case, settings

STEPS = 3
MOST = {"tensor": 4, "pipeline": 4, "context": 4}
GPT2 = {"architecture": "gpt2", "layers": 4, "hidden_size": 32, "heads": 4, "vocab_size": 257, "max_sequence_length": 16}
LLAMA = {"architecture": "llama", "layers": 4, "hidden_size": 32, "heads": 4, "kv_heads": 4, "ffn_hidden_size": 48,
         "vocab_size": 258, "max_sequence_length": 16}
GROUPED = {**LLAMA, "kv_heads": 2}
DROPLESS = {**LLAMA, "moe": {"experts": 8, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 24, "z_coefficient": 0.001}}
DROPPING = {**GPT2, "moe": {"experts": 4, "top_k": 2, "capacity_factor": 1.0, "every": 2, "ffn_hidden_size": 40,
                            "shared_experts": 1, "priority": "score"}}
IN_FP8 = {**GROUPED, "ffn_hidden_size": 64}
MODELS = {"dense": (GPT2, LLAMA, GROUPED), "experts": (DROPLESS, DROPPING), "FP8": (IN_FP8, GPT2)}

MUON = {"training.optimizer.name": "muon"}
EXPERTS = {"model": DROPPING}
FINE_TUNING = {"data": {"train": [{"path": "chat.jsonl"}], "fine_tuning": {}}, "model.max_sequence_length": 64}
DOCUMENTS = {"data.document_mask": {"end_of_text": 10}}
LORA = {"model.lora": {"rank": 4}}
# It is not run where ranks share a sequence.
DROPPED = {"training.token_dropping": {"start": 8, "multiple": 4, "steps": 3}, "parallel.sequence": False}
TOGETHER = {"launch.ranks": 4, "parallel.tensor": 2, "parallel.pipeline": 2, "pipeline.loops": 2}

# What is trained, by the keys that differ from the recipe below: in each layout on CPUs, and in one on emulated GPUs, whose
# runs take longer.
TRAINED = {
    "gpt2": {},
    "llama": {"model": GROUPED},
    "tied-llama": {"model": {**LLAMA, "tie_embeddings": True}},
    "norms": {"model": {**GROUPED, "qk_norm": True, "head_dim": 12, "qkv_bias": True}},
    "rope-scaling": {"model": {**LLAMA, "rope_scaling": {"type": "yarn", "factor": 2}}},
    "gpt-rope": {"model": {**GPT2, "architecture": "gpt-rope"}},
    "dropout": {"model": {**GPT2, "dropout": 0.2}, "memory.recompute": "selective"},
    "bf16": {"precision.compute": "bf16", "precision.gradients": "bf16"},
    "fp16": {"precision.compute": "fp16", "precision.loss_scale": {"initial": 65536, "growth_steps": 2}},
    "math": {"kernels.attention": "math", "memory.recompute": "computation"},
    "muon": {**MUON, "model": GROUPED},
    "freeze": {"training.freeze": ["layers.0.*"]},
    "spikes": {"training.spikes": {"loss": 1, "gradient_norm": 1, "window": 8}, "training.steps": 12,
               "training.learning_rate.peak": 0.05},
    "lora": {**LORA, "model": LLAMA},
    "lora-bf16": {**LORA, "model": GROUPED, "precision.compute": "bf16", "memory.recompute": "full"},
    "documents": DOCUMENTS,
    "documents-full": {**DOCUMENTS, "model": GROUPED, "memory.recompute": "full"},
    "fine-tuning": FINE_TUNING,
    "fine-tuning-padded": {**FINE_TUNING, "model": GROUPED, "model.max_sequence_length": 64,
                           "data": {"train": [{"path": "chat.jsonl"}], "fine_tuning": {"packing": False, "loss": "all"}}},
    "sequence-curriculum": {"data.curriculum.sequence_length": {"start": 8, "steps": 3}},
    "reshaped-curriculum": {"data.curriculum.sequence_length": {"start": 8, "steps": 3, "method": "reshape"}},
    "vocabulary-curriculum": {"data.curriculum.vocabulary_rarity": {"start": 30, "steps": 3}},
    "token-dropping": DROPPED,
    "token-dropping-documents": {**DROPPED, **DOCUMENTS, "model": GROUPED},
    "experts": EXPERTS,
    "dropless": {"model": DROPLESS, "log.routing": True},
    "experts-muon": {**EXPERTS, **MUON},
    "experts-bf16": {"model": DROPLESS, "precision.compute": "bf16", "memory.recompute": "full"},
    "experts-gated": {"model": {**LLAMA, "moe": {"experts": 4, "top_k": 2, "shared_experts": 1, "shared_gate": True,
                                                 "router": "cosine", "jitter": 0.1, "gate_noise": 1,
                                                 "balance_loss": "load_importance"}}},
    "experts-zipf": {"model": {**DROPPING, "moe": {**DROPPING["moe"], "routing_zipf": 0.7}}},
    "experts-token-dropping": {**EXPERTS, **DROPPED},
    "experts-documents": {**EXPERTS, **DOCUMENTS},
    "experts-fp8": {"model": {**DROPLESS, "moe": {**DROPLESS["moe"], "ffn_hidden_size": 32}}, "precision.fp8_level": "O2",
                    "precision.compute": "bf16"},
    "fp8-O0": {"model": IN_FP8, "precision.fp8_level": "O0", "log.fp8_statistics": True},
    "fp8-O1": {"model": IN_FP8, "precision.fp8_level": "O1", "precision.compute": "bf16"},
    "fp8-O2": {"model": IN_FP8, "precision.fp8_level": "O2", "precision.fp8_scaling.method": "delayed"},
    "fp8-O3": {"model": IN_FP8, "precision.fp8_level": "O3", "precision.high_precision.first_layers": 1},
}
LAYOUTS = {
    "one": {},
    "sharded": {"launch.ranks": 2, "parallel.zero_stage": 3},
    "together": TOGETHER,
    "context": {"launch.ranks": 2, "parallel.context": 2},
}


def text():
    """Each token depends on the one before, up to noise; now and then a line ends."""
    draw, token, tokens = random.Random(1), 0, []
    for _ in range(6000):
        token = (3 * token + 1 + draw.randrange(4)) % 40
        tokens.append("\n" if draw.random() < 0.03 else chr(48 + token))
    return "".join(tokens)


def conversations():
    lines = [{"messages": [{"role": "user", "content": f"{n} and {n}?"}, {"role": "assistant", "content": f"{2 * n}."}]}
             for n in range(60)]
    return "\n".join(json.dumps(line) for line in lines) + "\n"


def recipe(changes):
    """The base with `changes` {path: value}, in their order."""
    result = {"name": "compared", "model": GPT2, "data": {"train": [{"path": "text.txt"}]},
              "batch": {"global": 8, "micro": 1},
              "training": {"steps": STEPS, "learning_rate": {"peak": 3e-3, "warmup_steps": 2}},
              "checkpoint": {"every": 2, "keep": 0}, "log": {"tensorboard": False}, "cluster": {"device": "cpu"},
              "launch": {"backend": "local", "watchdog_seconds": 60}}
    result = json.loads(json.dumps(result))
    for path, value in changes.items():
        *above, last = path.split(".")
        place = result
        for key in above:
            place = place.setdefault(key, {})
        place[last] = json.loads(json.dumps(value))
    return result


def files(changes):
    found = {"recipe.json": recipe(changes), "text.txt": text()}
    if "chat.jsonl" in json.dumps(changes):
        found["chat.jsonl"] = conversations()
    return found


def run(folder, *flags):
    return ["run", "recipe.json", "-q", "--run-dir", folder, *flags]


def trained():
    for index, (name, changes) in enumerate(TRAINED.items()):
        shared = [layout for layout in LAYOUTS if layout != "context" or "training.token_dropping" not in changes]
        for layout in shared:
            keys = LAYOUTS[layout]
            yield Case(f"run-{name}-{layout}", files({**changes, **keys}), [run("run")])
        layout = shared[index % len(shared)]
        on_gpu = {"cluster.device": "cuda", "launch.backend": "mpi" if layout != "one" else "auto"}
        yield Case(f"gpu-{name}-{layout}", files({**changes, **LAYOUTS[layout], **on_gpu}), [run("run")], EMULATED)


def used(name, changes, program=PROGRAM):
    """A model that is trained with evaluations, goes on in another layout, writes, is evaluated, and passes to another
    program and back."""
    evaluated = {**changes, "data.validation": [{"path": "text.txt"}], "training.evaluate_every": 2,
                 "training.evaluate_batches": 2, "checkpoint.every": 1, "training.steps": 4}
    sample = ["sample", "run", "--prompt", "The ", "--tokens", "12", "--seed", "3", "--json"]
    commands = [
        run("run", *settings(TOGETHER)),
        run("resumed", "--resume", "run/checkpoints/step-00000002", *settings(LAYOUTS["sharded"])),
        run("context", "--resume", "run/checkpoints/step-00000002", *settings(LAYOUTS["context"])),
        sample, [*sample, "--temperature", "0", "--samples", "2"], [*sample, "--top-k", "5", "--tensor", "2"],
        [*sample, "--pipeline", "2"],
        ["eval", "run", "--batches", "2", "--json"], ["eval", "run", "--batches", "2", "--tensor", "2", "--json"],
        ["checkpoint", "export", "run", "exported", "--to", "hf"],
        ["checkpoint", "import", "exported", "imported", "--from", "hf"],
    ]
    return Case(f"used-{name}", files(evaluated), commands, program)


def uses():
    yield used("gpt2", {})
    yield used("llama", {"model": GROUPED, "precision.compute": "bf16"})
    yield used("lora", {**LORA, "model": LLAMA})
    yield used("fp8", {"model": IN_FP8, "precision.fp8_level": "O1", "precision.compute": "bf16"})
    mixture = {**LLAMA, "moe": {"experts": 4, "top_k": 2, "normalize_gates": True, "capacity_factor": 0}}
    yield used("experts", {"model": mixture})
    yield used("muon", {**MUON, "model": GROUPED})
    yield used("gpu", {"model": GROUPED, "cluster.device": "cuda", "launch.backend": "mpi"}, EMULATED)


def fixed():
    yield from trained()
    yield from uses()


def random_run(seed, number):
    draw = random.Random(f"{seed} run {number}")
    kind = layouts.KINDS[number % len(layouts.KINDS)]
    model = draw.choice(MODELS[kind])
    ranks = draw.choice((1, 2, 2, 4, 4, 4, 8))
    keys = layouts.random_layout(draw, kind, model["layers"], ranks, MOST)
    keys.update({"model": model, "batch.micro": draw.choice((1, 1, 2)), "batch.global": 16 if ranks == 8 else 8})
    if keys.get("parallel.expert_all_to_all") == "hierarchical":
        keys["cluster.devices_per_node"] = 2
    on_gpu = draw.random() < 0.15 and ranks <= 4
    if on_gpu:
        keys.update({"cluster.device": "cuda", "launch.backend": draw.choice(("mpi", "nccl"))})
    elif draw.random() < 0.1:
        keys["launch.backend"] = "mpi"
    return Case(f"run-{number}", files(keys), [run("run")], EMULATED if on_gpu else PROGRAM, number)
