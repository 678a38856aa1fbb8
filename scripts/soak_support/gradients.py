# SPDX-License-Identifier: Apache-2.0
"""One element of one rank's gradients becomes infinitely wrong or very large, before ranks sum them: the update of that
step is left out, on all ranks, and the weights stay those of the step before."""
import random

import checker
import layouts

STEPS, WINDOW = 40, 8


def settings_of(layout, steps):
    return {**layout, "training.steps": steps, "training.learning_rate.decay_steps": STEPS,
            "training.spikes": {"loss": 8, "gradient_norm": 8, "window": WINDOW}, "launch.check_replicas_every": 1}


def require_skipped(run, step, before):
    """Only the update after the last step, `step`, was skipped, and all tensors are those of the run `before`."""
    skipped = [row["skipped"] for row in checker.rows_of(run).values()]
    if skipped != [0] * (step - 1) + [1]:
        raise checker.Loss(f"{run}: a fault at step {step} was counted as {skipped}")
    (state, manifest), (wanted, _) = (checker.read_state(checker.newest_checkpoint(each)) for each in (run, before))
    if manifest["skipped"] != {"total": 1, "in_a_row": 1, "rollbacks": 0}:
        raise checker.Loss(f"{run}: its checkpoint has counted {manifest['skipped']}")
    changed = [name for name, values in state.items() if values.tobytes() != wanted[name].tobytes()]
    if changed or sorted(state) != sorted(wanted):
        raise checker.Loss(f"{run}: {changed or 'the list of tensors'} is not as before step {step}")


def fault_once(runs, name, dice, what):
    layout = dice.choice(list(layouts.legal_layouts()))
    # Nothing is a spike before the window is full.
    rank, step = dice.randrange(layout["launch.ranks"]), dice.randrange(WINDOW + 1, STEPS)
    before = runs.finish(f"{name}-before", settings_of(layout, step - 1))
    fault = f"{what}:gradients:{rank}:{step}"
    with runs.started(name, settings_of(layout, step), {"LLMTRAIN_FAULT": fault}) as run:
        code, said = run.end()
    if code != 0 or f"1 of {step} updates were skipped" not in said:
        raise checker.Loss(f"{name}: {fault} in {layouts.name_of(layout)} ended with {code}: {said}")
    require_skipped(run.folder, step, before)


def wrong_gradients(runs, options):
    dice = random.Random(f"{options.seed} gradients")
    times = 1 if options.quick else 20
    for what in ("nan", "spike"):
        for number in range(times):
            fault_once(runs, f"{what}-{number}", dice, what)
    return f"{2 * times} of {2 * times} skipped in their step, weights bitwise those before"
