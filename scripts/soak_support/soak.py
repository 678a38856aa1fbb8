# SPDX-License-Identifier: Apache-2.0
"""Kills, stops and disturbs runs of the program, which must have been built with tests (scripts/build --tests), and
prints a table: what happened, what the program promises, what was measured. A separate checker judges weights, files and
processes; the first row shows that it finds planted losses. Exits with 1 if a promise is broken.

Takes about half an hour on two cores; --quick takes some seconds."""
import argparse
import pathlib
import shutil
import sys
import tempfile
import time

import checker
import failing_rank
import flips
import gradients
import kills
import layouts
import planted
import runs as run_support
import signals
import stops

CASES = (
    ("planted", "losses planted in good runs", "the checker finds each", planted.planted),
    ("fails", "a rank fails or hangs", "all end within 10 s, one voice, its exit code", failing_rank.failing_rank),
    ("kill-rank", "kill -9 of a random rank", "bitwise, lost ≤ interval, no orphan after 5 s", kills.killed_rank),
    ("kill-mpirun", "kill -9 of mpirun", "bitwise, lost ≤ interval, no orphan after 5 s", kills.killed_mpirun),
    ("signal", "SIGUSR1 at random moments", "exit 75, one step on all ranks, bitwise", stops.stopped_by_signal),
    ("signals", "any signal, at any process, any layout", "exit 75, one step on all ranks, bitwise", signals.signalled),
    ("file", "STOP file at random moments", "exit 75, one step on all ranks, bitwise", stops.stopped_by_file),
    ("limit", "time limit at random moments", "exit 75, one step on all ranks, bitwise", stops.stopped_by_limit),
    ("flip", "a bit flips in one of 4 replicas", "found and named within 5 steps", flips.flipped),
    ("gradient", "a gradient that is no number, or 2^20", "skipped in its step, all ranks alike", gradients.wrong_gradients),
    ("reload", "load in every layout of 1, 2, 4 ranks", "the same state; losses to 1e-5", layouts.reload_layouts),
    ("soak", "kill and resume in random layouts", "losses to 1e-5", layouts.soaked),
)
# What one run of tests/apps or another case has too is left out.
QUICK = {"planted", "fails", "kill-rank", "soak"}
NEEDS_MPI = {"kill-rank", "kill-mpirun", "signals"}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a few of some cases, as CI runs them")
    parser.add_argument("--case", action="append", choices=[name for name, *_ in CASES], help="only this one; repeatable")
    parser.add_argument("--cycles", type=int, default=200, help="of the case soak")
    parser.add_argument("--stops", type=int, default=60, help="of the case signals")
    parser.add_argument("--seed", default="1", help="of all random choices")
    parser.add_argument("--keep", action="store_true", help="keep the runs")
    options = parser.parse_args()
    options.backends = ("local", "mpi") if shutil.which("mpirun") else ("local",)
    return options


def judge(case, folder, options):
    """A row's last two cells."""
    name, _, _, check = case
    if name in NEEDS_MPI and "mpi" not in options.backends:
        return "skipped: no mpirun", True
    try:
        return check(run_support.Runs(options.program.resolve(), folder / name), options), True
    except checker.Loss as loss:
        return f"BROKEN: {loss}", False


def main():
    options = arguments()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-soak-"))
    kept = True
    print(f"{'case':<40} {'promise':<48} {'seconds':>7}  measured", flush=True)
    try:
        for case in CASES:
            if case[0] not in (options.case or (QUICK if options.quick else [name for name, *_ in CASES])):
                continue
            start = time.monotonic()
            measured, holds = judge(case, folder, options)
            kept = kept and holds
            print(f"{case[1]:<40} {case[2]:<48} {time.monotonic() - start:7.0f}  {measured}", flush=True)
    finally:
        if options.keep:
            print(f"the runs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
