# SPDX-License-Identifier: Apache-2.0
"""Processes are killed at random moments: the run goes on from its newest checkpoint, as if nothing had happened."""
import os
import random
import signal
import time

import checker

STEPS, EVERY = 60, 5


def settings_of(ranks, backend="mpi", **more):
    # Without async, so that a checkpoint is complete when its step is over: then no more than the interval is lost.
    return {"training.steps": STEPS, "checkpoint.every": EVERY, "checkpoint.async": False, "launch.ranks": ranks,
            "launch.backend": backend, **more}


def kill_at_random(run, dice, victim):
    """Kills a random rank, or mpirun, after a random step or before the first. Returns the processes there were, and the
    last step of which a row was seen; None if the run was faster."""
    step = dice.randrange(0, STEPS - 1)
    if step == 0:
        arrived = run.wait_for(lambda: len(run.below()) > 1)
    else:
        arrived = run.wait_for_step(step)
    time.sleep(dice.random() * 0.02)
    known = run.below()
    ranks = run.rank_processes()
    if not arrived or not known or (victim == "rank" and not ranks):
        return None
    pid = dice.choice(sorted(ranks.values())) if victim == "rank" else known[0][0]
    os.kill(pid, signal.SIGKILL)
    return known


def kill_once(runs, name, dice, victim, expected, ranks):
    """Returns the steps that were lost, or None if the run had ended before."""
    settings = settings_of(ranks)
    with runs.started(name, settings) as run:
        known = kill_at_random(run, dice, victim)
        code, said = run.end()
        left = run.orphans(known or [])
    if left:
        raise checker.Loss(f"{name}: {len(left)} processes are left 5 s after {victim} was killed")
    if known and code not in (0, 69):
        raise checker.Loss(f"{name}: exit code {code} after {victim} was killed: {said}")
    done = max(checker.rows_of(run.folder), default=0)
    newest = checker.newest_checkpoint(run.folder)
    saved = int(newest.name[5:]) if newest else 0
    runs.finish(name, settings)
    checker.require_same_state(checker.newest_checkpoint(run.folder), checker.newest_checkpoint(expected))
    checker.require_same_losses(run.folder, expected)
    return done - saved if known else None


def killed(runs, options, victim):
    dice = random.Random(f"{options.seed} {victim}")
    ranks = 2 if options.quick else 4
    seeds = 1 if options.quick else 20
    expected = runs.finish(f"straight-{victim}", settings_of(ranks))
    lost = [kill_once(runs, f"{victim}-{seed}", dice, victim, expected, ranks) for seed in range(seeds)]
    hits = [each for each in lost if each is not None]
    if hits and max(hits) > EVERY:
        raise checker.Loss(f"{max(hits)} steps were lost, more than the interval of {EVERY}")
    return f"{len(hits)} of {seeds} hit, bitwise equal, at most {max(hits, default=0)} steps lost, no orphan"


def killed_rank(runs, options):
    return killed(runs, options, "rank")


def killed_mpirun(runs, options):
    return killed(runs, options, "mpirun")
