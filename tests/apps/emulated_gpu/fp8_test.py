# SPDX-License-Identifier: Apache-2.0
"""FP8 levels on emulated GPUs (tests/emulator) against the CPU. What both round to FP8 differs in the last bits of sums,
and now and then a number falls on the other side of the middle between two of FP8. The CPU's own layouts differ by the
same, which is measured here: no run on a GPU may be farther from the CPU's. The tensor cores of real GPUs keep about 14
bits of a product's sum where the CPU and the emulator keep 24 (DeepSeek-V3, arXiv 2412.19437, section 3.3.2), so that
more numbers fall on the other side: they may be four times as far."""
import itertools
import unittest

from emulated import FORMATS, REAL, EmulatedTest, backend_for, distance, main, read_tensors
from program import small

TEXT = "".join(f"{number} bottles of {word} on the wall, take {number - 1} down.\n"
               for number in range(99, 1, -1) for word in ("beer", "milk", "rain"))
FARTHER = 4 if REAL else 1
METHODS = ("current", "delayed")
LEVELS = ("O0", "O1", "O2", "O3")


def recipe():
    return small({
        "data": {"train": [{"path": "text.txt"}]},
        "model": {"architecture": "llama", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 256,
                  "max_sequence_length": 16},
        "batch": {"global": 4, "micro": 2}, "cluster": {"device": "cuda"},
        "training": {"steps": 5, "learning_rate": {"peak": 0.01, "warmup_steps": 2}},
        "checkpoint": {"every": 1, "keep": 0}})


def read_weights(folder):
    """The weights in their most precise form."""
    tensors = read_tensors(folder, FORMATS)
    weights = {}
    for name, values in tensors.items():
        if not name.endswith((".weight", ".weight.master")) or name + ".master" in tensors:
            continue
        scale = tensors.get(name + ".scale", [1])[0]
        weights[name.removesuffix(".master")] = [value / scale for value in values]
    return weights


def fp8(level, method):
    return f"precision.fp8_level={level}", f"precision.fp8_scaling.method={method}"


class Trained:
    """What a run has left: its losses, and its weights after the first and the last step."""

    def __init__(self, folder, rows):
        self.losses = [row["loss"] for row in rows]
        self.shares = [row.get("saturated_share") for row in rows]
        checkpoints = sorted((folder / "checkpoints").glob("step-*"))
        self.first, self.last = read_weights(checkpoints[0]), read_weights(checkpoints[-1])

    def losses_from(self, other):
        return max(abs(a - b) for a, b in zip(self.losses, other.losses, strict=True))


class Fp8Test(EmulatedTest):
    def setUp(self):
        super().setUp()
        self.cpu = {}  # the CPU's runs, by settings and ranks
        self.write("text.txt", TEXT)
        self.write("recipe.json", recipe())

    def train(self, name, *settings, ranks=1, environment=None):
        words = [word for setting in settings for word in ("--set", setting)]
        result = self.run_emulated("run", "recipe.json", "-q", "--run-dir", name, "--ranks", str(ranks), *words,
                                   environment=environment)
        self.assertEqual(result.returncode, 0, f"{name}: {result.stderr}")
        return Trained(self.folder / name, self.rows(name))

    def on_cpu(self, settings, ranks=1):
        if (settings, ranks) not in self.cpu:
            name = f"cpu-{ranks}-{len(self.cpu)}"
            self.cpu[settings, ranks] = self.train(name, "cluster.device=cpu", "launch.backend=local", *settings,
                                                   ranks=ranks)
        return self.cpu[settings, ranks]

    def spread(self):
        """By how much the CPU's own layouts differ: the most in losses and in weights."""
        pairs = [(self.on_cpu(settings), self.on_cpu((*settings, layout), 2))
                 for settings, layout in ((fp8("O0", "current"), "parallel.context=2"),
                                          (fp8("O1", "current"), "parallel.zero_stage=1"))]
        return max(a.losses_from(b) for a, b in pairs), max(distance(a.last, b.last) for a, b in pairs)

    def check_near(self, got, expected):
        losses, weights = self.spread()
        self.assertLessEqual(got.losses_from(expected), FARTHER * losses)
        self.assertLessEqual(distance(got.last, expected.last), FARTHER * weights / 4)
        # Which training has moved by far more.
        self.assertGreater(distance(expected.last, expected.first), 8 * weights)

    def check_one_rank(self):
        for level, method in itertools.product(LEVELS, METHODS):
            with self.subTest(level=level, method=method):
                settings = fp8(level, method)
                self.check_near(self.train(f"gpu-{level}-{method}", *settings), self.on_cpu(settings))

    def check_old_gpu(self):
        """One without FP8 products widens their operands, as the CPU does."""
        settings = fp8("O1", "delayed")
        got = self.train("old", *settings, environment={"EMULATED_WITHOUT_FP8": "1"})
        self.check_near(got, self.on_cpu(settings))

    def check_two_ranks(self):
        """Sums over ranks, that of gradients in FP8 among them, are in one order on both."""
        for backend, settings in (("mpi", (*fp8("O1", "current"), "parallel.zero_stage=1")),
                                  (backend_for("nccl", 2), (*fp8("O0", "delayed"), "parallel.tensor=2")),
                                  (backend_for("nccl", 2), (*fp8("O3", "delayed"), "parallel.zero_stage=3"))):
            with self.subTest(backend=backend, settings=settings):
                got = self.train(f"{backend}-{settings[0][-2:]}", f"launch.backend={backend}", *settings, ranks=2)
                expected = self.on_cpu(settings, 2)
                self.check_near(got, expected)
                self.assertEqual(got.shares, expected.shares)

    def check_other_device(self):
        """A checkpoint goes on on the other device."""
        settings = fp8("O3", "delayed")
        for first, then in (("cpu", "cuda"), ("cuda", "cpu")):
            with self.subTest(first=first, then=then):
                name = f"{first}-{then}"
                self.train(name, *settings, "training.steps=2", f"cluster.device={first}")
                stored = read_tensors(self.folder / name / "checkpoints" / "step-00000002")
                self.assertGreater(len([key for key in stored if key.endswith(".amax_history")]), 0)
                self.check_near(self.train(name, *settings, f"cluster.device={then}"), self.on_cpu(settings))

    def test_gpus_learn_what_the_cpu_learns(self):
        # In one, as they share the CPU's runs.
        self.check_one_rank()
        if not REAL:
            self.check_old_gpu()
        self.check_two_ranks()
        self.check_other_device()


if __name__ == "__main__":
    main()
