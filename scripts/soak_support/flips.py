# SPDX-License-Identifier: Apache-2.0
"""One bit of one replica's weights flips: the ranks are compared every few steps, and the run ends there."""
import random
import re

import checker

STEPS, EVERY, RANKS = 40, 5, 4


def flip_once(runs, name, dice):
    rank, step = dice.randrange(RANKS), dice.randrange(1, STEPS - EVERY)
    settings = {"training.steps": STEPS, "launch.ranks": RANKS, "launch.backend": "local",
                "launch.check_replicas_every": EVERY}
    with runs.started(name, settings, {"LLMTRAIN_FAULT": f"flip:weights:{rank}:{step}"}) as run:
        code, said = run.end()
    found = re.match(r"step (\d+): the weights of rank (\d+) ", said)
    if code != 69 or not found or len(said.splitlines()) != 1:
        raise checker.Loss(f"{name}: a flip at step {step} of rank {rank} ended with {code}: {said}")
    if int(found[2]) != rank or not step <= int(found[1]) < step + EVERY:
        raise checker.Loss(f"{name}: a flip at step {step} of rank {rank} was reported as: {said}")
    return int(found[1]) - step


def flipped(runs, options):
    dice = random.Random(f"{options.seed} flips")
    times = 1 if options.quick else 20
    steps = [flip_once(runs, f"flip-{number}", dice) for number in range(times)]
    return f"{times} of {times} found and named, after {max(steps)} steps at most"
