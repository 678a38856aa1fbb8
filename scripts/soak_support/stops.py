# SPDX-License-Identifier: Apache-2.0
"""Runs are asked to stop at random moments: exit code 75, all ranks at one step, and nothing is lost."""
import random
import re
import signal
import time

import checker

STEPS = 60


def ask(run, way):
    if way == "signal":
        run.process.send_signal(signal.SIGUSR1)
    elif way == "file":
        run.folder.mkdir(parents=True, exist_ok=True)
        (run.folder / "STOP").touch()


def last_steps(run):
    """The step at which the first rank's metrics and each other rank's log end."""
    steps = {"metrics.jsonl": max(checker.rows_of(run), default=0)}
    for path in sorted((run / "log").glob("rank-*.log"))[1:]:
        found = re.findall(r"\bstep (\d+): loss", path.read_text())
        steps[path.name] = int(found[-1]) if found else 0
    return steps


def require_one_step(run, said):
    """All ranks have stopped at the step of the newest checkpoint; returns it."""
    newest = checker.newest_checkpoint(run.folder)
    done = max(checker.rows_of(run.folder), default=0)
    if done and (newest is None or int(newest.name[5:]) != done):
        raise checker.Loss(f"{run.folder}: stopped after step {done} with {newest}: {said}")
    if len(set(last_steps(run.folder).values())) > 1:
        raise checker.Loss(f"{run.folder}: its ranks stopped at {last_steps(run.folder)}")
    return done


def stop_once(runs, name, dice, way, expected, settings, limits):
    """Returns the step at which the run has stopped, or None if it had ended before."""
    limit = {"launch.time_limit_seconds": dice.uniform(*limits)} if way == "limit" else {}
    with runs.started(name, {**settings, **limit}) as run:
        if way != "limit":
            # Requests before the first step have tests of their own.
            run.wait_for_step(dice.randrange(1, STEPS - 2))
            time.sleep(dice.random() * 0.01)
            ask(run, way)
        code, said = run.end()
    if code not in (0, 75):
        raise checker.Loss(f"{name}: exit code {code}: {said}")
    stopped_at = require_one_step(run, said) if code == 75 else None
    (run.folder / "STOP").unlink(missing_ok=True)  # of a request that came too late
    runs.finish(name, settings)
    checker.require_same_state(checker.newest_checkpoint(run.folder), checker.newest_checkpoint(expected))
    checker.require_same_losses(run.folder, expected)
    return stopped_at


def straight_run(runs, name, settings):
    """A run that is not stopped, and the seconds after which it has its first step and its last."""
    with runs.started(name, settings) as run:
        run.wait_for_step(1)
        first = time.monotonic() - run.start
        code, said = run.end(300)
        if code != 0:
            raise checker.Loss(f"{name}: exit code {code}: {said}")
        return run.folder, (first, time.monotonic() - run.start)


def stopped(runs, options, way):
    dice = random.Random(f"{options.seed} {way}")
    backend = "mpi" if "mpi" in options.backends and not options.quick else "local"
    # Runs that a clock stops take long enough that the clock finds them in training.
    steps = STEPS if way != "limit" or options.quick else 10 * STEPS
    settings = {"training.steps": steps, "launch.ranks": 2 if options.quick else 4, "launch.backend": backend}
    moments = 1 if options.quick else 20
    expected, limits = straight_run(runs, f"straight-{way}", settings)
    # A run stops before its limit: three seconds for its end, and for a first save one and a half tenths of the limit.
    # Later runs may be faster than this one.
    first, last = limits
    limits = [(seconds + 3) / 0.85 for seconds in (first, first + 0.7 * (last - first))]
    steps = [stop_once(runs, f"{way}-{number}", dice, way, expected, settings, limits) for number in range(moments)]
    hits = [each for each in steps if each is not None]
    return (f"{len(hits)} of {moments} stopped, after {min(hits, default=0)} to {max(hits, default=0)} steps, all ranks "
            f"at one, resumed bitwise")


def stopped_by_signal(runs, options):
    return stopped(runs, options, "signal")


def stopped_by_file(runs, options):
    return stopped(runs, options, "file")


def stopped_by_limit(runs, options):
    return stopped(runs, options, "limit")
