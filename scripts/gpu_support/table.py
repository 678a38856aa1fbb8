# SPDX-License-Identifier: Apache-2.0
"""The result of scripts/prove-gpu as Markdown, beside what one H100 or H200 shall reach."""

# Tokens per second of one H100, which llmq (github.com/IST-DASLab/llmq) reports.
TOKENS_WANTED = {("0.5B", "bf16"): 149e3, ("1.5B", "bf16"): 58.8e3, ("7B", "bf16"): 13.8e3,
                 ("0.5B", "fp8"): 164e3, ("1.5B", "fp8"): 72.9e3, ("7B", "fp8"): 19.2e3}
COLUMNS = ("shape", "side", "ms per step", "tokens/s", "of eager", "of compiled", "GiB", "of eager's tensors",
           "planned ms", "planned GiB", "calibrated ms")
KERNELS_SHOWN, KERNEL_NAME_LENGTH = 8, 100
COMPILED_WANTED, MEMORY_WANTED, PLAN_WANTED, SHARE_WANTED = 1.1, 0.8, 0.1, 0.85


def sides_of(case):
    """{"bf16", "bf16-graphs", "fp8", "eager" or "compiled": what was measured of it}."""
    return {side["side"].split()[-1]: side for side in case["sides"] if "seconds" in side}


def ratio(above, below, name):
    return above[name] / below[name] if above and below and below[name] else None


def memory_ratio(side, eager):
    """All that a side takes of the GPU beside PyTorch eager's tensors alone: its allocator keeps more than it needs."""
    return side["peak_bytes"] / eager["tensor_bytes"] if side and eager and eager["tensor_bytes"] else None


def shown(value, pattern):
    return "" if value is None else pattern.format(value)


def error(planned, measured):
    return planned / measured - 1 if planned and measured else None


def speed_rows(cases):
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|" + "---|" * len(COLUMNS)
    for case in cases:
        found = sides_of(case)
        eager, compiled = found.get("eager"), found.get("compiled")
        for name, side in found.items():
            planned, memory = side.get("planned_seconds"), side.get("planned_bytes")
            again = side.get("calibrated_seconds")
            cells = (f"{case['model']}, {case['sequences']} by {case['micro']}", name, f"{1e3 * side['seconds']:.1f}",
                     f"{side['tokens_per_second']:.0f}", shown(ratio(eager, side, "seconds"), "{:.2f}x"),
                     shown(ratio(compiled, side, "seconds"), "{:.2f}x"), f"{side['peak_bytes'] / 2**30:.1f}",
                     shown(memory_ratio(side, eager), "{:.2f}"),
                     shown(planned and 1e3 * planned, "{:.1f}") + shown(error(planned, side["seconds"]), " ({:+.0%})"),
                     shown(memory and memory / 2**30, "{:.1f}")
                     + shown(error(memory, side["peak_bytes"]), " ({:+.0%})"),
                     shown(again and 1e3 * again, "{:.1f}") + shown(error(again, side["seconds"]), " ({:+.0%})"))
            yield "| " + " | ".join(cells) + " |"


def kernel_rows(cases):
    """The kernels that take the most, with their share of what all take."""
    yield "| shape | side | kernel | calls per step | share |"
    yield "|---|---|---|---|---|"
    for case in cases:
        for name, side in sides_of(case).items():
            kernels = side.get("kernels", {}).get("kernels", [])
            for kernel in kernels[:KERNELS_SHOWN]:
                calls = kernel["count"] / side["kernels"]["steps"]
                share = kernel["seconds"] / side["kernels"]["busy_seconds"]
                label = kernel["name"].replace("|", "/")[:KERNEL_NAME_LENGTH]
                yield f"| {case['model']} | {name} | `{label}` | {calls:.0f} | {share:.1%} |"


