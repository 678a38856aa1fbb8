# SPDX-License-Identifier: Apache-2.0
"""Scores the planner's cost model against tests/published/calibration.csv.

Prints the mean and the largest absolute error per source, for the rows that the constants were fitted to and for the
third of each source that is held out of every fit. Errors are those of step times, in percent; for bubble fractions
they are differences in hundredths, for volumes those of the bytes. Memory has separate tests
(tests/parallel/plan/memory).
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_TIME = ("bubble_fraction", "data_parallel_communication")


def read_rows(command):
    """The score tool's output for each row."""
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def error_of(row):
    """Signed error in percent, positive where the prediction is slower or larger."""
    predicted, value = row["predicted"], row["value"]
    if row["metric"] == "bubble_fraction":
        return 100 * (predicted - value)
    is_rate = row["metric"] != "step_seconds" and row["metric"] not in NOT_TIME
    return 100 * ((value / predicted if is_rate else predicted / value) - 1)


def source_of(row):
    """The line of the table that a row counts in."""
    name = row["source"]
    if name.startswith("llm-foundry"):
        name += ", " + row["hardware"]
    return name + (f": {row['metric']}" if row["metric"] in NOT_TIME else "")


def describe(row):
    """A row's recipe in a few words."""
    recipe = row["recipe"]
    model, batch, parallel = recipe["model"], recipe["batch"], recipe["parallel"]
    return (
        f"layers {model['layers']} hidden {model['hidden_size']} sequence {model['max_sequence_length']} "
        f"batch {batch['global']}/{batch['micro']} tensor {parallel['tensor']} pipeline {parallel['pipeline']} "
        f"loops {recipe['pipeline']['loops']} data {parallel['data']} zero {parallel['zero_stage']} "
        f"recompute {recipe['memory']['recompute']} fp8 {recipe['precision']['fp8_level']}"
    )


def line_of(errors):
    """Rows, mean and largest error."""
    if not errors:
        return f"{0:5d} {'-':>6} {'-':>6}"
    absolute = [abs(error) for error in errors]
    return f"{len(errors):5d} {sum(absolute) / len(absolute):6.2f} {max(absolute):6.1f}"


def print_table(rows, with_rows):
    """One line per source: fitted rows, held-out rows and all rows, each with mean and largest error."""
    priced = [row for row in rows if row["predicted"] is not None]
    print(f"{'':62}{'fitted':>19}  {'held out':>19}  {'all':>19}")
    print(f"{'source':62}" + "  ".join([f"{'rows':>5} {'mean':>6} {'max':>6}"] * 3))
    for source in dict.fromkeys(source_of(row) for row in priced):
        of_source = [row for row in priced if source_of(row) == source]
        fitted = [error_of(row) for row in of_source if not row["held_out"]]
        held_out = [error_of(row) for row in of_source if row["held_out"]]
        print(f"{source:62}{line_of(fitted)}  {line_of(held_out)}  {line_of(fitted + held_out)}")
        for row in of_source if with_rows else ():
            mark = "held out" if row["held_out"] else "fitted"
            print(f"  {error_of(row):7.1f}  {mark:8}  {row['value']:>9g} {row['predicted']:10.4g}  {describe(row)}")
    print(f"{len(rows) - len(priced)} rows of memory are tested by plan_memory_test")


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="scripts/score_planner", description=__doc__)
    parser.add_argument("--tool", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--clusters", default=str(ROOT / "recipes/clusters"), help="folder of the cluster profiles")
    parser.add_argument("--rows", action="store_true", help="show every row")
    parser.add_argument("--fit", type=int, metavar="ROUNDS", help="repeat the fit (needs SciPy) and print it as JSON")
    arguments = parser.parse_args()
    command = [arguments.tool, str(ROOT / "tests/published/calibration.csv"), arguments.clusters]
    rows = read_rows(command)
    if arguments.fit is None:
        print_table(rows, arguments.rows)
        return 0
    import fit

    print(json.dumps(fit.fit(command, rows, arguments.fit), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
