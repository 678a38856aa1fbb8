# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own reader reads what a run writes and agrees with metrics.jsonl."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --tests installs it")
    sys.exit(77)

COLUMNS = {
    "train/loss": "loss",
    "train/learning_rate": "learning_rate",
    "train/grad_norm": "grad_norm",
    "train/tokens_per_second": "tokens_per_second",
    "train/mfu": "mfu",
    "train/memory_bytes": "memory_bytes",
    "train/tensor_bytes": "tensor_bytes",
    "validation/loss": "validation_loss",
}
# The tags of the loss's terms: the column that rows with them have, and the name in it.
TERMS = {f"{kind}/loss_terms/{name}": (total, name)
         for kind, total in (("train", "loss"), ("validation", "validation_loss")) for name in ("loss", "second")}


def as_float(number):
    return math.nan if number is None else struct.unpack("f", struct.pack("f", number))[0]


class TensorboardReaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, steps_done, last):
        """Writes the rows of a synthetic run; returns the new event file."""
        before = set(self.folder.glob("events.*"))
        command = [os.environ["LLMTRAIN_RUN_LOG_TOOL"], str(self.folder), str(steps_done), str(last)]
        subprocess.run(command, check=True)
        (new,) = set(self.folder.glob("events.*")) - before
        return new

    def curves(self):
        """All curves as TensorBoard reads them: {tag: [(step, value)]}."""
        events = EventAccumulator(str(self.folder), size_guidance={"scalars": 0}).Reload()
        return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in events.Tags()["scalars"]}

    def rows(self):
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]

    def check_curves(self):
        curves = self.curves()
        self.assertEqual(set(curves), set(COLUMNS) | set(TERMS))
        for tag, (total, name) in TERMS.items():
            expected = [(row["step"], as_float(row["loss_terms"][name])) for row in self.rows() if total in row]
            self.assertEqual(repr(curves[tag]), repr(expected), tag)
        for tag, column in COLUMNS.items():
            expected = [(row["step"], as_float(row[column])) for row in self.rows() if column in row]
            self.assertEqual(repr(curves[tag]), repr(expected), tag)

    def test_curves_equal_the_metrics(self):
        self.write(0, 40)
        self.assertEqual(len(self.rows()), 40 + 9)
        self.check_curves()
        self.assertTrue(math.isnan(dict(self.curves()["train/loss"])[13]))

    def test_a_resumed_run_replaces_the_points_after_its_checkpoint(self):
        self.write(0, 27)
        self.write(20, 24)
        self.assertEqual(self.curves()["train/loss"][-1][0], 24)
        self.check_curves()
        self.write(22, 40)
        self.check_curves()

    def test_a_run_that_starts_over_replaces_all_points(self):
        self.write(0, 27)
        self.write(0, 10)
        self.assertEqual([step for step, _ in self.curves()["validation/loss"]], [0, 5, 10])
        self.check_curves()

    def test_a_truncated_file_keeps_the_points_before(self):
        file = self.write(0, 30)
        whole = file.read_bytes()
        for cut in (1, 7, 100, 1000):
            file.write_bytes(whole[:-cut])
            losses = self.curves()["train/loss"]
            self.assertGreater(len(losses), 20)
            self.assertEqual([step for step, _ in losses], list(range(1, len(losses) + 1)))

    def test_a_long_run_keeps_its_order(self):
        self.write(0, 3000)
        self.check_curves()


if __name__ == "__main__":
    unittest.main()
