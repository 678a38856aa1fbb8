# SPDX-License-Identifier: Apache-2.0
"""Robust least squares within bounds, for a few dozen parameters of a function that is slow: Levenberg and Marquardt's
steps with Broyden's updates between Jacobians, so that most steps cost one evaluation. Deterministic, without NumPy.

Minimises the sum of log(1 + r²) over the residuals r (Cauchy's loss): rows that contradict the others lose weight.
"""

import dataclasses
import math

DIFFERENCE = 1e-3  # of a parameter, for a Jacobian by forward differences


@dataclasses.dataclass
class Problem:
    """`residuals` maps a list of parameters to a list of numbers; `low` and `high` bound each parameter."""

    residuals: object
    low: list
    high: list

    def jacobian(self, at, values):
        """One row per parameter: the derivatives of all residuals. Steps away from the nearer bound."""
        rows = []
        for index, value in enumerate(at):
            step = DIFFERENCE if value + DIFFERENCE <= self.high[index] else -DIFFERENCE
            moved = self.residuals(at[:index] + [value + step] + at[index + 1 :])
            rows.append([(after - before) / step for after, before in zip(moved, values)])
        return rows


def cost_of(values):
    """What is minimised."""
    return sum(math.log1p(value * value) for value in values)


def solve(matrix, vector):
    """The solution of a symmetric positive definite system, by Cholesky's decomposition."""
    size = len(vector)
    lower = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            left = matrix[row][column] - sum(a * b for a, b in zip(lower[row][:column], lower[column][:column]))
            lower[row][column] = math.sqrt(left) if row == column else left / lower[column][column]
    halfway = []
    for row in range(size):
        halfway.append((vector[row] - sum(a * b for a, b in zip(lower[row], halfway))) / lower[row][row])
    found = [0.0] * size
    for row in reversed(range(size)):
        known = sum(lower[other][row] * found[other] for other in range(row + 1, size))
        found[row] = (halfway[row] - known) / lower[row][row]
    return found


def step_of(problem, at, values, jacobian, damping):
    """A damped Gauss-Newton step. Parameters on a bound that the gradient pushes outwards stay there."""
    weights = [1 / (1 + value * value) for value in values]
    weighted = [[w * d for w, d in zip(weights, row)] for row in jacobian]
    gradient = [sum(d * value for d, value in zip(row, values)) for row in weighted]
    free = [
        index
        for index, slope in enumerate(gradient)
        if not (at[index] <= problem.low[index] and slope > 0 or at[index] >= problem.high[index] and slope < 0)
    ]
    matrix = [[sum(a * b for a, b in zip(weighted[row], jacobian[column])) for column in free] for row in free]
    for place, row in enumerate(matrix):
        row[place] *= 1 + damping
    changes = solve(matrix, [-gradient[index] for index in free])
    step = [0.0] * len(at)
    for index, change in zip(free, changes):
        step[index] = min(max(at[index] + change, problem.low[index]), problem.high[index]) - at[index]
    return step


def improve(problem, at, values, jacobian, steps):
    """Takes up to `steps` steps from one Jacobian; returns the best parameters and their residuals."""
    jacobian = [list(row) for row in jacobian]
    damping, cost = 1e-2, cost_of(values)
    for _ in range(steps):
        step = step_of(problem, at, values, jacobian, damping)
        length = sum(change * change for change in step)
        if length < 1e-10:
            break
        reached = [value + change for value, change in zip(at, step)]
        moved = problem.residuals(reached)
        # Broyden's update: the Jacobian nearest to the old one that explains what this step did.
        expected = [sum(change * d for change, d in zip(step, column)) for column in zip(*jacobian)]
        missed = [after - before - planned for after, before, planned in zip(moved, values, expected)]
        for row, change in zip(jacobian, step):
            if change:
                row[:] = [d + miss * change / length for d, miss in zip(row, missed)]
        if cost_of(moved) < cost:
            at, values, cost, damping = reached, moved, cost_of(moved), damping / 4
        else:
            damping = max(damping, 1e-3) * 8
    return at, values
