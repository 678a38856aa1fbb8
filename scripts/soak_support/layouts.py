# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and layouts: what one layout has saved, every other one loads; runs that are killed go on in another."""
import itertools
import os
import random
import signal
import statistics
import time

import numpy

import checker

DEGREES = ("tensor", "pipeline", "context", "data")
SAVED_AT, TRAINED_TO = 7, 12  # in the middle of an epoch


def legal_layouts():
    """Every way to spread 1, 2 or 4 ranks over the axes, with every ZeRO stage where there are data ranks."""
    for world in (1, 2, 4):
        for degrees in itertools.product((1, 2, 4), repeat=len(DEGREES)):
            layout = dict(zip(DEGREES, degrees))
            product = layout["tensor"] * layout["pipeline"] * layout["context"] * layout["data"]
            if product != world or layout["pipeline"] > 2:
                continue
            for stage in range(4 if layout["data"] * layout["context"] > 1 else 1):
                yield {**{f"parallel.{axis}": layout[axis] for axis in DEGREES}, "parallel.zero_stage": stage,
                       "launch.ranks": world, "launch.backend": "local"}


def name_of(layout):
    return "-".join(f"{key.split('.')[1]}{value}" for key, value in layout.items() if key.startswith("parallel"))


SAVING = ({"data": 1}, {"data": 4, "zero_stage": 3}, {"tensor": 2, "data": 2, "zero_stage": 1}, {"pipeline": 2, "data": 2,
          "zero_stage": 2}, {"context": 2, "tensor": 2}, {"tensor": 4})


def full(short):
    layout = {f"parallel.{axis}": short.get(axis, 1) for axis in DEGREES}
    world = short.get("tensor", 1) * short.get("pipeline", 1) * short.get("context", 1) * short.get("data", 1)
    return {**layout, "parallel.zero_stage": short.get("zero_stage", 0), "launch.ranks": world,
            "launch.backend": "local"}


STILL = {"training.learning_rate.peak": 0, "training.steps": SAVED_AT + 1}


def is_moment(name):
    return name.endswith((".m", ".v"))


def require_loaded(run, source, reference):
    """After a step at a learning rate of 0 the weights are those that were loaded, to the bit, and the moments those of
    one rank after the same step, up to the order of sums."""
    (state, manifest), (loaded, _) = checker.read_state(run), checker.read_state(source)
    expected, _ = checker.read_state(reference)
    for name, values in state.items():
        if not is_moment(name) and values.tobytes() != loaded[name].tobytes():
            raise checker.Loss(f"{run}: {name} is not what was saved")
        if is_moment(name) and not numpy.allclose(values, expected[name], rtol=1e-3, atol=1e-9):
            raise checker.Loss(f"{run}: {name} differs from that of one rank")
    if sorted(state) != sorted(expected) or manifest["data_position"] != 8 * (SAVED_AT + 1):
        raise checker.Loss(f"{run}: has other tensors, or another position in the data, than one rank")


def require_later_losses(run, straight):
    rows, wanted = checker.rows_of(run), checker.rows_of(straight)
    if list(rows) != list(range(SAVED_AT + 1, TRAINED_TO + 1)):
        raise checker.Loss(f"{run}: trained steps {list(rows)}")
    for step, row in rows.items():
        if abs(row["loss"] - wanted[step]["loss"]) > 1e-5 * wanted[step]["loss"]:
            raise checker.Loss(f"{run}: step {step} has loss {row['loss']}, not {wanted[step]['loss']}")


def reload_layouts(runs, options):
    """What each of some layouts has saved in the middle of an epoch, all of them load; and the steps that follow have the
    losses of a run that never changed its layout."""
    layouts, saving = list(legal_layouts()), SAVING
    if options.quick:
        layouts, saving = random.Random(options.seed).sample(layouts, 1), SAVING[1:2]
    straight = runs.finish("straight", {**full({}), "training.steps": TRAINED_TO})
    count = 0
    for number, short in enumerate(saving):
        source = checker.newest_checkpoint(runs.finish(f"saved-{number}", {**full(short), "training.steps": SAVED_AT}))
        resumed = {"checkpoint.resume": str(source)}
        alone = checker.newest_checkpoint(runs.finish(f"alone-{number}", {**full({}), **STILL, **resumed}))
        for layout in layouts:
            name = f"{number}-{name_of(layout)}"
            still = runs.finish(f"{name}-still", {**layout, **STILL, **resumed})
            require_loaded(checker.newest_checkpoint(still), source, alone)
            require_later_losses(runs.finish(name, {**layout, "training.steps": TRAINED_TO, **resumed}), straight)
            count += 1
    return f"{len(saving)} layouts saved, {count} loads: weights bitwise, moments of one rank, losses to 1e-5"


def saved_step(run):
    newest = checker.newest_checkpoint(run)
    return int(newest.name[5:]) if newest else 0


def wait_for_new_step(run, resumed):
    """Until a run that goes on after step `resumed` has removed the rows of later steps, and written a new one."""
    before = max(checker.rows_of(run.folder), default=0)
    run.wait_for(lambda: before <= resumed or max(checker.rows_of(run.folder), default=0) < before)
    run.wait_for_step(resumed + 1)


def soaked(runs, options):
    """Kills a run again and again, each time after a few steps, and lets it go on in another layout."""
    dice = random.Random(f"{options.seed} soak")
    layouts = list(legal_layouts())
    cycles = 2 if options.quick else options.cycles
    steps = cycles * 12
    # At ten times this rate layouts that are never killed drift apart, too: by 1e-5 after some 300 steps, and by 3e-2
    # after 1200. At this one they stay within 2e-8 over 2400 steps, and a step's loss depends on its samples by 1e-1.
    settings = {"training.steps": steps, "checkpoint.every": 5, "training.learning_rate.peak": 3e-5,
                "training.learning_rate.decay_steps": steps, "training.learning_rate.warmup_steps": 20}
    straight = runs.finish("soak-straight", {**full({}), **settings})
    trained, recovery, name = 0, [], "soak"
    for _ in range(cycles):
        resumed = saved_step(runs.folder / name)
        until = min(resumed + dice.randrange(2, 20), steps - 1)
        with runs.started(name, {**settings, **dice.choice(layouts)}) as run:
            wait_for_new_step(run, resumed)
            recovery.append(time.monotonic() - run.start)
            run.wait_for_step(until)
            if run.process.poll() is None:
                os.kill(run.process.pid, signal.SIGKILL)
            run.end()
        trained += max(0, max(checker.rows_of(run.folder), default=0) - resumed)
    resumed = saved_step(runs.folder / name)
    runs.finish(name, {**settings, **full({})})
    trained += steps - resumed
    checker.require_same_losses(runs.folder / name, straight, 1e-5)
    return (f"{cycles} cycles, losses to 1e-5, goodput {steps / trained:.2f}, recovery "
            f"{statistics.median(recovery):.1f} s (median)")
