# SPDX-License-Identifier: Apache-2.0
"""usage: score_test.py SCORE_TOOL INFERENCE_TOOL

Tests the fit of the planner's constants with problems whose solution is known, and that docs/planner.md and
docs/inference.md state what the tools find.
"""

import math
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "score"))

import fit  # noqa: E402
import generality  # noqa: E402
import least_squares  # noqa: E402
import leave_one_out  # noqa: E402
import score  # noqa: E402
import score_inference  # noqa: E402

TOOL = sys.argv.pop(1)
INFERENCE_TOOL = sys.argv.pop(1)


class LeastSquares(unittest.TestCase):
    def test_solves_a_system(self):
        self.assertEqual(least_squares.solve([[4.0, 2.0], [2.0, 5.0]], [8.0, 12.0]), [1.0, 2.0])

    def find(self, residuals, at, low, high, jacobians=3):
        problem = least_squares.Problem(residuals, low, high)
        values = residuals(at)
        for _ in range(jacobians):
            at, values = least_squares.improve(problem, at, values, problem.jacobian(at, values), 12)
        return at

    def test_finds_the_minimum_of_a_curved_function(self):
        # Rosenbrock's: 1 at (1, 1), along a bent valley.
        found = self.find(lambda x: [10 * (x[1] - x[0] ** 2), 1 - x[0]], [0.5, 0.5], [-9, -9], [9, 9], 6)
        self.assertAlmostEqual(found[0], 1, 4)
        self.assertAlmostEqual(found[1], 1, 4)

    def test_stays_within_bounds_and_moves_the_others_to_their_best(self):
        # The least of (x + y − 3)² + (y − 1)² with x at most 1 is at y = 3 / 2.
        found = self.find(lambda x: [0.01 * (x[0] + x[1] - 3), 0.01 * (x[1] - 1)], [0.0, 0.0], [-1, -9], [1, 9])
        self.assertEqual(found[0], 1)
        self.assertAlmostEqual(found[1], 1.5, 3)

    def test_one_wild_row_does_not_move_the_rest(self):
        # Nine rows say 1, one says 100: their mean is 10.9, Cauchy's estimate stays at 1.
        found = self.find(lambda x: [x[0] - 1] * 9 + [x[0] - 100], [2.0], [-999], [999])
        self.assertAlmostEqual(found[0], 1, 2)


class TwoSources:
    """A tool of three rows from two sources, whose predictions are products of two constants."""

    facts = {"traffic": {"first": 1.0, "second": 2.0}}

    def __init__(self):
        self.rows = [self.row("A", 1.0), self.row("A", 1.0), self.row("B", 6.0)]

    @staticmethod
    def row(source, value):
        keys = {"metric": "step_seconds", "held_out": False, "inexact": "", "predicted": 2.0, "unit": "s"}
        return {"source": source, "value": value, "recipes": [], **keys}

    @staticmethod
    def predict(changes):
        facts = changes["program"]["traffic"]
        return [facts["first"], facts["first"], facts["first"] * facts["second"]]


class LeaveOneOut(unittest.TestCase):
    def setUp(self):
        constants = [("", "traffic.first", 1.0, 0.1, 10.0), ("", "traffic.second", 2.0, 0.1, 10.0)]
        self.kept, fit.parameters = fit.parameters, lambda: constants
        self.described, score.describe = score.describe, lambda row: row["source"]
        self.found = fit.Fit(TwoSources(), ROOT / "recipes")
        self.values = self.found.residuals(self.found.start)
        self.jacobian = self.found.problem().jacobian(self.found.start, self.values)

    def tearDown(self):
        fit.parameters, score.describe = self.kept, self.described

    def test_a_source_that_is_left_out_keeps_what_the_others_say(self):
        lines, reached = leave_one_out.leave_one_out(self.found, self.jacobian, self.values)
        self.assertEqual([line[:2] for line in lines], [("A", 2), ("B", 1)])
        # Without B nothing says that first × second is 6: it stays at 1 × 2.
        mean, largest, bias = lines[1][3]
        self.assertAlmostEqual(mean, 100 * (1 - 2 / 6), 1)
        self.assertEqual((largest, abs(bias)), (mean, mean))
        # Without A both constants share the factor of 3 that B asks for, as the initial values weigh the same.
        first, second = (math.exp(x) for x in reached["A"])
        self.assertAlmostEqual(first * second, 6, 1)
        self.assertAlmostEqual(first, math.sqrt(3), 1)

    def test_a_measured_constant_stays_as_near_as_it_was_measured(self):
        fit.MEASURED[("", "traffic.first")] = (1.0, 0.01)
        self.addCleanup(fit.MEASURED.pop, ("", "traffic.first"))
        self.found = fit.Fit(TwoSources(), ROOT / "recipes")
        values = self.found.residuals(self.found.start)
        jacobian = self.found.problem().jacobian(self.found.start, values)
        _, reached = leave_one_out.leave_one_out(self.found, jacobian, values)
        first, second = (math.exp(x) for x in reached["A"])
        self.assertAlmostEqual(first, 1, 2)
        self.assertAlmostEqual(second, 6, 1)

    def test_says_which_source_decides_a_constant(self):
        lines = list(leave_one_out.constants(self.found, self.jacobian, self.values, {}))
        self.assertEqual([line[4] for line in lines], ["one source: A 100 %", "one source: B 100 %"])
        self.assertEqual([line[5] for line in lines], ["A", "B"])


