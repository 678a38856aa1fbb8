# SPDX-License-Identifier: Apache-2.0
"""The machine that the local backend emulates: delays of devices and links, and the schedules' bubbles on it."""
import json
import shutil
import sys
import unittest

from program import SOURCE, ProgramTest, small

sys.path.insert(0, str(SOURCE / "scripts"))
from bench_support import timeline  # noqa: E402

RANKS, LAYERS = 4, 16
# Halfway between the closed forms for four loops (0.158) and for one (0.429): threads wake up late on a busy machine,
# but neither bubble is mistaken for the other.
TOLERANCE = 0.135


class EmulatedMachine(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "The quick brown fox jumps over the lazy dog.\n" * 40)
        self.write("recipe.json", small({"data": {"train": [{"path": "text.txt"}]}, "model.layers": LAYERS,
                                         "batch": {"global": RANKS, "micro": 1}, "training": {"steps": 3},
                                         "cluster.profile": "cpu", "parallel.pipeline": RANKS}))

    def train(self, schedule, loops, *settings):
        """The trace file, the losses and the planned step."""
        run = self.folder / "-".join([schedule, *settings])
        shutil.rmtree(run, ignore_errors=True)
        result = self.run_program(
            "run", "recipe.json", "-q", "--run-dir", str(run), "--trace", "trace.json", "--set",
            "launch.backend=local", "--set", f"pipeline.schedule={schedule}", "--set", f"pipeline.loops={loops}",
            *(word for setting in settings for word in ("--set", setting)))
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        return self.folder / "trace.json", losses, json.loads((run / "plan.json").read_text())["step"]

    def test_bubbles_are_the_closed_form_s(self):
        # As many micro-batches as ranks: the small batch that breadth first is made for.
        ran = {}
        for schedule, loops in {"breadth_first": 4, "interleaved": 4, "gpipe": 1, "1f1b": 1}.items():
            with self.subTest(schedule):
                # Passes of 20 and 40 ms regardless of the layers per stage: a thread may wake up some ms late.
                layer_seconds = 0.005 * loops
                busy = RANKS * LAYERS / RANKS * 3 * layer_seconds
                closed = timeline.closed_form(RANKS, loops, RANKS)
                # Other programs can only lengthen a window: of several runs of three steps, one without them counts.
                for _ in range(3):
                    trace, _, planned = self.train(schedule, loops,
                                                   f"launch.layer_delay_microseconds={1e6 * layer_seconds}")
                    bubble = min(timeline.bubbles(trace, busy))
                    # No pass ends early, so no window is shorter than that of the closed form.
                    self.assertGreater(bubble, closed - 1e-3)
                    ran[schedule] = min(bubble, ran.get(schedule, 1))
                    if ran[schedule] < closed + TOLERANCE:
                        break
                self.assertLess(ran[schedule], closed + TOLERANCE)
                self.assertAlmostEqual(planned["bubble_fraction"], closed, delta=0.02)
        self.assertLess(ran["breadth_first"], min(ran["gpipe"], ran["1f1b"]))

    def test_full_recomputation_takes_one_more_forward(self):
        trace, _, _ = self.train("gpipe", 1, "launch.layer_delay_microseconds=5000", "memory.recompute=full",
                                 "batch.global=1")
        # One micro-batch passes all stages, forward and back.
        self.assertGreaterEqual(min(timeline.windows(trace)), LAYERS * 4 * 0.005 - 1e-4)

    def test_links_delay_what_stages_exchange_and_change_no_number(self):
        _, losses, _ = self.train("gpipe", 1, "batch.global=1")
        # The input of the last rank passes three links, and the gradient of the first rank three more.
        for setting, seconds in (("link_delay_microseconds=30000", 6 * 0.03),
                                 ("link_megabytes_per_second=0.1", 6 * 16 * 16 * 4 / 0.1e6)):
            with self.subTest(setting):
                trace, delayed, planned = self.train("gpipe", 1, f"launch.{setting}", "batch.global=1",
                                                     "launch.layer_delay_microseconds=100")
                self.assertGreaterEqual(min(timeline.windows(trace)), seconds - 1e-4)
                self.assertGreaterEqual(planned["seconds"], seconds)
                self.assertEqual(delayed, losses)


if __name__ == "__main__":
    unittest.main()
