# SPDX-License-Identifier: Apache-2.0
"""Fits a table of efficiencies over a grid of sizes to measured operators, so that interpolating it as
parallel/plan/profile/operator_tables.cpp does comes nearest to them. Deterministic, without NumPy.

Interpolation is linear in the logarithms of sizes and efficiencies, so the fit is a linear least-squares problem in the
logarithms of the table's values, solved with conjugate gradients. A small penalty on the table's curvature decides
points that few measurements lie near; measurements that contradict their neighbours lose weight.
"""

import bisect
import itertools
import math

CURVATURE = 0.1  # weight of a second difference, relative to one measurement
REWEIGHTINGS = 2
USUAL_ERROR = 0.03  # of a logarithm: measurements that are off by less count in full
MOST_STEPS = 80


def place(axis, at):
    """The two neighbouring points of an axis with their weights; beyond the axis its end."""
    at = min(max(at, axis[0]), axis[-1])
    lower = min(bisect.bisect_right(axis, at) - 1, len(axis) - 2)
    fraction = (at - axis[lower]) / (axis[lower + 1] - axis[lower])
    return [(lower, 1 - fraction), (lower + 1, fraction)]


class Grid:
    """Axes of sizes; the table's values are in a flat list, the last axis fastest."""

    def __init__(self, axes):
        self.axes = axes
        self.logs = [[math.log2(size) for size in axis] for axis in axes]
        self.points = math.prod(map(len, axes))
        self.strides = [math.prod(map(len, axes[axis + 1 :])) for axis in range(len(axes))]

    def weights(self, sizes):
        """Which points a lookup reads, and how much of each."""
        found = [(0, 1.0)]
        for axis, size, stride in zip(self.logs, sizes, self.strides):
            found = [
                (offset + point * stride, weight * part)
                for offset, weight in found
                for point, part in place(axis, math.log2(size))
                if weight * part > 0
            ]
        return found

    def lines(self):
        """All neighbours along an axis: (axis, first point, number of points)."""
        for axis, stride in enumerate(self.strides):
            others = [range(len(a)) if i != axis else (0,) for i, a in enumerate(self.axes)]
            for place_of in itertools.product(*others):
                yield axis, sum(i * s for i, s in zip(place_of, self.strides)), stride

    def triples(self):
        """Three points in a row, for second differences, with the weights that make a straight line 0."""
        for axis, first, stride in self.lines():
            logs = self.logs[axis]
            for i in range(len(logs) - 2):
                before, after = logs[i + 1] - logs[i], logs[i + 2] - logs[i + 1]
                share = after / (before + after)
                at = first + i * stride
                yield at, at + stride, at + 2 * stride, share

    def read(self, table, sizes):
        """The interpolated efficiency, from a table of efficiencies."""
        return math.exp(sum(weight * math.log(table[point]) for point, weight in self.weights(sizes)))


def steepest(exponents):
    """What fit() takes where an efficiency grows at most with these powers of the sizes; None where it does not
    matter."""

    def growth_of(grid):
        def growth(axis, point, after):
            if exponents[axis] is None:
                return math.inf
            stride, logs = grid.strides[axis], grid.logs[axis]
            return exponents[axis] * (logs[after // stride % len(logs)] - logs[point // stride % len(logs)]) * math.log(2)

        return growth

    return growth_of


def fit(grid, shapes, efficiencies, growth):
    """The table nearest to the measured efficiencies. `growth`: of an axis and two neighbouring points the most that the
    logarithm of the efficiency may grow from the first to the second, so that more work never takes less time."""
    rows = [grid.weights(shape) for shape in shapes]
    wanted = [math.log(value) for value in efficiencies]
    curvature = list(grid.triples())
    table = [sum(wanted) / len(wanted)] * grid.points
    importance = [1.0] * len(rows)
    for again in range(REWEIGHTINGS + 1):
        table = solve(rows, wanted, importance, curvature, table)
        if again == REWEIGHTINGS:
            break
        errors = [abs(value - looked_up(table, row)) for row, value in zip(rows, wanted)]
        importance = [USUAL_ERROR / max(USUAL_ERROR, error) for error in errors]
    flatten(grid, table, growth)
    return [float(f"{min(math.exp(value), 1):.3g}") for value in table]


def looked_up(table, row):
    """The interpolated value of a table of logarithms."""
    return sum(weight * table[point] for point, weight in row)


def solve(rows, wanted, importance, curvature, table):
    """Weighted linear least squares by conjugate gradients, from a first guess."""

    def normal(vector):
        result = [1e-6 * value for value in vector]
        for row, weight in zip(rows, importance):
            value = weight * looked_up(vector, row)
            for point, part in row:
                result[point] += part * value
        for first, middle, last, share in curvature:
            value = CURVATURE * (share * vector[first] + (1 - share) * vector[last] - vector[middle])
            result[first] += share * value
            result[last] += (1 - share) * value
            result[middle] -= value
        return result

    right = [0.0] * len(table)
    for row, value, weight in zip(rows, wanted, importance):
        for point, part in row:
            right[point] += weight * part * value
    rest = [a - b for a, b in zip(right, normal(table))]
    direction, length = rest, sum(value * value for value in rest)
    for _ in range(MOST_STEPS):
        if length < 1e-9 * len(rows):
            break
        image = normal(direction)
        step = length / sum(a * b for a, b in zip(direction, image))
        table = [a + step * b for a, b in zip(table, direction)]
        rest = [a - step * b for a, b in zip(rest, image)]
        before, length = length, sum(value * value for value in rest)
        direction = [a + length / before * b for a, b in zip(rest, direction)]
    return table


def flatten(grid, table, growth):
    """Lowers values of the table of logarithms until none grows faster along an axis than allowed."""
    changed = True
    while changed:
        changed = False
        for axis, first, stride in grid.lines():
            for i in range(len(grid.axes[axis]) - 1):
                at = first + i * stride
                most = table[at] + growth(axis, at, at + stride)
                if table[at + stride] > most + 1e-9:
                    table[at + stride] = most
                    changed = True
