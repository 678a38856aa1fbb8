# SPDX-License-Identifier: Apache-2.0
"""Signals that ask for a stop reach any process of a run at any moment: each stop ends with 75, and a run that is stopped
again and again and always goes on is to the bit the one that nobody has stopped."""
import collections
import contextlib
import os
import random
import signal
import time

import checker
from layouts import full, legal_layouts, saved_step, wait_for_new_step
from stops import require_one_step

REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
VICTIMS = ("program", "mpirun", "rank", "all")
STOPS_PER_RUN = 10
STEPS_PER_STOP = 20


def processes_of(run, victim, dice):
    """Those that are signalled; the program's own while there is none of the kind."""
    below = [identity[0] for identity in run.below()]
    ranks = sorted(run.rank_processes().values())
    if victim == "all":
        return [run.process.pid, *below]
    if victim == "mpirun" and below:
        return below[:1]
    if victim == "rank" and ranks:
        return [dice.choice(ranks)]
    return [run.process.pid]


def wait_for_a_moment(run, dice, resumed):
    """While its ranks start, or after some of its steps. Before that the program handles no signals yet."""
    if dice.random() < 0.3:
        run.wait_for(run.below)
        time.sleep(dice.random())
    else:
        wait_for_new_step(run, resumed)
        run.wait_for_step(resumed + dice.randrange(1, 2 * STEPS_PER_STOP))
        time.sleep(dice.random() * 0.02)


def stop_once(runs, name, settings, dice):
    """Returns who was signalled, or None if the run has ended before."""
    request, victim = dice.choice(REQUESTS), dice.choice(VICTIMS)
    with runs.started(name, settings) as run:
        wait_for_a_moment(run, dice, saved_step(run.folder))
        for pid in processes_of(run, victim, dice):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, request)
        code, said = run.end()
    if code not in (0, 75):
        raise checker.Loss(f"{name}: exit code {code} after {request.name} to {victim}: {said}")
    if code == 75:
        require_one_step(run, said)
    return victim if code == 75 else None


def signalled(runs, options):
    # Shells start what they put into the background with SIGINT ignored, nohup with SIGHUP; runs would inherit it.
    for request in (signal.SIGINT, signal.SIGHUP):
        signal.signal(request, signal.SIG_DFL)
    dice = random.Random(f"{options.seed} signalled")
    layouts = [{**layout, "launch.backend": "mpi"} for layout in legal_layouts() if layout["launch.ranks"] > 1]
    hits = collections.Counter()
    used = 0
    while sum(hits.values()) < options.stops:
        stops = min(STOPS_PER_RUN, options.stops - sum(hits.values()))
        settings = {**full({}), **dice.choice(layouts), "training.steps": STEPS_PER_STOP * (stops + 2)}
        name = f"signalled-{used}"
        used += 1
        for _ in range(2 * stops):
            hits[stop_once(runs, name, settings, dice)] += 1
            if hits.pop(None, 0) or sum(hits.values()) == options.stops:
                break
        run, straight = runs.finish(name, settings), runs.finish(f"straight-{used}", settings)
        checker.require_same_state(checker.newest_checkpoint(run), checker.newest_checkpoint(straight))
        checker.require_same_losses(run, straight)
    where = ", ".join(f"{hits[victim]} at {victim}" for victim in VICTIMS)
    return f"{sum(hits.values())} stops ({where}) of {used} layouts, all with 75, all ranks at one step, resumed bitwise"
