# SPDX-License-Identifier: Apache-2.0
"""export-metrics: CSV as Python's csv reads it, and folders as MLflow's file store has them (mlflow 3.17 has read the same
by hand; its rules for names and lines are repeated here)."""
import csv
import json
import math
import pathlib
import re
import unittest
import urllib.parse

from program import TrainingTest

SETS = ("news, mostly", "what?", 'says "so"', "größe", ".hidden", "what!")


def flat(row, prefix=""):
    numbers = {}
    for name, value in row.items():
        if isinstance(value, dict):
            numbers.update(flat(value, prefix + name + "/"))
        elif prefix + name != "step":
            numbers[prefix + name] = math.nan if value is None else value
    return numbers


def yaml(file):
    """Reads the plain mappings that meta.yaml is."""
    return {key: json.loads(value) for key, value in
            (line.split(": ", 1) for line in file.read_text(encoding="utf-8").splitlines())}


class ExportMetrics(TrainingTest):
    def setUp(self):
        super().setUp()
        validation = [{"path": "text.txt", "name": name} for name in SETS]
        self.write("recipe.json", self.recipe({"training.steps": 6, "training.evaluate_every": 3,
                                               "training.evaluate_batches": 1, "log.every": 1,
                                               "data.validation": validation, "training.judged_by": SETS[0]}))
        self.train()
        file = self.folder / "runs/small/metrics.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        # What a loss that was not finite, and a run that was killed, leave.
        next(row for row in rows if "loss" in row)["loss"] = None
        file.write_text("\n".join([*map(json.dumps, rows), '{"step": 7, "lo']), encoding="utf-8")
        self.expected = {}
        for row in rows:
            self.expected.setdefault(row["step"], {}).update(flat(row))

    def export(self, *arguments):
        result = self.run_program("export-metrics", "runs/small", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def check_equal(self, numbers, expected):
        self.assertEqual(sorted(numbers), sorted(expected))
        for name, value in numbers.items():
            self.assertTrue(value == expected[name] or math.isnan(value) and math.isnan(expected[name]), name)

    def test_csv(self):
        """All numbers, exactly; rows of a step's training and evaluation are one."""
        self.export("metrics.csv", "--to", "csv")
        with open(self.folder / "metrics.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
        self.assertEqual([int(row["step"]) for row in rows], list(range(7)))  # an evaluation comes first
        self.assertIn('validation_losses/says "so"', rows[0])
        for row in rows:
            numbers = {name: float(value) for name, value in row.items() if value and name != "step"}
            self.check_equal(numbers, self.expected[int(row["step"])])
        self.assertEqual(self.export("-", "--to", "csv").stdout.encode(), (self.folder / "metrics.csv").read_bytes())

    def check_store(self, experiment):
        """The one run of an experiment's folder. Returns its meta.yaml."""
        home, = (path for path in experiment.iterdir() if path.is_dir())
        meta = yaml(home / "meta.yaml")
        self.assertRegex(meta["run_id"], "^[0-9a-f]{32}$")
        self.assertEqual((meta["run_id"], meta["experiment_id"]), (home.name, experiment.name))
        uri = urllib.parse.urlparse(meta["artifact_uri"])
        self.assertEqual((uri.scheme, urllib.parse.unquote(uri.path)), ("file", str(home / "artifacts")))
        self.assertTrue((home / "artifacts").is_dir())
        self.assertEqual((home / "tags/mlflow.runName").read_text(), "small")
        recipe = json.loads((self.folder / "runs/small/recipe.json").read_text())
        self.assertEqual((home / "params/training.steps").read_text(), "6")
        self.assertEqual((home / "params/model.architecture").read_text(), recipe["model"]["architecture"])
        self.assertEqual((home / "params/data.validation.1.name").read_text(), "what?")
        seen, last = {}, {}
        for file in (home / "metrics").rglob("*"):
            if file.is_dir():
                continue
            name = file.relative_to(home / "metrics").as_posix()
            self.assertRegex(name, r"^[/\w.\- :]*$")
            for line in file.read_text().splitlines():
                time, value, step = re.fullmatch(r"(\d+) (\S+) (\d+)", line).groups()
                seen.setdefault(int(step), {})[name] = float(value)
                self.assertTrue(meta["start_time"] <= int(time) <= last.get(int(step), int(time)))
                last[int(step)] = int(time)
        names = {"validation_losses/" + name: f"validation_losses/{written}" for name, written in
                 zip(SETS, ("news_ mostly", "what_", "says _so_", "gr__e", "_.hidden", "what__2"), strict=True)}
        for step, numbers in seen.items():
            self.check_equal(numbers, {names.get(name, name): value for name, value in self.expected[step].items()})
        self.assertEqual(list(sorted(last.values())), [last[step] for step in sorted(last)])
        return meta

    def test_mlflow(self):
        self.export("my runs", "--to", "mlflow")
        experiment, = (self.folder / "my runs").iterdir()
        description = yaml(experiment / "meta.yaml")
        self.assertEqual((description["name"], description["experiment_id"]), ("llmtrain", experiment.name))
        meta = self.check_store(experiment)
        self.assertEqual(meta["status"], 3)
        # Again, by another path: the same run.
        self.assertEqual(self.run_program("export-metrics", "runs/../runs/small/", "my runs", "--to", "mlflow").returncode,
                         0)
        self.check_store(experiment)

    def test_an_experiment_that_mlflow_has_made(self):
        """Is found by its name; a run that has steps before it is running."""
        home = self.folder / "mlruns/123456"
        home.mkdir(parents=True)
        (home / "meta.yaml").write_text("artifact_location: file:///x\nexperiment_id: '123456'\nlifecycle_stage: active\n"
                                        "name: trials of mine\n")
        self.train("--set", "training.steps=7")
        file = pathlib.Path(self.folder / "runs/small/metrics.jsonl")
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(line for line in lines if json.loads(line)["step"] < 7), encoding="utf-8")
        self.export("mlruns", "--to", "mlflow", "--experiment", "trials of mine")
        self.assertEqual([path.name for path in (self.folder / "mlruns").iterdir()], ["123456"])
        run, = (path for path in home.iterdir() if path.is_dir())
        meta = yaml(run / "meta.yaml")
        self.assertEqual((meta["status"], meta["end_time"], meta["experiment_id"]), (1, None, "123456"))

    def test_what_is_refused(self):
        self.refused(66, ["nowhere: contains no recipe.json", "directory of a run"], "export-metrics", "nowhere", "x.csv",
                     "--to", "csv")
        self.refused(66, ["text.txt: is a file"], "export-metrics", "text.txt", "mlruns", "--to", "mlflow")
        self.refused(73, ["text.txt"], "export-metrics", "runs/small", "text.txt/x.csv", "--to", "csv")
        self.refused(2, ["--to", "csv"], "export-metrics", "runs/small", "x", "--to", "cvs")


if __name__ == "__main__":
    unittest.main()
