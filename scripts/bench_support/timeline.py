# SPDX-License-Identifier: Apache-2.0
"""What a timeline of a run (llmtrain run --trace) says of its pipeline."""
import collections
import json


def windows(file):
    """Seconds of each step in the file from when a rank came to the first stage's first forward to the last end of a
    backward. A pass's time in the file has its wait for input in it, so later ranks' first passes begin too early."""
    starts, ends = collections.defaultdict(list), collections.defaultdict(list)
    for event in json.loads(file.read_text())["traceEvents"]:
        if event["ph"] != "X":
            continue
        step, instruction = event["args"]["step"], event["args"]["instruction"]
        if instruction.startswith("Forward stage 0 "):
            starts[step].append(event["ts"])
        if instruction.startswith("Backward"):
            ends[step].append(event["ts"] + event["dur"])
    return [(max(ends[step]) - min(starts[step])) * 1e-6 for step in sorted(starts)]


def bubbles(file, busy_seconds):
    """The bubble fraction of each step (docs/planner.md), where each rank's passes take so long in all."""
    return [1 - busy_seconds / window for window in windows(file)]


def closed_form(pipeline, loops, micros):
    """Of equal stages whose transfers are free: every schedule's (docs/planner.md)."""
    return (pipeline - 1) / (micros * loops + pipeline - 1)
