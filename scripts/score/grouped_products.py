# SPDX-License-Identifier: Apache-2.0
"""Grouped products from measured forwards of experts, for scripts/operator_tables.

EXPERTS is a CSV file of columns device, tokens, hidden, ffn, top_k, experts, expert_ranks, distribution and
microseconds, in bf16: the forward of the experts that one of so many ranks holds, with the copies of tokens to their
rows, the activation and the sum over a token's experts, which are taken off as passes over memory are priced. Two
products remain, up (with the gate) and down, whose efficiencies are relative to their rooflines.
"""

import collections
import csv
import itertools
import math
import random
import statistics

import measured
import operator_grid

AXES = {
    "rows": (8, 32, 64, 128, 256, 512, 1024, 4096),
    "experts": (1, 2, 8, 64, 512),
    "elements": (3 * 2**19, 3 * 2**21, 3 * 2**23, 3 * 2**25 + 3 * 2**24),
}
ELEMENT_BYTES = 2
PASSES = 3  # copies to rows, activation, sums
# Models of the file whose experts have no gate (Nemotron's squared ReLU).
WITHOUT_GATE = {(2688, 1856), (2048, 5120), (8192, 5120)}
# A measurement that takes longer by more than this factor than one of more work contradicts it: where rows are between
# two powers of two, libraries take the kernel that is best for the smaller one.
MOST_CONTRADICTION = 1.05
DRAWS = 40
EVEN = "balanced"

Shape = collections.namedtuple("Shape", "rows experts hidden ffn inputs tokens")


def products(shape):
    """Rows, columns, inner size and number of the two products."""
    yield shape.rows, shape.inputs * shape.ffn, shape.hidden, shape.experts
    yield shape.rows, shape.hidden, shape.ffn, shape.experts


def roofline(product, peak, bandwidth):
    """Seconds at the peak, or of the bytes at the bandwidth, whichever is longer."""
    rows, columns, inner, experts = product
    moved = ELEMENT_BYTES * experts * (inner * (rows + columns) + rows * columns)
    return max(2 * experts * rows * columns * inner / peak, moved / bandwidth)


def busiest_rows(tokens, top_k, experts, ranks, exponent):
    """Rows of the rank that has most, where AIConfigurator draws the experts' shares from a power law: the median."""
    draw, least, most = random.Random(1), 1.0, (0.8 * tokens) ** (1 - exponent)
    found = []
    for _ in range(DRAWS):
        shares = [((most - least) * draw.random() + least) ** (1 / (1 - exponent)) for _ in range(experts)]
        local = experts // ranks
        # A token has an expert once.
        shares = [min(share / sum(shares), 1 / top_k) for share in shares]
        found.append(max(sum(shares[i : i + local]) for i in range(0, experts, local)))
    return statistics.median(found) * tokens * top_k


def shape_of(row):
    """A row's shape, with the rows of the busiest rank."""
    tokens, hidden, ffn = int(row["tokens"]), int(row["hidden"]), int(row["ffn"])
    experts, ranks, top_k = int(row["experts"]), int(row["expert_ranks"]), int(row["top_k"])
    rows = tokens * top_k / ranks
    if row["distribution"] != EVEN:
        rows = busiest_rows(tokens, top_k, experts, ranks, float(row["distribution"].removeprefix("power_law_")))
    local = experts // ranks
    return Shape(rows / local, local, hidden, ffn, 1 if (hidden, ffn) in WITHOUT_GATE else 2, min(tokens, rows))


def read(file):
    """{device: {shape: seconds}} of even loads; of a device without these, of the busiest rank of uneven ones."""
    rows = list(csv.DictReader(file.open()))
    with_even = {row["device"] for row in rows if row["distribution"] == EVEN}
    times = {}
    for row in rows:
        if row["distribution"] == EVEN or row["device"] not in with_even:
            of = times.setdefault(row["device"], {})
            of.setdefault(shape_of(row), []).append(float(row["microseconds"]) * 1e-6)
    return {device: {shape: statistics.mean(list_) for shape, list_ in of.items()} for device, of in times.items()}


def consistent(seconds):
    """Without measurements that contradict one of as much work or more."""
    places = sorted(seconds)

    def is_more(other, shape):
        return all(a >= 0.999 * b for a, b in zip(other[:5], shape[:5]))

    return {
        shape: seconds[shape]
        for shape in places
        if seconds[shape] <= MOST_CONTRADICTION * min(seconds[other] for other in places if is_more(other, shape))
    }


class MeasuredExperts(measured.Measured):
    """Grouped products in bf16 on one device. Errors are those of the whole forward."""

    def __init__(self, device, seconds, numbers):
        profile = measured.device_of(device)
        self.peak, self.bandwidth = profile["peak_flops"]["bf16"], profile["memory_bandwidth"]
        self.numbers = numbers
        self.seconds = consistent(seconds)
        self.contradicting = len(seconds) - len(self.seconds)
        efficiencies = {shape: self.efficiency(shape) for shape in self.seconds}
        super().__init__(AXES, self.steepest, efficiencies, lambda shape: (shape.hidden, shape.ffn))

    def at(self, shape):
        mean = statistics.mean(columns * inner for _, columns, inner, _ in products(shape))
        return shape.rows, shape.experts, mean

    def fit(self, left_out=()):
        kept = [i for i in range(len(self.shapes)) if i not in left_out]
        # Where nothing near was measured, products that are not bound by memory are as far from the peak as the best.
        best = max(self.efficiencies[i] for i in kept if self.shapes[i].rows >= self.axes["rows"][-3])
        best = float(f"{best:.3g}")  # as the others
        return [min(value, best) if bound else value for value, bound in zip(super().fit(left_out), self.at_peak())]

    def at_peak(self):
        """Whether the peak is the roofline, by point."""
        for rows, experts, elements in itertools.product(*self.grid.axes):
            side = math.sqrt(elements)
            product = rows, side, side, experts
            yield roofline(product, self.peak, math.inf) >= roofline(product, math.inf, self.bandwidth)

    def rooflines(self, shape):
        """The rooflines of both products."""
        return [roofline(product, self.peak, self.bandwidth) for product in products(shape)]

    def passes(self, shape):
        """Seconds of the passes over memory, as plans price them."""
        rows = shape.rows * shape.experts
        elements = 2 * (rows + shape.tokens) * shape.hidden + rows * (shape.inputs + 1) * shape.ffn
        bandwidth = self.bandwidth * self.numbers["memory_fraction"]
        return PASSES * self.numbers["memory_seconds"] + ELEMENT_BYTES * elements / bandwidth

    def efficiency(self, shape):
        """That of both products together."""
        least = sum(self.rooflines(shape))
        return least / max(least, self.seconds[shape] - self.passes(shape))

    def ratio(self, table, index):
        shape = self.shapes[index]
        planned = self.passes(shape)
        for product, seconds in zip(products(shape), self.rooflines(shape)):
            rows, columns, inner, experts = product
            planned += seconds / self.grid.read(table, (rows, experts, columns * inner))
        return planned / self.seconds[shape]

    def steepest(self, grid):
        """An efficiency grows at most as the roofline does, so that more work never takes less time."""
        work = []
        for rows, experts, elements in itertools.product(*grid.axes):
            side = math.sqrt(elements)
            work.append(math.log(roofline((rows, side, side, experts), self.peak, self.bandwidth)))
        return lambda _, point, after: work[after] - work[point]
