# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run: every rank's instructions in the planned order, in the format of a plan's timeline."""
import collections
import json
import unittest

from program import ProgramTest, small

LAYOUT = ["--set", "parallel.pipeline=2", "--set", "parallel.data=2", "--set", "parallel.zero_stage=3", "--set",
          "pipeline.loops=2", "--set", "launch.backend=local"]


class RunTrace(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "The quick brown fox jumps over the lazy dog.\n" * 40)
        self.write("recipe.json", small({"data": {"train": [{"path": "text.txt"}]}, "model.layers": 4,
                                         "batch": {"global": 8, "micro": 1}, "training": {"steps": 5}}))

    def events(self, *arguments):
        result = self.run_program(*arguments, "--trace", "trace.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / "trace.json").read_text())["traceEvents"]

    @staticmethod
    def lines(events, rank, step=None):
        own = [event for event in events if event["ph"] == "X" and event["pid"] == rank
               and step in (None, event["args"]["step"])]
        return [event["args"]["instruction"] for event in sorted(own, key=lambda event: event["ts"])]

    def test_ranks_do_what_the_plan_says(self):
        events = self.events("run", "recipe.json", "-q", "--run-dir", "run", *LAYOUT)
        # The last step is drawn on the run's page, with a row for each pipeline rank.
        page = (self.folder / "run" / "report.html").read_text()
        section = page[page.index("<h2>The last step"):page.index("<h2>Recipe")]
        self.assertEqual([section.count(f">pipeline {rank}</text>") for rank in range(3)], [1, 1, 0])
        planned = self.events("plan", "recipe.json", *LAYOUT)
        for rank in range(4):
            for step in (3, 4, 5):
                # A plan omits instructions that take no time.
                ran = [line for line in self.lines(events, rank, step) if not line.startswith("FreeWeights")]
                self.assertEqual(sorted(ran), sorted(self.lines(planned, rank // 2)))
        # Compute instructions have the same order in the plan and in the run.
        compute = ("Forward", "Backward", "OptimizerStep")
        for rank in range(4):
            ran, wanted = ([line for line in lines if line.startswith(compute)] for lines in
                           (self.lines(events, rank, 5), self.lines(planned, rank // 2)))
            self.assertEqual(ran, wanted)

    def test_each_send_has_its_receive(self):
        events = self.events("run", "recipe.json", "-q", "--run-dir", "run", *LAYOUT)
        starts, ends = (collections.Counter(event["id"] for event in events if event["ph"] == kind) for kind in "sf")
        self.assertEqual(starts, ends)
        self.assertEqual(set(starts.values()), {1})
        # 3 boundaries, 2 directions, 4 micro-batches, 3 steps, 2 copies of the model.
        self.assertEqual(len(starts), 3 * 2 * 4 * 3 * 2)

    def test_instructions_of_a_rank_follow_each_other(self):
        events = self.events("run", "recipe.json", "-q", "--run-dir", "run", *LAYOUT)
        for rank in range(4):
            own = sorted((event["ts"], event["ts"] + event["dur"]) for event in events
                         if event["ph"] == "X" and event["pid"] == rank)
            self.assertGreaterEqual(own[0][0], 0)
            for (_, end), (start, _) in zip(own, own[1:]):
                self.assertLessEqual(end, start + 1e-6)

    def test_one_rank(self):
        events = self.events("run", "recipe.json", "-q", "--run-dir", "run")
        self.assertEqual(self.lines(events, 0, 5)[-1], "OptimizerStep")

    def test_folder_is_missing(self):
        self.refused(73, ["nowhere: no such folder"], "run", "recipe.json", "--trace", "nowhere/trace.json")


if __name__ == "__main__":
    unittest.main()
