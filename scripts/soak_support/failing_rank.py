# SPDX-License-Identifier: Apache-2.0
"""One rank fails: all ranks end soon, one of them says why, and the exit code is that of the failure."""
import re
import time

import checker

SECONDS = 10
# What Open MPI itself says on a rank that reads the memory of one that has just been killed.
OF_OPEN_MPI = re.compile(r"\[\S+:\d+\] Read -1, expected \d+, errno = 3$")
WATCHDOG = 4
# A rank that fails before it joins the others waits two seconds for its launcher to end it, before it speaks.
WATCHDOG_BEFORE_JOINING = 6
# A failure of each place, and where it happens: before the first step, at the checkpoint that is loaded, or in training.
PLACES = {"recipe": (2, 0), "data": (65, 8), "load": (65, 5), "forward": (1, 8), "collective": (1, 8), "save": (73, 10),
          "commit": (73, 10)}
SETTINGS = {"training.steps": 40, "checkpoint.every": 5, "launch.ranks": 2,
            "batch.global": 2}


def expected_code(action, place, backend):
    if action == "kill":
        return 69 if backend == "mpi" else -9
    return {"fail": PLACES[place][0], "throw": 1, "stall": 69}[action]


def require_one_voice(what, said, action):
    """One line that names the reason, and nothing else of the program's."""
    lines = [line for line in said.strip().splitlines() if not OF_OPEN_MPI.match(line)]
    reason = {"stall": "launch.watchdog_seconds", "kill": "killed by signal 9"}.get(action, "fault on demand")
    if len(lines) != 1 or reason not in lines[0]:
        raise checker.Loss(f"{what}: said not one line with \"{reason}\" but: {said}")


def fail_once(runs, action, place, rank, backend):
    """Returns the seconds from the fault to the end of all processes, apart from the watchdog's."""
    what = f"{action}-{place}-{rank}-{backend}"
    watchdog = WATCHDOG_BEFORE_JOINING if place == "recipe" else WATCHDOG
    settings = {**SETTINGS, "launch.backend": backend, "launch.watchdog_seconds": watchdog}
    if place == "load":
        runs.finish(what, {**settings, "training.steps": 5})
    step = PLACES[place][1]
    start = time.monotonic()
    with runs.started(what, settings, {"LLMTRAIN_FAULT": f"{action}:{place}:{rank}:{step}"}) as run:
        below = []
        while run.process.poll() is None and time.monotonic() < start + 60:
            below = run.below() or below
            rows = checker.rows_of(run.folder)
            # The fault comes after this step, or after the start.
            if max(rows, default=0) < step - 1:
                start = time.monotonic() if rows else start
            time.sleep(0.02)
        seconds = time.monotonic() - start - (watchdog if action == "stall" else 0)
        code, said = run.end(1)
        orphans = run.orphans(below)
    if orphans or seconds > SECONDS:
        raise checker.Loss(f"{what}: took {seconds:.1f} s, {len(orphans)} processes left")
    # What ends a program of threads ends its voice, too.
    if action != "kill" or backend == "mpi":
        require_one_voice(what, said, action)
    if code != expected_code(action, place, backend):
        raise checker.Loss(f"{what}: exit code {code}, not {expected_code(action, place, backend)}: {said}")
    require_intact_checkpoints(run.folder)
    return seconds


def require_intact_checkpoints(run):
    for folder in (run / "checkpoints").glob("step-????????"):
        checker.read_state(folder)


def cases_of(quick, backends):
    if quick:
        return [("fail", "save", 1, "local"), ("stall", "forward", 1, "local"), ("throw", "collective", 1, "mpi")]
    return [(action, place, rank, backend) for backend in backends for place in PLACES for rank in (0, 1)
            for action in ("fail", "throw", "stall", "kill")
            if place != "recipe" or is_possible_in_recipe(action, rank, backend)]


def is_possible_in_recipe(action, rank, backend):
    """Rank 0 is the program that the user has started: what kills or halts it halts all, and is seen. Threads read one
    recipe."""
    if action in ("fail", "throw"):
        return backend == "mpi" or rank == 0
    return rank == 1 and backend == "mpi"


def failing_rank(runs, options):
    cases = [case for case in cases_of(options.quick, options.backends) if case[3] in options.backends]
    seconds, broken = [], []
    for case in cases:
        try:
            seconds.append(fail_once(runs, *case))
        except checker.Loss as loss:
            broken.append(str(loss))
    if broken:
        raise checker.Loss(f"{len(broken)} of {len(cases)}: " + "; ".join(broken))
    return f"{len(cases)} faults, all ended within {max(seconds):.1f} s, one line each"