def goals(cases):
    """(goal, wanted, measured or None, whether it is reached)."""
    measured = {case["model"]: sides_of(case) for case in cases}
    for (model, precision), wanted in TOKENS_WANTED.items():
        speed = measured.get(model, {}).get(precision, {}).get("tokens_per_second")
        yield f"{model} in {precision}, tokens/s", f"{wanted:.0f}", shown(speed, "{:.0f}"), speed and speed >= wanted
    found = measured.get("124M", {})
    times = ratio(found.get("compiled"), found.get("bf16"), "seconds")
    yield ("124M in bf16, of torch.compile", f"{COMPILED_WANTED}x", shown(times, "{:.2f}x"),
           times and times >= COMPILED_WANTED)
    for model, found in measured.items():
        memory = memory_ratio(found.get("bf16"), found.get("eager"))
        if memory:
            yield (f"{model} in bf16, peak memory of eager's tensors", f"at most {MEMORY_WANTED}", f"{memory:.2f}",
                   memory <= MEMORY_WANTED)
        for precision in ("bf16", "fp8"):
            side = found.get(precision)
            if side:
                planned = side.get("calibrated_seconds") or side["planned_seconds"]
                by = "calibrated" if "calibrated_seconds" in side else side["profile"]
                off = error(planned, side["seconds"])
                yield (f"{model} in {precision}, planned time ({by})", f"within {PLAN_WANTED:.0%}", f"{off:+.0%}",
                       abs(off) <= PLAN_WANTED)


def share_goals(operators):
    """Rows for the operators that `llmtrain bench kernels` has timed."""
    for operator in operators:
        share = operator["share"]
        yield f"{operator['name']}, of the copy roof", f"{SHARE_WANTED}", f"{share:.2f}", share >= SHARE_WANTED


def goal_rows(cases, operators=()):
    yield "| goal | wanted | measured | reached |"
    yield "|---|---|---|---|"
    for goal, wanted, found, reached in (*goals(cases), *share_goals(operators)):
        answer = "" if reached is None or not found else "yes" if reached else "no"
        yield f"| {goal} | {wanted} | {found or 'not measured'} | {answer} |"


def summary(name, part):
    """What there is to say about a part in one cell."""
    if part["status"] == "not done":
        return "; ".join(part["notes"])
    if name == "tests" and "counts" in part:
        return ", ".join(f"{count} {word}" for word, count in part["counts"].items())
    if name == "roofs" and "bf16_flops" in part:
        return (f"copy {part['copy_bytes_per_second'] / 1e12:.2f} TB/s, bf16 {part['bf16_flops'] / 1e12:.0f} TFLOP/s"
                + shown(part.get("fp8_flops") and part["fp8_flops"] / 1e12, ", FP8 {:.0f} TFLOP/s"))
    if name == "ranks" and "step_seconds" in part:
        times = part["step_seconds"]
        return (f"losses within {part['largest_difference']:.1e}; a step of four ranks takes "
                f"{1e3 * times['four']:.1f} ms, of one {1e3 * times['one']:.1f} ms")
    return ""


def first_failure(result):
    """(part, failure) of the first, or None."""
    return next(((name, part["failures"][0]) for name, part in result["parts"].items() if part["failures"]), None)


def table(result):
    gpu = result["gpu"]
    lines = [f"# {gpu['name'] if gpu else 'No GPU: a rehearsal'}", ""]
    if gpu:
        lines += [f"{gpu['memory_bytes'] / 2**30:.0f} GiB, driver {gpu['driver']}.", ""]
    lines += ["| part | result | seconds | |", "|---|---|---|---|"]
    lines += [f"| {name} | {part['status']} | {part['seconds']:.0f} | {summary(name, part)} |"
              for name, part in result["parts"].items()]
    cases = result["parts"].get("speed", {}).get("cases", [])
    operators = result["parts"].get("roofs", {}).get("operators", [])
    if cases:
        lines += ["", "## Speed", "", *speed_rows(cases)]
    if cases or operators:
        lines += ["", "## Goals", "", *goal_rows(cases, operators)]
    if cases:
        kernels = list(kernel_rows(cases))
        lines += ["", "## Kernels", "", *kernels] if len(kernels) > 2 else []
    notes = [f"- {name}: {note}" for name, part in result["parts"].items() for note in part["notes"]]
    if notes:
        lines += ["", "## What could not be done", "", *notes]
    failures = [f"- {name}: {each['name']} ({each['code']})" for name, part in result["parts"].items()
                for each in part["failures"]]
    if failures:
        lines += ["", "## Failures", "", *failures]
    return "\n".join(lines) + "\n"
