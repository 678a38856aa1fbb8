# SPDX-License-Identifier: Apache-2.0
"""Runs of the program on the emulated GPU beside the same on the CPU."""
import array
import json
import math
import os
import pathlib
import re
import shutil
import struct

import program

PROGRAM = pathlib.Path(os.environ["LLMTRAIN_EMULATED_PROGRAM"])
TEXT = "The quick brown fox jumps over the lazy dog, 12 times.\nIt barks. " * 60


def floats(checkpoint):
    """The values of a checkpoint's F32 tensors: {name: array}."""
    values = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        content = path.read_bytes()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                begin, end = (start + offset for offset in entry["data_offsets"])
                values[name] = array.array("f", content[begin:end])
    return values


def distance(a, b, names):
    return math.sqrt(sum((x - y) ** 2 for name in names for x, y in zip(a[name], b[name])))


class EmulatedTest(program.ProgramTest):
    """`run()` trains a recipe on a device and reads what it left."""

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)

    def start(self, device, *arguments):
        """Runs the command on the device, which on the GPU must have had work and no race."""
        result = self.run_program(*arguments, program=PROGRAM, environment={
            "EMULATED_MEMORY": "1024", "EMULATED_DELAY": "0", "EMULATED_SUMMARY": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        launches = re.search(r"device 0: (\d+) launches.* (\d+) races", result.stdout + result.stderr)
        if device == "cuda":
            self.assertGreater(int(launches[1]), 100)
            self.assertEqual(launches[2], "0", result.stderr)
        else:
            self.assertIsNone(launches)
        return result

    def run_on(self, device, recipe):
        recipe = {**recipe, "cluster": {"device": device}, "log": {"directory": device, "tensorboard": False},
                  "checkpoint": {"every": 1, "keep": 0}}
        self.write(f"{device}.json", recipe)
        shutil.rmtree(self.folder / device, ignore_errors=True)
        self.start(device, "run", f"{device}.json", "-q")
        rows = [json.loads(line) for line in (self.folder / device / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if "loss" in row]

    def weights(self, device, step):
        return floats(self.folder / device / "checkpoints" / f"step-{step:08d}")

    def compare(self, recipe, tolerance, of_change):
        """Losses to `tolerance`, relatively, and what training changed of the weights to the part `of_change`."""
        expected, got = self.run_on("cpu", recipe), self.run_on("cuda", recipe)
        self.assertEqual(len(expected), recipe["training"]["steps"])
        self.assertEqual(len(got), len(expected))
        for a, b in zip(expected, got):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=tolerance * a["loss"])
        last = len(expected)
        first, mine, theirs = self.weights("cpu", 1), self.weights("cuda", last), self.weights("cpu", last)
        self.assertEqual(mine.keys(), theirs.keys())
        changed = [name for name in theirs if not name.endswith((".m", ".v"))]
        self.assertTrue(changed)
        change = distance(theirs, first, changed)
        self.assertGreater(change, 0)
        self.assertLess(distance(mine, theirs, changed), of_change * change)
