# SPDX-License-Identifier: Apache-2.0
"""Fits profiles, and the facts that programs share, to the rows of FITTED that are not held out, through the score tool
itself.

Every parameter has a range and an initial value that regularises it; devices of one type share parameters. Errors
beyond a few percent count by their logarithm, so that rows that contradict their neighbours do not distort the fit.
"""

import json
import math
import subprocess

import least_squares
import score

FITTED = ("calibration.csv",)
A100 = ("a100-80gb", "a100-80gb-800gbps")
H100 = ("h100-sxm-80gb",)
TOGETHER = {"G": A100 + H100, "A": A100, "a100-80gb": A100[:1], "a100-80gb-800gbps": A100[1:], "H": H100}

# (pointer or key of a program, initial value, minimum, maximum). What is measured or counted is not fitted, as its file
# or parallel/plan/profile/program.h says: kernels' gaps, links, the latency and efficiency of networks but that of
# vTrain's cluster, A100's passes over memory and attention's forward, and traffic but that of the softmax's backward.
DEVICE = (
    ("/matrix/peak_fraction", 0.80, 0.6, 0.95),
    ("/matrix/inner_half", 200, 10, 1500),
    ("/matrix/outer_half", 800, 100, 4000),
    ("/attention/backward_fraction", 0.45, 0.15, 0.85),
    ("/memory/half_bytes", 1e6, 1e4, 1e7),
    ("/host/operator_seconds", 4e-5, 1e-6, 2e-4),
)
# What was measured of a constant beside the rows replaces its initial value, and counts like a row that is off by the
# measurement's error: (value, error of its logarithm). BigScience's runs on 80 A100 with and without
# CUDA_LAUNCH_BLOCKING=1 (91.04 and 97.20 TFLOP/s; bigscience-workshop/bigscience, train/tr11-176B-ml/
# chronicles-prequel.md) differ by 3.5 ms for each layer and micro-batch, in which the host launches what counts as
# about 27 forward operators. On 160 GPUs two such pairs hardly differ, though both runs of one of them are a tenth slower
# than their larger bubble explains: the time is known within a factor of two, not better.
MEASURED = {("A", "/host/operator_seconds"): (1.27e-4, math.log(2))}
NETWORK = {
    "a100-80gb": (("/network/point_to_point_efficiency", 0.6, 0.1, 0.98),),
    # NCCL's all-reduces between two nodes reach 75 % of eight adapters of 100 Gb/s, "roughly matching our expectation"
    # (NVIDIA/nccl, issue 495): with more nodes and other traffic less.
    "a100-80gb-800gbps": (("/network/efficiency", 0.7, 0.3, 0.98), ("/network/latency_seconds", 2e-5, 3e-6, 1e-4)),
    "H": (("/network/point_to_point_efficiency", 0.6, 0.1, 0.98),),
}
HOST = (
    ("/host/step_seconds", 2e-3, 1e-4, 3e-2),
    ("/host/tensor_seconds", 1e-5, 1e-7, 2e-4),
    ("/host/micro_batch_seconds", 1e-3, 1e-5, 1e-2),
    # Collectives are kernels of one library, which take as many multiprocessors on all devices.
    ("/compute_slowdown", 0.2, 0.02, 0.6),
)
CONSTANTS = (
    ("traffic.softmax_backward", 1.0, 0.6, 4),
    ("overlap.sequence_regather", 0.5, 0.01, 1),
    ("host.backward", 0.3, 0.02, 1),
    ("host.blocking_transfer", 2, 1, 6),
)

ROW_ERROR = 0.05  # an error that a row of a source alone counts with one
PRIOR = 0.1  # weight of a parameter's logarithm around an initial value that nobody measured


