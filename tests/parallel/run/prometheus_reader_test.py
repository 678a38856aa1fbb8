# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own client reads metrics.prom and agrees with metrics.jsonl."""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --tests installs it")
    sys.exit(77)

RUN = 'a "run" \\ of two terms'


class PrometheusReaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def families(self, last):
        """What a synthetic run of so many steps leaves: {name: family}."""
        subprocess.run([os.environ["LLMTRAIN_RUN_LOG_TOOL"], str(self.folder), "0", str(last)], check=True)
        families = list(text_string_to_metric_families((self.folder / "metrics.prom").read_text(encoding="utf-8")))
        names = [family.name for family in families]
        self.assertEqual(len(set(names)), len(names), "each metric is one group of lines")
        for family in families:
            self.assertTrue(family.documentation, family.name)
            self.assertIn(family.type, ("gauge", "counter"), family.name)
            self.assertTrue(all(sample.labels["run"] == RUN for sample in family.samples), family.name)
        return {family.name.removeprefix("llmtrain_"): family for family in families}

    def rows(self, column):
        rows = map(json.loads, (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        return [row for row in rows if column in row]

    def test_the_newest_figures_are_those_of_the_metrics(self):
        families = self.families(17)
        row = self.rows("loss")[-1]
        for name in ("step", "loss", "learning_rate", "step_seconds", "tokens_per_second", "memory_bytes"):
            (sample,) = families[name].samples
            self.assertEqual(sample.value, row[name], name)
        self.assertEqual((families["tokens"].type, families["tokens"].samples[0].value), ("counter", row["tokens"]))

    def test_terms_of_the_loss_are_samples_of_one_metric(self):
        families = self.families(17)
        for name, total in (("loss_term", "loss"), ("validation_loss_term", "validation_loss")):
            terms = {sample.labels["term"]: sample.value for sample in families[name].samples}
            self.assertEqual(terms, self.rows(total)[-1]["loss_terms"], name)

    def test_what_is_not_finite_is_read_as_such(self):
        families = self.families(13)
        self.assertTrue(math.isnan(families["loss"].samples[0].value))
        self.assertTrue(math.isnan(families["loss_term"].samples[0].value))
        self.assertEqual(families["loss_term"].samples[1].value, 65)


if __name__ == "__main__":
    unittest.main()
