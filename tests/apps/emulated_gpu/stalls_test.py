# SPDX-License-Identifier: Apache-2.0
"""How often the host waits for a GPU, on the emulated one, which counts: once per step, per position of texts that grow
together and per batch of an evaluation; and that what no longer waits gives the processor's numbers."""
import math
import unittest

from emulated import REAL, EmulatedTest, boxes_of, main
from program import TEXT

STEPS, MORE = 3, 6
# Two micro-batches per step, and a norm that is clipped.
RECIPE = {
    "name": "small",
    "model": {"architecture": "llama", "layers": 2, "hidden_size": 32, "heads": 4, "kv_heads": 2, "vocab_size": 256,
              "max_sequence_length": 16},
    "batch": {"global": 4, "micro": 2},
    "training": {"steps": STEPS, "clip_norm": 0.5},
    "data": {"train": [{"path": "text.txt"}]},
    "cluster": {"device": "cuda"},
}


class StallsTest(EmulatedTest):
    variables = {"EMULATED_SUMMARY": "1", "EMULATED_DEVICES": "2", "EMULATED_MEMORY": "1024"}

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", RECIPE)

    def emulated(self, *arguments, code=0, **variables):
        """Runs the program, and returns what the emulated device has counted."""
        result = self.run_emulated(*arguments, environment=variables)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotIn("profiling", result.stderr)  # LibTorch's word on memory that another thread frees
        counts = self.counts_of(result)
        return counts[0] if counts else {}  # of a run on the processor, or on a real GPU

    def states(self, folder):
        """The tensors in fp32 of a run's newest checkpoint, by name."""
        return {name: values for (_, name), values in boxes_of(self.newest_checkpoint(folder)).items()}

    def train(self, folder, *arguments, steps=STEPS, **options):
        return self.emulated("run", "recipe.json", "-q", "--run-dir", folder, "--set", f"training.steps={steps}",
                             "--set", "training.learning_rate.decay_steps=10", *arguments, **options)

    def check_waits(self, *settings):
        few = self.train("few", *settings)
        more = self.train("more", *settings, steps=MORE)
        if REAL:
            return
        self.assertEqual(more["waits"] - few["waits"], MORE - STEPS, "the host waits once per step")
        self.assertEqual(more["growths"], few["growths"], "later steps take no new memory")
        self.assertEqual(more["pageable"], few["pageable"], "a step copies from and to pinned memory alone")

    def check_steps(self, tolerance, *settings):
        self.check_waits(*settings)
        self.train("cpu", *settings, "--set", "cluster.device=cpu", steps=MORE)
        for row, expected in zip(self.rows("more"), self.rows("cpu"), strict=True):
            self.assertEqual(row["skipped"], expected["skipped"])
            for name in ("loss", "grad_norm"):
                if expected[name] is None:  # of an overflow
                    self.assertIsNone(row[name])
                    continue
                self.assertLess(abs(row[name] / expected[name] - 1), tolerance, (name, row, expected))
        self.check_states("more", "cpu", tolerance)

    def check_states(self, folder, expected, tolerance):
        """Changes of weights since the few steps of the same run, and moments, against the expected run's."""
        first = self.states("few")
        states, right = self.states(folder), self.states(expected)
        self.assertEqual(states.keys(), right.keys())
        for name, values in right.items():
            change = math.dist(values, first[name])
            # Adam divides by the gradient's size: where that is nearly 0, rounding decides a weight's step.
            self.assertLessEqual(math.dist(states[name], values), 100 * tolerance * change, name)

    def test_a_step_waits_once(self):
        self.check_steps(1e-6)

    def test_a_step_waits_once_in_bf16(self):
        # A large eps lets updates follow the gradients: Adam's first ones are their signs, which rounding decides near 0.
        self.check_steps(1e-3, "--set", "precision.compute=bf16", "--set", "training.optimizer.eps=0.01")

    def test_a_step_waits_once_with_muon(self):
        # GPUs orthogonalise in bf16, whose rounding shows in the updates.
        self.check_waits("--set", "training.optimizer.name=muon")

    def test_a_step_waits_once_in_fp16_whether_it_overflows_or_not(self):
        settings = ("--set", "precision.compute=fp16", "--set", "precision.loss_scale.initial=2097152")
        self.check_steps(1e-3, *settings)
        self.assertEqual(self.rows("more")[-1]["skipped"], 1)

    def test_a_step_waits_once_with_a_vocabulary_that_ranks_split(self):
        self.check_steps(1e-5, "--ranks", "2", "--set", "parallel.tensor=2", "--set", "launch.backend=mpi")

    def check_fp8(self, level, scaling):
        # Gradients may leave FP8, which the host decides.
        self.check_waits("--set", f"precision.fp8_level={level}", "--set", f"precision.fp8_scaling.method={scaling}",
                         "--set", "precision.high_precision.fallback_steps=2")

    def test_a_step_waits_once_at_fp8_level_1(self):
        self.check_fp8("O1", "delayed")

    def test_a_step_waits_once_at_fp8_level_2(self):
        self.check_fp8("O2", "current")

    def test_a_step_waits_once_at_fp8_level_3(self):
        self.check_fp8("O3", "delayed")

    def test_a_step_waits_once_with_experts(self):
        settings = {"precision.compute": "bf16", "model.moe.experts": 4, "model.moe.ffn_hidden_size": 32,
                    "log.routing": "true"}
        self.check_waits(*(word for key, value in settings.items() for word in ("--set", f"{key}={value}")))

    def test_checkpoints_go_on_where_they_were_left(self):
        """States are copied while the next step computes: a copy that were late would have that step's."""
        often = ("--set", "checkpoint.every=1", "--set", "checkpoint.keep=9")
        self.train("whole", *often, steps=4)
        whole = (self.folder / "whole/checkpoints")
        self.train("waiting", *often, "--set", "checkpoint.async=false", steps=4)
        for path in whole.glob("step-*/*.safetensors"):
            same = self.folder / "waiting/checkpoints" / path.relative_to(whole)
            self.assertEqual(path.read_bytes(), same.read_bytes(), path)
        resumed = str(whole / "step-00000002")
        self.train("again", "--resume", resumed, steps=4)
        self.assertEqual(self.states("again"), self.states("whole"))
        # From a GPU to a processor, and from there back.
        self.train("few", steps=2)
        self.train("cpu", "--resume", resumed, *often, "--set", "cluster.device=cpu", steps=4)
        self.check_states("cpu", "whole", 1e-6)
        self.train("back", "--resume", str(self.folder / "cpu/checkpoints/step-00000003"), steps=4)
        self.check_states("back", "cpu", 1e-6)

    def test_a_request_to_stop_within_a_step(self):
        self.train("stopped", code=75, steps=4, LLMTRAIN_FAULT="stop:forward:0:2")
        self.assertEqual([row["step"] for row in self.rows("stopped")], [1, 2])
        self.train("stopped", steps=4)
        self.train("whole", steps=4)
        self.assertEqual(self.states("stopped"), self.states("whole"))

    def test_texts_and_evaluations(self):
        self.check_waits_of_texts()
        # Beyond max_sequence_length, too, and with more texts than grow together.
        texts = ("sample", "small", "--prompt", "The ", "--samples", "5", "--batch", "2", "--tokens", "20")
        on_gpu, on_cpu = (self.run_emulated(*texts, "--set", f"cluster.device={device}").stdout
                          for device in ("cuda", "cpu"))
        self.assertEqual(on_gpu, on_cpu)
        self.assertGreater(len(on_gpu), 50)

    def check_waits_of_texts(self):
        self.train("small")
        if REAL:
            return

        def waits(*arguments):
            return self.emulated(*arguments)["waits"]

        texts = ("sample", "small", "--prompt", "The", "--samples", "3", "--temperature", "0", "--tokens")
        self.assertEqual(waits(*texts, "8") - waits(*texts, "4"), 4)
        batches = ("eval", "small", "--data", "text.txt", "--batches")
        # A batch is two micro-batches.
        self.assertEqual(waits(*batches, "4") - waits(*batches, "2"), 4)


if __name__ == "__main__":
    main()
