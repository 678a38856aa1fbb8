# SPDX-License-Identifier: Apache-2.0
"""Evaluates the pipeline in the timeline of a run (llmtrain run --trace)."""
import collections
import json


def windows(file):
    """Seconds of each step in the file, from the start of the first stage's first forward to the end of the last
    backward. The time of a pass in the file includes its wait for input, so the first passes of later ranks start too
    early."""
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
    """The bubble fraction of each step (docs/planner.md), given the total time of each rank's passes."""
    return [1 - busy_seconds / window for window in windows(file)]


def closed_form(pipeline, loops, micros):
    """The bubble fraction of any schedule with equal stages and free transfers (docs/planner.md)."""
    return (pipeline - 1) / (micros * loops + pipeline - 1)