def parameters():
    """All fitted parameters: (owner, name, initial value, minimum, maximum)."""
    found = [("", *constant) for constant in CONSTANTS]
    found += [("G", *key) for key in HOST]
    for owner in ("A", "H"):
        found += [(owner, name, MEASURED.get((owner, name), (guess,))[0], *bounds) for name, guess, *bounds in DEVICE]
    for key in (
        ("/matrix/fp8_peak_fraction", 0.65, 0.4, 0.95),
        ("/attention/forward_fraction", 0.55, 0.2, 0.75),
        ("/memory/fraction", 0.8, 0.4, 0.95),
    ):
        found.append(("H", *key))
    found += [(owner, *key) for owner, keys in NETWORK.items() for key in keys]
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

    def __init__(self, command):
        self.process = subprocess.Popen(command + ["--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # It begins with a line for each row, and the values that programs have.
        self.facts, self.rows = None, []
        while self.facts is None:
            line = json.loads(self.process.stdout.readline())
            self.facts = line.get("facts")
            if self.facts is None:
                self.rows.append(line)

    def predict(self, changes):
        """The predictions of all rows."""
        self.process.stdin.write(json.dumps(changes) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends the tool."""
        self.process.communicate()


class Fit:
    """The fit of all parameters to the rows that are not held out, from the values that the recipes have."""

    def __init__(self, tool, recipes):
        self.tool = tool
        self.parameters = parameters()
        self.chosen = [i for i, row in enumerate(tool.rows) if not row["held_out"] and is_time(row)]
        counts = {}
        for i in self.chosen:
            counts[tool.rows[i]["source"]] = counts.get(tool.rows[i]["source"], 0) + 1
        # Sources of many rows count more, but less than in proportion.
        self.weights = [counts[tool.rows[i]["source"]] ** -0.2 / ROW_ERROR for i in self.chosen]
        self.guesses = [math.log(p[2]) for p in self.parameters]
        self.priors = [1 / MEASURED[p[:2]][1] if p[:2] in MEASURED else PRIOR for p in self.parameters]
        self.low = [math.log(p[3]) for p in self.parameters]
        self.high = [math.log(p[4]) for p in self.parameters]
        self.start = [self.clipped(i, math.log(value)) for i, value in enumerate(self.stated(recipes))]

    def clipped(self, index, logarithm):
        """Within the parameter's range."""
        return min(max(logarithm, self.low[index]), self.high[index])

    def stated(self, recipes):
        """The values of all parameters in the recipes and in llmtrain."""
        for owner, name, *_ in self.parameters:
            if not owner:
                section, key = name.split(".")
                yield self.tool.facts[section][key]
                continue
            value = json.loads((recipes / "clusters" / f"{TOGETHER[owner][0]}.json").read_text())
            for key in name.strip("/").split("/"):
                value = value[key]
            yield value

    def sources(self):
        """In the order of the rows."""
        return list(dict.fromkeys(self.tool.rows[i]["source"] for i in self.chosen))

    def predict(self, logarithms):
        """The predictions of all rows."""
        return self.tool.predict(overrides(self.parameters, [math.exp(x) for x in logarithms]))

    def residuals(self, logarithms):
        """How far the chosen rows are from their values, then the parameters from their guesses."""
        predicted = self.predict(logarithms)
        of_rows = [
            weight * math.log(predicted[i] / self.tool.rows[i]["value"]) for weight, i in zip(self.weights, self.chosen)
        ]
        return of_rows + [prior * (x - guess) for prior, x, guess in zip(self.priors, logarithms, self.guesses)]

    def without(self, source):
        """Which residuals remain when a source is left out: a list of their indices."""
        kept = [place for place, i in enumerate(self.chosen) if self.tool.rows[i]["source"] != source]
        return kept + list(range(len(self.chosen), len(self.chosen) + len(self.parameters)))

    def problem(self, kept=None):
        """For least_squares."""
        if kept is None:
            return least_squares.Problem(self.residuals, self.low, self.high)
        return least_squares.Problem(lambda x: pick(self.residuals(x), kept), self.low, self.high)


def pick(values, kept):
    """The values at these indices."""
    return [values[index] for index in kept]


def fit(found, rounds, steps=12):
    """Fits with `rounds` Jacobians, and returns the logarithms of the parameters and their residuals."""
    problem, at = found.problem(), found.start
    values = problem.residuals(at)
    for _ in range(rounds):
        at, values = least_squares.improve(problem, at, values, problem.jacobian(at, values), steps)
    return at, values


def as_overrides(found, logarithms):
    """Rounded, as the recipes state them."""
    return overrides(found.parameters, [float(f"{math.exp(x):.3g}") for x in logarithms])


def is_time(row):
    """Whether the row measures time."""
    return row["predicted"] is not None and row["metric"] not in score.NOT_TIME and not row["inexact"]