class Generality(unittest.TestCase):
    """scripts/score/generality.py, on rows made up here."""

    @staticmethod
    def row(program, predicted, share=0.5, **others):
        made = {"source": "A", "metric": "step_seconds", "value": 1.0, "predicted": predicted, "memory_share": share}
        return {**made, "inexact_memory": "", "recipes": [{"cluster": {"program": program}}], **others}

    def test_a_spread_is_mean_largest_and_bias(self):
        self.assertEqual(generality.spread([10.0, -20.0]), "15.0, 20.0, -5.0")

    def test_compares_the_rows_of_programs_with_a_file_alone(self):
        rows = [self.row("nemo", 1.1), self.row(generality.UNNAMED, 3.0), self.row("nemo", 0.8)]
        unnamed = [self.row(generality.UNNAMED, predicted) for predicted in (1.5, 3.0, 1.5)]
        lines = list(generality.unnamed_lines(rows, unnamed))
        self.assertEqual(lines, [("A", 2, "15.0, 20.0, -5.0", "50.0, 50.0, +50.0")])

    def test_finds_runs_that_need_more_than_there_is(self):
        rows = [self.row("nemo", 1, share) for share in (0.9, 1.0, 1.01, 1.2)]
        rows.append(self.row("nemo", 1, 1.3, inexact_memory="weights are smaller"))
        self.assertEqual([row["memory_share"] for row in generality.unfit(rows)], [1.2, 1.01])


class Serving(unittest.TestCase):
    """scripts/score/score_inference.py, on rows made up here."""

    row = {"expert_tensor": "1", "expert": "1", "tensor": "1", "batch": "8", "generated": "11"}

    def test_rows_without_a_layout_count_nowhere(self):
        self.assertTrue(score_inference.states_layout(self.row))
        self.assertFalse(score_inference.states_layout({**self.row, "expert_tensor": "0", "expert": "0"}))

    def test_experts_may_be_on_more_devices_than_attention(self):
        self.assertEqual(score_inference.devices_of({**self.row, "tensor": "2"}), 2)
        self.assertEqual(score_inference.devices_of({**self.row, "tensor": "2", "expert_tensor": "2", "expert": "4"}), 8)

    def test_finds_servers_that_ran_a_few_of_the_requests(self):
        # Answers of 10 further tokens of 1 ms: a quarter of the time where the first token takes 30.
        for first, running, expected in (("31", 8, True), ("29", 8, False), ("31", 2, False)):
            row = {**self.row, "per_token_ms": "1", "first_token_ms": first}
            self.assertEqual(score_inference.ran_fewer(row, {"running": running}), expected)


class Document(unittest.TestCase):
    """docs/planner.md states what the tool finds today."""

    def setUp(self):
        self.text = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")

    def test_states_the_errors_of_all_sources(self):
        command = [TOOL, str(ROOT / "recipes"), *(str(ROOT / "recipes/published" / name) for name in score.FILES)]
        rows = [row for row in score.read_rows(command) if row["predicted"] is not None and not row["inexact"]]
        missing = [line for line in score.markdown(rows) if line not in self.text]
        self.assertEqual(missing, [], "scripts/score_planner --markdown prints the table of docs/planner.md")

    def test_states_the_errors_without_programs(self):
        command = [TOOL, str(ROOT / "recipes"), *(str(ROOT / "recipes/published" / name) for name in score.FILES)]
        both = [
            [row for row in score.read_rows(command + more) if row["predicted"] is not None and not row["inexact"]]
            for more in ([], ["--as=" + generality.UNNAMED])
        ]
        missing = [line for line in generality.unnamed_table(*both) if line not in self.text]
        self.assertEqual(missing, [], "scripts/score_planner --without-programs prints the table of docs/planner.md")

    def test_states_the_errors_of_served_models(self):
        text = (ROOT / "docs" / "inference.md").read_text(encoding="utf-8")
        missing = [
            line
            for line in score_inference.markdown(score_inference.planned_rows(INFERENCE_TOOL))
            if line not in text
        ]
        self.assertEqual(missing, [], "scripts/score_planner --inference prints the table of docs/inference.md")

    def test_lists_all_fitted_constants_with_their_values(self):
        tool = fit.Tool([TOOL, str(ROOT / "recipes"), str(ROOT / "recipes/published/calibration.csv")])
        self.addCleanup(tool.close)
        found = fit.Fit(tool, ROOT / "recipes")
        for index, parameter in enumerate(found.parameters):
            line = f"| {leave_one_out.name_of(parameter)} | {math.exp(found.start[index]):.3g} |"
            self.assertTrue(line in self.text, f"{line}: scripts/score_planner --leave-one-out prints the table of docs/planner.md")


if __name__ == "__main__":
    unittest.main()
