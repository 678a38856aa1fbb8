# SPDX-License-Identifier: Apache-2.0
"""Runs to look at: `llmtrain compare`, and the page and the figures that a run keeps while it trains."""
import html.parser
import json
import re
import statistics
import unittest

from program import TrainingTest

EMPTY_ELEMENTS = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """Checks that tags nest, and keeps the text of headings and verdicts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            assert name not in ("src", "onload") and "http" not in (value or "")[:5] or name == "http-equiv", (name, value)
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text += data


class Compare(TrainingTest):
    def runs(self):
        evaluated = ("--set", 'data.validation=[{"path":"text.txt"}]', "--set", "training.evaluate_every=4", "--set",
                     "training.evaluate_batches=1")
        self.train("--run-dir", "runs/short", "--set", "training.steps=9", *evaluated)
        self.train("--run-dir", "runs/long", "--set", "training.steps=12", "--set", "batch.global=4", "--set",
                   "training.learning_rate.peak=0.01")
        return ["runs/short", "runs/long"]

    def expected(self, folder, equal_tokens):
        """The figures as anyone computes them from the rows, with Python's statistics."""
        rows = [row for row in self.rows(folder) if "loss" in row]
        evaluations = [row for row in self.rows(folder) if "validation_loss" in row]
        best = min(rows, key=lambda row: row["loss"])
        best_evaluation = min(evaluations, key=lambda row: row["validation_loss"], default=None)
        return {
            "directory": folder, "name": "small", "steps": rows[-1]["step"], "tokens": rows[-1]["tokens"],
            "loss": {"last": rows[-1]["loss"], "best": best["loss"], "best_step": best["step"],
                     "at_equal_tokens": [row["loss"] for row in rows if row["tokens"] <= equal_tokens][-1]},
            "validation_loss": best_evaluation and {"last": evaluations[-1]["validation_loss"],
                                                    "best": best_evaluation["validation_loss"],
                                                    "best_step": best_evaluation["step"]},
            **{name: statistics.median(row[name] for row in rows) for name in ("tokens_per_second", "step_seconds", "mfu")},
            **{name: max(row[name] for row in rows) for name in ("memory_bytes", "tensor_bytes", "skipped")}}

    def test_figures(self):
        runs = self.runs()
        answer = json.loads(self.run_program("compare", *runs, "--json").stdout)
        self.assertEqual(answer["equal_tokens"], 9 * 2 * 16)
        for run, folder in zip(answer["runs"], runs):
            seconds = sum(row["step_seconds"] for row in self.rows(folder) if "loss" in row)
            self.assertAlmostEqual(run.pop("seconds"), seconds, places=12)
            self.assertEqual(run, self.expected(folder, answer["equal_tokens"]))
        differences = {entry["key"]: entry["values"] for entry in answer["recipe_differences"]}
        self.assertEqual(differences["training.steps"], [9, 12])
        self.assertEqual(differences["training.learning_rate.peak"], [0.0003, 0.01])
        self.assertNotIn("log.directory", differences)

        table = self.run_program("compare", *runs).stdout
        for line in ("steps +9 +12", "best at step", "at 288 tokens", r"batch.global +2 +4", "Loss over tokens"):
            self.assertRegex(table, line)
        self.assertNotIn("\x1b", table)
        self.assertLess(max(map(len, table.splitlines())), 100)

        self.run_program("compare", *runs, "--html", "comparison.html")
        page = (self.folder / "comparison.html").read_text()
        self.assertIn("short, long", Page(page).text)
        self.assertIn("<h2>Validation loss</h2>", page)

    def test_what_is_no_run(self):
        self.train()
        self.refused(66, ["nowhere", "recipe.json"], "compare", "runs/small", "nowhere")
        self.refused(2, ["RUN"], "compare", "runs/small")
        self.write("broken/recipe.json", "{")
        self.write("broken/metrics.jsonl", "")
        self.refused(65, ["broken", "recipe.json"], "compare", "runs/small", "broken")
        self.refused(73, ["none/page.html"], "compare", "runs/small", "runs/small", "--html", "none/page.html")

    def test_the_page_of_a_run(self):
        self.train("--set", "training.steps=9", "--set", 'data.validation=[{"path":"text.txt"}]', "--set",
                   "training.evaluate_every=4", "--set", "training.evaluate_batches=1")
        rows = self.rows()
        report = (self.folder / "runs/small/report.html").read_text()
        page = Page(report)
        self.assertLess(len(report), 150_000)
        self.assertIn("Finished", page.text)
        self.assertIn("step 9 of 9, 288 tokens", page.text)
        self.assertIn(f"{rows[-2]['loss']:.4f}", page.text)
        self.assertIn(f"{rows[-1]['validation_loss']:.4f}", page.text)
        for heading in ("Loss", "Learning rate", "Gradient norm", "Speed", "MFU", "Memory"):
            self.assertIn(f"<h2>{heading}</h2>", report)
        self.assertIn("Predicted by llmtrain plan", (self.folder / "runs/small/plan.html").read_text())

        figures = dict(re.findall(r'^llmtrain_(\w+)\{run="small"\} (\S+)$',
                                  (self.folder / "runs/small/metrics.prom").read_text(), re.MULTILINE))
        self.assertEqual(float(figures["loss"]), rows[-2]["loss"])
        self.assertEqual(float(figures["validation_loss"]), rows[-1]["validation_loss"])
        self.assertEqual((figures["running"], figures["step"], figures["tokens_total"]), ("0", "9", "288"))


if __name__ == "__main__":
    unittest.main()
