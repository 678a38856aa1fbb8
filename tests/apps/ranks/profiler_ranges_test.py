# SPDX-License-Identifier: Apache-2.0
"""The ranges that a profiler sees of a run, recorded by one (nvtx_recorder.cpp) that needs no GPU."""
import collections
import json
import os
import unittest

from program import TEXT, ProgramTest, small

LAYOUT = ["--ranks", "2", "--set", "parallel.pipeline=2", "--set", "launch.backend=local"]


class ProfilerRanges(ProgramTest):
    def recorded(self, *arguments):
        """{name of a thread: its (depth, range) in the order in which they began}."""
        self.write("text.txt", TEXT)
        files = {key: [{"path": "text.txt"}] for key in ("train", "validation")}
        self.write("recipe.json", small({"data": files, "model.layers": 2, "batch": {"global": 4, "micro": 2},
                                         "training.evaluate_every": 2, "training.evaluate_batches": 1}))
        result = self.run_program("run", "recipe.json", "-q", *arguments, environment={
            "NVTX_INJECTION64_PATH": os.environ["NVTX_RECORDER"], "NVTX_RECORDER_OUTPUT": "ranges.txt"})
        self.assertEqual(result.returncode, 0, result.stderr)
        names, depths, ranges = {}, collections.Counter(), collections.defaultdict(list)
        for line in (self.folder / "ranges.txt").read_text().splitlines():
            thread, what, name = line.split(" ", 2)
            if what == "=":
                names[thread] = name
            elif what == "+":
                ranges[thread].append((depths[thread], name))
                depths[thread] += 1
            else:
                depths[thread] -= 1
                self.assertGreaterEqual(depths[thread], 0)
        self.assertEqual(set(depths.values()), {0}, "each range ends")
        return {names[thread]: own for thread, own in ranges.items()}

    def test_steps_hold_the_instructions_of_their_rank(self):
        ranges = self.recorded(*LAYOUT, "--trace", "trace.json")
        self.assertEqual(set(ranges), {"rank 0", "rank 1"})
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        for rank in range(2):
            expected = [(0, "evaluation")]
            for step in (1, 2):
                own = [event for event in events
                       if event["ph"] == "X" and event["pid"] == rank and event["args"]["step"] == step]
                expected += [(0, f"step {step}")]
                expected += [(1, event["args"]["instruction"]) for event in sorted(own, key=lambda event: event["ts"])]
            expected += [(0, "evaluation"), (0, "saving a checkpoint")]
            self.assertEqual(ranges[f"rank {rank}"], expected)
        self.assertIn((1, "Forward stage 0 micro 1"), ranges["rank 0"])

    def test_one_rank(self):
        (own,) = self.recorded().values()
        self.assertEqual([name for depth, name in own if depth == 0],
                         ["evaluation", "step 1", "step 2", "evaluation", "saving a checkpoint"])


if __name__ == "__main__":
    unittest.main()
