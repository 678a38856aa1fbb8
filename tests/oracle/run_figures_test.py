# SPDX-License-Identifier: Apache-2.0
"""On the same runs `llmtrain compare` and report.html show what pandas and TensorBoard read from the runs' files."""
import html
import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
    import pandas
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --tests installs it")
    sys.exit(77)

import program

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40
MODEL = {"architecture": "gpt2", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 256,
         "max_sequence_length": 16}
# Figures by the titles of the page's charts; the loss has two lines in a run's page.
CHARTS = {"Loss": "loss", "Validation loss": "validation_loss", "Learning rate": "learning_rate",
          "Gradient norm": "grad_norm", "Speed": "tokens_per_second", "MFU": "mfu", "Memory": "memory_bytes",
          "Experts' load": "expert_load", "Dropped choices": "dropped_share", "Balance loss": "balance_loss",
          "Z-loss": "z_loss", "Router entropy": "router_entropy"}
TAGS = {"validation_loss": "validation/loss",
        **{name: f"routing/{name}" for name in ("expert_load", "dropped_share", "balance_loss", "z_loss",
                                                   "router_entropy")}}
PLOT = (488, 190)  # the units in which a chart is drawn, to two decimals
UNITS = {"": 1, "k": 1e3, "M": 1e6, "µs": 1e-6, "ms": 1e-3, "s": 1, "%": 1e-2, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Run:
    """A run's files as the two libraries read them."""

    def __init__(self, folder):
        self.folder = folder
        rows = pandas.read_json(folder / "metrics.jsonl", lines=True, precise_float=True)
        self.training = rows[rows["loss"].notna()]
        self.evaluations = rows[rows["validation_loss"].notna()] if "validation_loss" in rows else rows[:0]
        self.events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()

    def column(self, name):
        """A pandas Series by step."""
        rows = self.evaluations if name == "validation_loss" else self.training
        return rows.set_index("step")[name]

    def curve(self, name):
        """The same from TensorBoard, in single precision, which is what its files hold."""
        points = self.events.Scalars(TAGS.get(name, f"train/{name}"))
        return pandas.Series([point.value for point in points], [point.step for point in points], dtype="float64")

    def tokens(self):
        return self.column("tokens")


def chart_values(figure, line):
    """The points of a chart's line, from the drawing and the attributes that the page's script reads."""
    ends = {name: float(value) for name, value in re.findall(r'data-([xy][01])="([^"]*)"', figure)}
    is_logarithmic = 'data-log="1"' in figure
    points = []
    for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", line):
        value = ends["y1"] - float(y) / PLOT[1] * (ends["y1"] - ends["y0"])
        points.append((ends["x0"] + float(x) / PLOT[0] * (ends["x1"] - ends["x0"]),
                       10 ** value if is_logarithmic else value))
    return points, 0.011 / PLOT[1] * (ends["y1"] - ends["y0"]), is_logarithmic


def charts_of(page):
    """{title: [(figure, name of the line, its path)]}"""
    charts = {}
    for figure in re.findall(r"<figure.*?</figure>", page, re.DOTALL):
        title = html.unescape(re.search(r"<h2>(.*?)</h2>", figure)[1])
        charts[title] = [(figure, html.unescape(name), path) for name, path in
                         re.findall(r'<path class="line" data-name="([^"]*)"[^>]* d="([^"]*)"', figure)]
    return charts


def number_in(text):
    """The value that a text such as "13.1ms" or "4.9k tokens/s" begins with, and how far its last digit reaches."""
    number, unit = re.match(r"([-\d.]+) ?([KMG]iB|[kM%]|µs|ms|s)?", text).groups()
    decimals = len(number.partition(".")[2])
    return float(number) * UNITS[unit or ""], 0.51 * 10**-decimals * UNITS[unit or ""]


class RunFigures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "text.txt").write_text(TEXT)
        evaluated = {"evaluate_every": 4, "evaluate_batches": 1}
        # The second is longer than a chart has points, so that each of these stands for several steps.
        cls.runs = [cls.train("first", {**MODEL, "moe": {"experts": 4}}, 13, **evaluated), cls.train("second", MODEL, 900)]
        cls.equal_tokens = 13 * 4 * 16

    @classmethod
    def train(cls, name, model, steps, **training):
        sources = [{"path": str(cls.folder / "text.txt")}]
        recipe = {"name": name, "model": model, "batch": {"global": 4, "micro": 2},
                  "training": {"steps": steps, **training}, "data": {"train": sources, "validation": sources}}
        (cls.folder / f"{name}.json").write_text(json.dumps(recipe))
        program.run("run", cls.folder / f"{name}.json", "--run-dir", cls.folder / name, "-q")
        return Run(cls.folder / name)

    def compare(self, *flags):
        os.environ["NO_COLOR"] = "1"
        return program.run("compare", *(run.folder for run in self.runs), *flags)

    def test_both_libraries_read_the_same(self):
        for run in self.runs:
            for name in [*TAGS, "loss", "learning_rate", "grad_norm", "tokens_per_second", "mfu", "memory_bytes"]:
                if TAGS.get(name, f"train/{name}") not in run.events.Tags()["scalars"]:
                    continue
                column = run.column(name)
                numpy.testing.assert_array_equal(run.curve(name), column.astype("float32").astype("float64"), name)
                self.assertEqual(list(run.curve(name).index), list(column.index), name)

    def expected(self, run, read):
        """The figures of `compare`, of columns as one of the libraries reads them."""
        def losses(column):
            return {"last": column.iloc[-1], "best": column.min(), "best_step": column.idxmin()}

        loss = read(run, "loss")
        return {
            "loss": {**losses(loss), "at_equal_tokens": loss[run.tokens()[run.tokens() <= self.equal_tokens].index[-1]]},
            "validation_loss": losses(read(run, "validation_loss")) if len(run.evaluations) else None,
            **{name: read(run, name).median() for name in ("tokens_per_second", "mfu")},
            **{name: read(run, name).max() for name in ("memory_bytes", "tensor_bytes")}}

    def test_compare_says_what_pandas_and_tensorboard_read(self):
        answer = json.loads(self.compare("--json"))
        self.assertEqual(answer["equal_tokens"], self.equal_tokens)
        for run, said in zip(self.runs, answer["runs"], strict=True):
            last = run.training.iloc[-1]
            self.assertEqual((said["steps"], said["tokens"], said["skipped"]), (last.step, last.tokens, last.skipped))
            self.assertAlmostEqual(said["seconds"] / run.training["step_seconds"].sum(), 1, delta=1e-12)
            self.assertEqual(said["step_seconds"], run.training["step_seconds"].median())
            for name, figure in self.expected(run, Run.column).items():
                self.assertEqual(said[name], figure, name)
            rounded = pandas.json_normalize(self.expected(run, Run.curve)).iloc[0].dropna()
            # In single precision several steps may have the lowest loss.
            rounded = rounded.drop(["loss.best_step", "validation_loss.best_step"], errors="ignore")
            stated = pandas.json_normalize(said).iloc[0]
            for name, figure in rounded.items():
                self.assertAlmostEqual(stated[name] / figure, 1, delta=2**-23, msg=name)

    def test_the_figures_of_compare_are_those_of_its_json(self):
        """As text and in the page, to the digits that they show."""
        answer = json.loads(self.compare("--json"))
        text = self.compare("--html", self.folder / "page.html")
        page = (self.folder / "page.html").read_text()
        labels = {"steps": "steps", "tokens": "tokens", "tokens/s": "tokens_per_second", "step": "step_seconds",
                  "MFU": "mfu", "process, peak": "memory_bytes", "tensors, peak": "tensor_bytes"}
        losses = {"last": ("loss", "last"), "best": ("loss", "best"), "best at step": ("loss", "best_step"),
                  "validation, last": ("validation_loss", "last"), "validation, best": ("validation_loss", "best")}
        for label, path in {**{label: (key,) for label, key in labels.items()}, **losses}.items():
            shown = re.search(rf"^  {re.escape(label)}  +(\S.*)$", text, re.MULTILINE)[1]
            cells = re.search(rf"<td>{re.escape(label)}</td>(.*?)</tr>", page, re.DOTALL)[1]
            cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", cells)]
            self.assertEqual(re.split(r" {2,}", shown), cells, label)
            for run, cell in zip(answer["runs"], cells, strict=True):
                value = run[path[0]] if len(path) == 1 else (run[path[0]] or {}).get(path[1])
                if value is None:
                    self.assertEqual(cell, "–", label)
                    continue
                number, reach = number_in(cell)
                self.assertAlmostEqual(number, value, delta=reach, msg=f"{label}: {cell}")

    def assert_drawn(self, drawn, by_x, name):
        """Each point of a line is the mean of the values since the point before it."""
        points, reach, is_logarithmic = drawn
        before = -numpy.inf
        for x, y in points:
            x = min(by_x.index, key=lambda each: abs(each - x))
            mean = by_x[(by_x.index > before) & (by_x.index <= x)].mean()
            difference = abs(numpy.log10(y) - numpy.log10(mean)) if is_logarithmic else abs(y - mean)
            # TensorBoard's values are in single precision.
            self.assertLessEqual(difference, reach + 2**-23 * abs(mean), f"{name} at {x}: {y} for {mean}")
            before = x
        self.assertEqual(before, by_x.index[-1], name)

    def test_the_curves_of_report_html_are_those_of_the_files(self):
        for run in self.runs:
            charts = charts_of((run.folder / "report.html").read_text())
            columns = {column for column in CHARTS.values() if column in run.training} - {"validation_loss"}
            self.assertEqual({CHARTS[title] for title in charts}, columns)
            for title, lines in charts.items():
                for figure, name, path in lines:
                    column = "validation_loss" if name == "validation" else CHARTS[title]
                    drawn = chart_values(figure, path)
                    self.assert_drawn(drawn, run.column(column), column)
                    self.assert_drawn(drawn, run.curve(column), column)
        self.assertEqual([name for _, name, _ in charts_of((self.runs[0].folder / "report.html").read_text())["Loss"]],
                         ["training", "validation"])

    def test_the_cards_of_report_html(self):
        for run in self.runs:
            page = (run.folder / "report.html").read_text()
            cards = dict(re.findall(r'<h3>(.*?)</h3><p class="value">(.*?)</p>', page))
            recent = run.training[-100:]
            expected = {"Loss": run.training["loss"].iloc[-1], "Step": recent["step_seconds"].median(),
                        "Speed": recent["tokens_per_second"].median(), "Memory": run.training["memory_bytes"].iloc[-1]}
            if len(run.evaluations):
                expected["Validation loss"] = run.evaluations["validation_loss"].iloc[-1]
            self.assertEqual(set(cards), set(expected))
            for title, value in expected.items():
                number, reach = number_in(cards[title])
                self.assertAlmostEqual(number, value, delta=reach, msg=f"{title}: {cards[title]}")
            best = re.search(r"best ([\d.]+) at step (\d+)", page)
            self.assertEqual((best[1], int(best[2])),
                             (f"{run.training['loss'].min():.4f}", run.column("loss").idxmin()))

    def test_the_curves_of_compare_are_over_tokens(self):
        self.compare("--html", self.folder / "page.html")
        charts = charts_of((self.folder / "page.html").read_text())
        self.assertEqual([name for _, name, _ in charts["Loss"]], ["first", "second"])
        for title, lines in charts.items():
            for figure, name, path in lines:
                run = next(run for run in self.runs if run.folder.name == name)
                values = run.column(CHARTS[title])
                # An evaluation's tokens are those of the step before it.
                values.index = [0 if step == 0 else run.tokens()[step] for step in values.index]
                self.assert_drawn(chart_values(figure, path), values, f"{title} of {name}")


if __name__ == "__main__":
    unittest.main()
