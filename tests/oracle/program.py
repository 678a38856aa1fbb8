# SPDX-License-Identifier: Apache-2.0
"""Runs the program under test; CTest names it in LLMTRAIN_PROGRAM."""
import json
import os
import subprocess


def run(*arguments, lines=""):
    """What a command prints that reads these lines."""
    command = [os.environ["LLMTRAIN_PROGRAM"], *map(str, arguments)]
    result = subprocess.run(command, input=lines, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def train(recipe_path, run_directory, changes=None):
    """The training rows of metrics.jsonl of a complete run, with changes to keys of the recipe."""
    changed = [word for key, value in (changes or {}).items() for word in ("--set", f"{key}={value}")]
    run("run", recipe_path, "--run-dir", run_directory, *changed)
    lines = (run_directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if "loss" in row]


def worst(rows, expected, key):
    """The largest relative difference of a column, and the row's index."""
    differences = [abs(row[key] - other[key]) / abs(other[key]) for row, other in zip(rows, expected, strict=True)]
    return max((difference, index) for index, difference in enumerate(differences))
