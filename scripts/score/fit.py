# SPDX-License-Identifier: Apache-2.0
"""Fits profiles, and the facts that programs share, to the rows that are not held out, through the score tool itself.

Every parameter has a range and an initial value that regularises it; devices of one type share parameters. Errors
beyond a few percent count by their logarithm, so that rows that contradict their neighbours do not distort the fit.
Needs SciPy.
"""

import json
import math
import subprocess

import score

A100 = ("a100-80gb", "a100-80gb-800gbps")
H100 = ("h100-sxm-80gb",)
TOGETHER = {"G": A100 + H100, "A": A100, "a100-80gb": A100[:1], "a100-80gb-800gbps": A100[1:], "H": H100}

# (pointer or key of a program, initial value, minimum, maximum)
DEVICE = (
    ("/matrix/peak_fraction", 0.80, 0.6, 0.95),
    ("/matrix/inner_half", 200, 10, 1500),
    ("/matrix/outer_half", 800, 100, 4000),
    ("/attention/forward_fraction", 0.55, 0.2, 0.75),
    ("/attention/backward_fraction", 0.45, 0.15, 0.85),
    ("/memory/fraction", 0.8, 0.4, 0.95),
    ("/memory/half_bytes", 1e6, 1e4, 1e7),
    ("/host/operator_seconds", 4e-5, 1e-6, 2e-4),
    ("/device/kernel_seconds", 3e-6, 1e-6, 1e-5),
    ("/node/link_efficiency", 0.75, 0.4, 0.95),
    ("/compute_slowdown", 0.2, 0.02, 0.6),
)
NETWORK = (
    ("/network/efficiency", 0.7, 0.2, 0.98),
    ("/network/point_to_point_efficiency", 0.6, 0.1, 0.98),
    ("/network/latency_seconds", 2e-5, 3e-6, 1e-4),
)
HOST = (
    ("/host/step_seconds", 2e-3, 1e-4, 3e-2),
    ("/host/tensor_seconds", 1e-5, 1e-7, 2e-4),
    ("/host/micro_batch_seconds", 1e-3, 1e-5, 1e-2),
)
CONSTANTS = (
    ("traffic.elementwise", 1.2, 0.8, 3),
    ("traffic.softmax_forward", 1.0, 0.6, 2.5),
    ("traffic.softmax_backward", 1.0, 0.6, 2.5),
    ("traffic.cross_entropy", 2.5, 0.5, 4.5),
    ("traffic.cast", 1.0, 0.3, 3),
    ("traffic.optimizer", 1.0, 0.7, 4),
    ("overlap.sequence_regather", 0.5, 0.01, 1),
    ("host.backward", 0.3, 0.02, 1),
    ("host.blocking_transfer", 2, 1, 6),
)


def parameters():
    """All fitted parameters: (owner, name, initial value, minimum, maximum)."""
    found = [("", *constant) for constant in CONSTANTS]
    found += [("G", *key) for key in HOST]
    for owner in ("A", "H"):
        found += [(owner, *key) for key in DEVICE]
    found.append(("H", "/matrix/fp8_peak_fraction", 0.65, 0.4, 0.95))
    for owner in ("a100-80gb", "a100-80gb-800gbps", "H"):
        found += [(owner, *key) for key in NETWORK]
    return found


def overrides(found, values):
    """The input of the score tool."""
    result = {"program": {}, "profiles": {}}
    for (owner, name, *_), value in zip(found, values):
        if not owner:
            section, key = name.split(".")
            result["program"].setdefault(section, {})[key] = value
        for profile in TOGETHER.get(owner, ()):
            result["profiles"].setdefault(profile, {})[name] = value
    return result


class Tool:
    """The score tool, kept running."""

    def __init__(self, command, rows):
        self.process = subprocess.Popen(command + ["--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(rows):
            self.process.stdout.readline()

    def predict(self, changes):
        self.process.stdin.write(json.dumps(changes) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def fit(command, rows, rounds, start=None):
    """Returns the overrides that fit the rows best; `start` in the order of parameters(), else the initial values."""
    import numpy
    from scipy.optimize import least_squares

    found = parameters()
    tool = Tool(command, len(rows))
    chosen = [i for i, row in enumerate(rows) if not row["held_out"] and is_time(row)]
    counts = {}
    for i in chosen:
        counts[rows[i]["source"]] = counts.get(rows[i]["source"], 0) + 1
    weights = numpy.array([counts[rows[i]["source"]] ** -0.2 for i in chosen])
    guesses = numpy.array([math.log(p[2]) for p in found])

    def residuals(logarithms):
        predicted = tool.predict(overrides(found, [math.exp(x) for x in logarithms]))
        errors = [math.log(predicted[i] / rows[i]["value"]) for i in chosen]
        return numpy.concatenate([weights * errors / 0.05, 0.1 * (logarithms - guesses)])

    low = numpy.array([math.log(p[3]) for p in found])
    high = numpy.array([math.log(p[4]) for p in found])
    first = guesses if start is None else numpy.clip([math.log(s) for s in start], low + 1e-6, high - 1e-6)
    best = least_squares(residuals, first, bounds=(low, high), loss="cauchy", max_nfev=rounds, diff_step=1e-3)
    return overrides(found, [float(f"{math.exp(x):.3g}") for x in best.x])


def is_time(row):
    """Whether the row measures time."""
    return row["predicted"] is not None and row["metric"] not in score.NOT_TIME and not row["inexact"]
