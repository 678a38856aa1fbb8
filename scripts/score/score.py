# SPDX-License-Identifier: Apache-2.0
"""Scores the planner against the published measurements in tests/published.

Every row is planned as `llmtrain plan` plans it, with the profile and the program that its file names. Prints the mean
and the largest absolute error per source, for the rows that the constants were fitted to and for the third of each
source that is held out of every fit. Errors are those of step times and of the fullest rank's memory, in percent; for
bubble fractions they are differences in hundredths, for volumes those of the bytes.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ("calibration.csv", "programs.csv")
NOT_TIME = ("bubble_fraction", "data_parallel_communication", "peak_memory")
RATES = (
    "samples_per_second",
    "samples_per_second_per_device",
    "tokens_per_second_per_device",
    "model_tflops_per_device",
)


def read_rows(command):
    """The score tool's output for each row."""
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def error_of(row):
    """Signed error in percent, positive where the prediction is slower or larger."""
    predicted, value = row["predicted"], row["value"]
    if row["metric"] == "bubble_fraction":
        return 100 * (predicted - value)
    return 100 * ((value / predicted if row["metric"] in RATES else predicted / value) - 1)


def source_of(row):
    """The line of the table that a row counts in."""
    name = row["source"]
    if name.startswith("llm-foundry"):
        name += ", " + row["hardware"]
    return name + (f": {row['metric']}" if row["metric"] in NOT_TIME else "")


def nodes_of(row):
    """The line of the table by nodes that a row counts in."""
    nodes = row["recipes"][0]["cluster"]["nodes"]
    return f"{source_of(row)}, {nodes} node{'s' if nodes > 1 else ''}"


def describe(row):
    """A row's recipe in a few words."""
    recipe = row["recipes"][0]
    model, batch, parallel = recipe["model"], recipe["batch"], recipe["parallel"]
    recompute = "half" if len(row["recipes"]) > 1 else recipe["memory"]["recompute"]
    return (
        f"layers {model['layers']} hidden {model['hidden_size']} sequence {model['max_sequence_length']} "
        f"batch {batch['global']}/{batch['micro']} tensor {parallel['tensor']} pipeline {parallel['pipeline']} "
        f"loops {recipe['pipeline']['loops']} data {parallel['data']} zero {parallel['zero_stage']} "
        f"recompute {recompute} fp8 {recipe['precision']['fp8_level']} program {recipe['cluster']['program']}"
    )


def line_of(errors):
    """Rows, mean and largest error."""
    if not errors:
        return f"{0:5d} {'-':>6} {'-':>6}"
    absolute = [abs(error) for error in errors]
    return f"{len(errors):5d} {sum(absolute) / len(absolute):6.2f} {max(absolute):6.1f}"


def print_table(rows, name_of, with_rows):
    """One line per name: fitted rows, held-out rows and all rows, each with mean and largest error."""
    names = {row_name: [row for row in rows if name_of(row) == row_name] for row_name in map(name_of, rows)}
    width = 2 + max(map(len, names))
    print(f"{'':{width}}{'fitted':>19}  {'held out':>19}  {'all':>19}")
    print(f"{'source':{width}}" + "  ".join([f"{'rows':>5} {'mean':>6} {'max':>6}"] * 3))
    for name, of_name in names.items():
        fitted = [error_of(row) for row in of_name if not row["held_out"]]
        held_out = [error_of(row) for row in of_name if row["held_out"]]
        print(f"{name:{width}}{line_of(fitted)}  {line_of(held_out)}  {line_of(fitted + held_out)}")
        for row in of_name if with_rows else ():
            mark = "held out" if row["held_out"] else "fitted"
            print(f"  {error_of(row):7.1f}  {mark:8}  {row['value']:>9g} {row['predicted']:10.4g}  {describe(row)}")


def print_inexact(rows):
    """The rows that no recipe states, with the reason and the error of the nearest recipe."""
    for row in rows:
        print(f"not counted: {error_of(row):6.1f}  {row['source']}: {describe(row)}: {row['inexact']}")


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="scripts/score_planner", description=__doc__)
    parser.add_argument("--tool", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--recipes", default=str(ROOT / "recipes"), help="folder of cluster profiles and programs")
    parser.add_argument("--rows", action="store_true", help="show every row")
    parser.add_argument("--nodes", action="store_true", help="a line per source and number of nodes")
    parser.add_argument("--fit", type=int, metavar="ROUNDS", help="repeat the fit (needs SciPy) and print it as JSON")
    arguments = parser.parse_args()
    command = [arguments.tool, arguments.recipes, *(str(ROOT / "tests/published" / name) for name in FILES)]
    rows = read_rows(command)
    if arguments.fit is None:
        priced = [row for row in rows if row["predicted"] is not None]
        counted = [row for row in priced if not row["inexact"]]
        print_table(counted, nodes_of if arguments.nodes else source_of, arguments.rows)
        print_inexact([row for row in priced if row["inexact"]])
        print(f"{len(rows) - len(priced)} rows of parts of the memory are tested by plan_memory_test")
        return 0
    import fit

    print(json.dumps(fit.fit(command, rows, arguments.fit), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
