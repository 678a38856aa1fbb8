# SPDX-License-Identifier: Apache-2.0
"""Steps of llmtrain, PyTorch eager and torch.compile in turns, with peak memory of all and llmtrain's plans."""
import json
import time

import machine as machines
import shapes
from sides import NO_TIME, LimitedWorker, Side, Turns

ROUNDS = 3
CASE_SECONDS = 120
PROFILED_STEPS = 8
SCRIPT = machines.pathlib.Path(__file__).resolve().parents[1] / "bench_support" / "torch_worker.py"


def memory_of(machine):
    return machine.gpu["memory_bytes"] if machine.device == "cuda" else 1 << 40


def our_sides(machine, name, micro, notes):
    """llmtrain's sides of a shape, with their plans; those that its plan says do not fit are named."""
    # Delayed scales, which FP8 takes here, are no part of graphs; nor has a processor any.
    for precision, graphs in (("bf16", False), ("bf16", True), ("fp8", False)):
        if graphs and machine.device != "cuda":
            continue
        recipe, path = shapes.write_recipe(machine.folder, name, precision, micro, machine.device, graphs)
        plan = machine.plan(path)
        peak = plan["ranks"][0]["peak_bytes"]
        if not plan["fits"]:
            notes.append(f"{recipe['name']}: does not fit, {peak / 2**30:.1f} GiB planned")
            continue
        kind = recipe["name"].removeprefix(f"{name}-")
        side = Side(f"{name} llmtrain {kind}", [str(machine.step_worker), str(path)],
                    machine.folder / "log" / recipe["name"], (peak, peak))
        side.plan, side.recipe = plan, path
        yield side


def torch_sides(machine, name, micro, notes):
    """PyTorch's sides of a shape, of which both use autocast; named where they cannot fit."""
    model = {**shapes.MODELS, **shapes.REHEARSAL}[name]
    need = shapes.torch_bytes(model, micro)
    if need > 0.97 * memory_of(machine):
        notes.append(f"{name} by PyTorch: does not fit, about {need / 2**30:.0f} GiB in fp32 with autocast")
        return
    if machine.python is None:
        notes.append(f"{name} by PyTorch: no Python with it; name one in LLMTRAIN_PYTHON")
        return
    recipe = machine.folder / f"{name}-bf16.json"
    for kind, flags in (("eager", []), ("compiled", ["--compiled"])):
        command = [machine.python, str(SCRIPT), str(recipe), "--precision", "autocast_bf16", "--device", machine.device]
        side = Side(f"{name} {kind}", command + flags, machine.folder / "log" / f"{name}-{kind}",
                    (need, shapes.state_bytes(model)), releases=True)
        side.plan = side.recipe = None
        yield side


def figures(side, tokens):
    found = {"side": side.name, "failure": side.failure}
    if side.failure:
        found["log"] = f"{side.failure}\n{side.log.read_text(errors='replace') if side.log.exists() else ''}"
    if side.turns:
        median = side.median()
        found.update(seconds=median, tokens_per_second=tokens / median, peak_bytes=side.peak_bytes,
                     tensor_bytes=side.tensor_bytes, seconds_by_turn=side.turns)
    if side.plan:
        found.update(planned_seconds=side.plan["step"]["seconds"], planned_bytes=side.plan["ranks"][0]["peak_bytes"],
                     profile=side.plan["profile"])
    return found


def plan_again(machine, side, found, profile):
    """The step's time with the profile that `llmtrain calibrate` has measured here."""
    if side.plan and profile is not None:
        plan = machine.plan(side.recipe, f"cluster.profile={profile}")
        found.update(calibrated_seconds=plan["step"]["seconds"])


def run_case(machine, name, notes):
    sequences, micro = shapes.SEQUENCES[name], shapes.micro_batch(name, memory_of(machine))
    ours = list(our_sides(machine, name, micro, notes))
    sides = ours + (list(torch_sides(machine, name, micro, notes)) if ours else [])
    turns, end = Turns(machine, memory_of(machine)), time.monotonic() + min(CASE_SECONDS, machine.left())
    try:
        for turn in range(ROUNDS):
            for side in sides[turn:] + sides[:turn]:
                again = side.start_seconds if side.worker is None else 0
                if side.failure is None and (not side.turns or time.monotonic() + again < end):
                    turns.take(side)
    finally:
        turns.close_all()
    recipe = json.loads((machine.folder / f"{name}-bf16.json").read_text())
    found = {"model": name, "sequences": sequences, "micro": micro, "sides": []}
    for side in sides:
        found["sides"].append(figures(side, shapes.tokens_per_step(recipe)))
        plan_again(machine, side, found["sides"][-1], machine.profile)
        if side.plan and side.turns:
            measure_kernels(machine, side, found["sides"][-1])
        print_side(found["sides"][-1])
    return found


def measure_kernels(machine, side, found):
    """What kernels take of a short training, by name, where the build has the profiler for it (tests/bench)."""
    profiler = machine.build / "tests" / "libkernel_times.so"
    output = machine.folder / "log" / f"{side.log.name}-kernels"
    if machine.device != "cuda" or not profiler.exists() or machine.left() < 60:
        return
    environment = {**machine.environment, "CUDA_INJECTION64_PATH": str(profiler), "KERNEL_TIMES_OUTPUT": str(output)}
    try:
        worker = LimitedWorker(machine.left, f"{side.name}, profiled", side.command, environment, side.log)
        worker.ask(f"run {PROFILED_STEPS}")
        worker.end()
        times = json.loads(output.read_text(encoding="utf-8"))
    except (OSError, SystemExit, ValueError) as error:
        found["profile_failure"] = str(error)
        return
    found["kernels"] = {**times, "kernels": times["kernels"][:40], "gaps": times["gaps"][:20], "steps": PROFILED_STEPS}


def print_side(found):
    said = found["failure"] or NO_TIME
    if "seconds" in found:
        said = (f"{1e3 * found['seconds']:.1f} ms, {found['tokens_per_second']:.0f} tokens/s, "
                f"{found['peak_bytes'] / 2**30:.1f} GiB")
    print(f"  {found['side']}: {said}", flush=True)


def keep_failure(found, side):
    """What time did not suffice for, or PyTorch cannot do here, is no failure of llmtrain's."""
    if side["failure"] and side["failure"] != NO_TIME and "llmtrain" in side["side"]:
        found["failures"].append({"name": side["side"], "code": None, "log": side["log"][-6000:]})
    elif side["failure"]:
        last = (side["log"].strip().splitlines() or [""])[-1]
        found["notes"].append(f"{side['side']}: {side['failure'] if side['failure'] == NO_TIME else last[:300]}")


def transformer_engine(machine):
    """What there is to say about it, which is not timed."""
    if machine.python is None:
        return "Transformer Engine: no Python to import it"
    code = "import importlib.util as u; print(u.find_spec('transformer_engine') is not None)"
    done = machine.run("transformer-engine", [machine.python, "-c", code], 30, machine.python_environment)
    return f"Transformer Engine: {'importable, not timed' if done.output.strip() == 'True' else 'not importable'}"


def run(machine, found):
    if not machine.step_worker.exists():
        raise machines.NotDone(f"there is no {machine.step_worker}")
    found["cases"] = []
    found["notes"].append(transformer_engine(machine))
    for name in machine.models:
        if machine.left() < 30:
            found["notes"].append(f"{name}: no time left for it")
            continue
        case = run_case(machine, name, found["notes"])
        found["cases"].append(case)
        for side in case["sides"]:
            keep_failure(found, side)
