# SPDX-License-Identifier: Apache-2.0
"""How worlds of MPI ranks end if one of them throws, hangs, or does something different from the others."""

import os
import re
import subprocess
import time
import unittest

LAUNCH = os.environ["LLMTRAIN_MPI_LAUNCH"].split()
TOOL = os.environ["LLMTRAIN_MPI_TROUBLE_TOOL"]


class TroubleTest(unittest.TestCase):
    def end(self, trouble, ranks=3):
        start = time.monotonic()
        command = [*LAUNCH, str(ranks), TOOL, trouble]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.seconds = time.monotonic() - start
        lines = re.findall(r"^\[rank (\d)\] (.*)$", result.stderr, re.MULTILINE)
        return result.returncode, {int(rank): message for rank, message in lines}

    def test_none(self):
        self.assertEqual(self.end("none"), (0, {}))

    def test_a_rank_that_throws_ends_the_others_with_its_message(self):
        code, messages = self.end("throw")
        self.assertEqual(code, 65)
        self.assertEqual(messages[1], "shard 3 is broken")
        for rank in messages.keys() - {1}:
            self.assertEqual(messages[rank], "rank 1: shard 3 is broken")
        self.assertLess(self.seconds, 30)

    def test_a_rank_that_hangs_is_named_with_its_last_operation(self):
        code, messages = self.end("hang")
        self.assertEqual(code, 69)
        message = next(iter(messages.values()))
        # The rank that hangs has completed its part of what it had started: the others wait in the next operation.
        self.assertRegex(message, r"^rank [02] waited .* in barrier for control in group world \[0 1 2\] for rank 1 ")
        self.assertIn("rank 1 (last operation: all_reduce of 300000 fp32", message)
        self.assertIn("launch.watchdog_seconds", message)

    def test_ranks_that_disagree_on_a_size_are_reported(self):
        code, messages = self.end("size", 2)
        self.assertIn(code, (1, 69))
        self.assertTrue(any("ranks that start different operations" in text or "must agree" in text for text in messages.values()))

    def test_a_group_that_a_rank_does_not_create_is_named(self):
        code, messages = self.end("group", 2)
        self.assertEqual(code, 69)
        self.assertIn("rank 1 (last operation", messages[0])


if __name__ == "__main__":
    unittest.main()
