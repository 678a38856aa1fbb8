# SPDX-License-Identifier: Apache-2.0
"""Runs on emulated GPUs (tests/emulator), and what their checkpoints hold.

With LLMTRAIN_REAL_GPU=1 they are runs of the program itself on this machine's GPUs: their numbers are checked, and not
what only the emulator counts. ctest -L gpu does that."""
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import struct
import sys
import unittest

from gpus import SKIPPED, count_gpus, gpu_environment
from program import ProgramTest

EMULATED = pathlib.Path(os.environ["LLMTRAIN_EMULATED_PROGRAM"])
REAL = os.environ.get("LLMTRAIN_REAL_GPU") == "1"
GPUS = count_gpus() if REAL else 4
# Tests of what only the emulator counts or plays.
emulated_only = unittest.skipIf(REAL, "only the emulated GPU shows it")
FORMATS = {"F32": ("f", 4), "F16": ("e", 2)}
COUNTS = re.compile(r"device (?P<device>\d+): (?P<launches>\d+) launches, \d+ allocations \((?P<growths>\d+) new\), peak \d+, "
                    r"(?P<waits>\d+) waits \(\d+ item\), (?P<pageable>\d+) pageable copies, .*, (?P<races>\d+) races")


def boxes_of(folder, types=("F32",)):
    """The numbers that each file of a checkpoint holds of a tensor, by (file, tensor)."""
    boxes = {}
    for path in sorted(folder.glob("*.safetensors")):
        content = path.read_bytes()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        for name, tensor in json.loads(content[8:start]).items():
            if name != "__metadata__" and tensor["dtype"] in types:
                letter, size = FORMATS[tensor["dtype"]]
                begin, end = (start + offset for offset in tensor["data_offsets"])
                boxes[path.name, name] = struct.unpack(f"<{(end - begin) // size}{letter}", content[begin:end])
    return boxes


def read_tensors(folder, types=("F32",)):
    """The tensors of a checkpoint that have these types, {name: flat list}, however ranks have cut them."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    boxes = boxes_of(folder, types)
    tensors = {}
    for tensor in manifest["tensors"]:
        if tensor["dtype"] not in types:
            continue
        shape = tensor["shape"]
        strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        values = [None] * math.prod(shape)
        for piece in tensor["slices"]:
            ranges = [range(first, first + size) for first, size in zip(piece["offset"], piece["shape"])]
            bounds = ",".join(f"{each.start}:{each.stop}" for each in ranges)
            name = tensor["name"] + ("" if piece["shape"] == shape else f"[{bounds}]")
            for place, value in zip(itertools.product(*ranges), boxes[piece["file"], name], strict=True):
                values[sum(index * stride for index, stride in zip(place, strides))] = value
        tensors[tensor["name"]] = values
    return tensors


def read_weights(folder):
    """A checkpoint's, without the optimizer's states."""
    return {name: values for name, values in read_tensors(folder).items() if not name.endswith((".m", ".v"))}


def distance(first, second):
    """Between two models: the root of the sum of squares of all differences."""
    return math.hypot(*(math.dist(values, second[name]) for name, values in first.items()))


def backend_for(backend, ranks):
    """NCCL needs a GPU for each rank, messages that go through the host do not."""
    return backend if ranks <= GPUS else "mpi"


def without_warnings(text):
    """Without what the emulator says of operations that are aborted."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("emulated: "))


class EmulatedTest(ProgramTest):
    """A race between streams, or a host that touches a GPU's memory, ends a run with another exit code than 0; and a run
    that ends with 0 leaves nothing behind."""

    variables = {"EMULATED_MEMORY": "1024"}

    def run_program(self, *arguments, environment=None, **options):
        needed = gpu_environment() if REAL else {}
        return super().run_program(*arguments, environment={**needed, **(environment or {})}, **options)

    def run_emulated(self, *arguments, environment=None, **options):
        ours = self.folder / "emulated-report"
        environment = {"EMULATED_REPORT_FILE": str(ours), **self.variables, **(environment or {})}
        result = self.run_program(*arguments, program=EMULATED, environment=environment, **options)
        reports = pathlib.Path(environment["EMULATED_REPORT_FILE"])
        for path in reports.parent.glob(f"{reports.name}.*"):
            if result.returncode == 0:
                self.check_end(json.loads(path.read_text()))
            if reports == ours:
                path.unlink()
        return result

    def check_end(self, report):
        """Nothing of the process holds memory, works, or is connected."""
        for memory in (*report["devices"], report["pinned"]):
            self.assertEqual(memory["leaks"]["blocks"], 0, memory["leaks"])
        self.assertEqual(report["busy_streams"], 0)
        communicators = report.get("communicators", {})
        self.assertEqual(communicators.get("created"), communicators.get("destroyed"))

    def counts_of(self, result, gpus=None):
        """What each GPU that had work has counted, of a program with EMULATED_SUMMARY; there must be no race. `gpus` is how
        many there must be, where it is given. Of real GPUs nothing."""
        counts = [{name: int(value) for name, value in found.groupdict().items()}
                  for found in COUNTS.finditer(result.stderr)]
        self.assertFalse([each for each in counts if each["races"] > 0], result.stderr)
        if gpus is not None and not REAL:
            self.assertEqual(len(counts), gpus, result.stderr)
        return sorted(counts, key=lambda each: each["device"])

    def newest_checkpoint(self, folder):
        return max((self.folder / folder / "checkpoints").glob("step-*"))


def main():
    if REAL and (GPUS == 0 or not shutil.which("mpirun")):
        print("skipped: this machine has no GPU" if GPUS == 0 else "skipped: no mpirun")
        sys.exit(SKIPPED)
    unittest.main()
