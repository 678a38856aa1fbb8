# SPDX-License-Identifier: Apache-2.0
"""Random layouts of ranks, as keys of a recipe. Some break a rule of recipes; builds must refuse those alike."""
KINDS = ("dense", "experts", "FP8")


def divisors(number, most):
    return [degree for degree in (1, 2, 4, 8, 16) if degree <= most and number % degree == 0]


def degrees(draw, ranks, most):
    """How the ranks are spread over the axes; what is left are data ranks. `most` bounds each axis."""
    keys, left = {"launch.ranks": ranks}, ranks
    axes = ("tensor", "pipeline", "context")
    for axis in draw.sample(axes, len(axes)):
        keys[f"parallel.{axis}"] = draw.choice(divisors(left, most[axis]))
        left //= keys[f"parallel.{axis}"]
    return keys, left


def zero(draw, data, context):
    shards = data * context
    if shards == 1:
        return {}
    keys = {"parallel.zero_stage": draw.choice((0, 1, 2, 3, 3))}
    if keys["parallel.zero_stage"] and shards > 2 and draw.random() < 0.3:
        keys["parallel.zero_shard_ranks"] = draw.choice(divisors(shards, 16))
    return keys


def schedule(draw, keys, layers):
    """Stages, their order, and how layers are spread over them."""
    loops = draw.choice(divisors(layers // keys["parallel.pipeline"], 4) or [1])
    result = {"pipeline.schedule": draw.choice(("breadth_first", "gpipe", "1f1b", "interleaved")), "pipeline.loops": loops}
    if result["pipeline.schedule"] == "1f1b" or (result["pipeline.schedule"] == "gpipe" and draw.random() < 0.5):
        result["pipeline.loops"] = 1
    if draw.random() < 0.3:
        result["pipeline.balance"] = "blocks"
    return result


def experts(draw, keys, data):
    """Expert ranks, and how they exchange rows."""
    ranks = keys["parallel.tensor"] * keys["parallel.context"] * data
    result = {"parallel.expert": draw.choice(divisors(ranks, 4))}
    if draw.random() < 0.3:
        result["parallel.expert_tensor"] = draw.choice(divisors(ranks // result["parallel.expert"], 2))
    if result["parallel.expert"] > 1:
        result["parallel.expert_overlap"] = draw.choice((1, 1, 2))
        if draw.random() < 0.25:
            result["parallel.expert_all_to_all"] = "hierarchical"
    return result


def fp8(draw):
    level = draw.choice(("O0", "O1", "O2", "O3"))
    keys = {"precision.fp8_level": level, "precision.fp8_scaling.method": draw.choice(("current", "current", "delayed")),
            "precision.compute": draw.choice(("fp32", "bf16", "bf16"))}
    if draw.random() < 0.3:
        keys["precision.high_precision.first_layers"] = 1
    return keys


def random_layout(draw, kind, layers, ranks, most):
    """Keys for a model of this kind with so many layers on this many ranks."""
    keys, data = degrees(draw, ranks, most)
    keys.update(zero(draw, data, keys["parallel.context"]))
    keys.update(schedule(draw, keys, layers))
    if keys["parallel.tensor"] > 1:
        keys["parallel.sequence"] = draw.random() < 0.6
    keys["parallel.overlap"] = draw.random() < 0.7
    keys["memory.recompute"] = draw.choice(("none", "selective", "computation", "full"))
    keys["kernels.attention"] = draw.choice(("auto", "auto", "math"))
    if kind == "experts":
        keys.update(experts(draw, keys, data))
    if kind == "FP8":
        keys.update(fp8(draw))
    elif draw.random() < 0.4:
        keys["precision.compute"] = draw.choice(("bf16", "fp16"))
    if kind != "FP8" and draw.random() < 0.15:
        keys["training.optimizer.name"] = "muon"
    return keys
