# SPDX-License-Identifier: Apache-2.0
"""Signals and arithmetic: a handler must never run on the stack of a thread that computes, because oneDNN's generated
products point the stack pointer into memory of the heap. And requests to stop at any moment end a run with a checkpoint.
"""
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from program import PROGRAM, TrainingTest

STORM = os.environ.get("LLMTRAIN_SIGNAL_STORM")
# Those that an instruction causes itself stay free on all threads.
SYNCHRONOUS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT,
               signal.SIGSYS}
# Products of single precision, in the generated code that every processor with AVX2 can run.
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
SHAPE = {"model.hidden_size": 64, "model.layers": 2, "model.heads": 4, "model.max_sequence_length": 32,
         "batch.global": 4, "batch.micro": 2, "precision.compute": "fp32"}
# scripts/test-signals asks for more of both.
STEPS = int(os.environ.get("LLMTRAIN_STORM_STEPS", "120"))
STOPS = int(os.environ.get("LLMTRAIN_STOPS", "6"))


def free_signals(pid):
    """{thread: the signals of 1 to 31 that it does not block}, of a process."""
    free = {}
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:  # the thread has ended
            continue
        blocked = int(next(line for line in lines if line.startswith("SigBlk:")).split()[1], 16)
        # SIGKILL and SIGSTOP cannot be blocked.
        free[status.parent.name] = {number for number in range(1, 32)
                                    if not blocked >> (number - 1) & 1} - {signal.SIGKILL, signal.SIGSTOP}
    return free


def descendants(pid):
    found = [pid]
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += descendants(int(child))
        except OSError:
            continue
    return found


def is_program(pid):
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")) == PROGRAM.resolve()
    except OSError:
        return False


class SignalsTest(TrainingTest):
    def recipe(self, changes=None):
        return super().recipe({**SHAPE, "training.steps": STEPS, "checkpoint.every": 0, **(changes or {})})

    def losses(self, folder):
        return [(row["step"], row["loss"], row["grad_norm"]) for row in self.rows(folder) if "loss" in row]

    def under_storm(self, *arguments, **environment):
        count = self.folder / "storm"
        count.unlink(missing_ok=True)
        result = self.run_program(*arguments, environment={"LD_PRELOAD": STORM, "LLMTRAIN_STORM": str(count),
                                                           **AVX2, **environment})
        self.assertEqual(result.returncode, 0, result.stderr)
        # There was a storm: otherwise the same numbers would mean nothing.
        self.assertGreater(max(int(line) for line in count.read_text().split()), 50)
        return result

    def check_threads(self, pid):
        free = free_signals(pid)
        receivers = [thread for thread, signals in free.items() if signals - SYNCHRONOUS]
        self.assertEqual(len(receivers), 1, free)
        return len(free)

    @unittest.skipUnless(STORM, "built without the preloaded library")
    def test_a_storm_of_signals_changes_no_bit_of_training(self):
        self.train("--run-dir", "calm", environment={**AVX2, "OMP_NUM_THREADS": "2"})
        self.under_storm("run", "recipe.json", "-q", "--run-dir", "storm-run", OMP_NUM_THREADS="2")
        self.assertEqual(self.losses("storm-run"), self.losses("calm"))

    @unittest.skipUnless(STORM, "built without the preloaded library")
    def test_a_storm_of_signals_changes_no_bit_of_four_ranks(self):
        layout = ("--ranks", "4", "--set", "parallel.tensor=2", "--set", f"training.steps={STEPS // 2}")
        self.train("--run-dir", "calm", *layout, environment=AVX2)
        self.under_storm("run", "recipe.json", "-q", "--run-dir", "storm-run", *layout)
        self.assertEqual(self.losses("storm-run"), self.losses("calm"))

    @unittest.skipUnless(STORM, "built without the preloaded library")
    def test_a_storm_of_signals_changes_no_bit_of_sampling_and_evaluation(self):
        self.train("--run-dir", "run", "--set", "training.steps=3")
        sample = ("sample", "run", "--prompt", "The", "--tokens", str(STEPS // 2), "--seed", "7")
        self.assertEqual(self.under_storm(*sample).stdout, self.run_program(*sample, environment=AVX2).stdout)
        evaluate = ("eval", "run", "--data", "text.txt", "--json")
        self.assertEqual(self.under_storm(*evaluate).stdout, self.run_program(*evaluate, environment=AVX2).stdout)

    def test_one_thread_of_each_process_receives_signals(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                process = self.start_program("run", "recipe.json", "--ranks", ranks, "--run-dir", f"run-{ranks}",
                                             "--set", "training.steps=1000000")
                self.wait_for_a_step(process)
                programs = [pid for pid in descendants(process.pid) if is_program(pid)]
                self.assertEqual(len(programs), 1 if ranks == "1" else 3)
                threads = [self.check_threads(pid) for pid in programs]
                self.assertGreaterEqual(min(threads), 2)
                process.send_signal(signal.SIGINT)
                process.stderr.read()
                self.assertEqual(process.wait(), 75)

    def test_commands_that_compute_have_one_thread_that_receives_signals(self):
        self.train("--run-dir", "run", "--set", "training.steps=1")
        self.write("large.txt", "A line of text, and one more of them.\n" * 400000)
        commands = (("sample", "run", "--prompt", "The", "--tokens", "1000000"), ("eval", "run", "--data", "large.txt"),
                    ("data", "tokenize", "large.txt", "--tokenizer", "bytes", "--output", "tokens"))
        for command in commands:
            with self.subTest(command=command[0]):
                process = self.start_program(*command, stdout=subprocess.DEVNULL)
                # Until its threads have started, before which they block all signals; the test ends it.
                free, deadline = {}, time.monotonic() + 60
                while (process.poll() is None and time.monotonic() < deadline and
                       (len(free) < 2 or not any(signals - SYNCHRONOUS for signals in free.values()))):
                    free = free_signals(process.pid)
                self.assertIsNone(process.poll(), "it has ended before it was looked at")
                self.check_threads(process.pid)
                process.kill()

    def test_interrupts_at_random_moments_end_with_a_checkpoint(self):
        steps = ("--set", "training.steps=120")
        self.train("--run-dir", "whole", *steps)
        moments = random.Random(4845)
        for index in range(STOPS):
            folder = f"run-{index}"
            process = self.start_program("run", "recipe.json", "--run-dir", folder, *steps)
            self.wait_for_a_step(process)
            time.sleep(moments.random() * 0.1)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            # 0: it had done its last step.
            self.assertIn(process.wait(), (75, 0), said)
            self.train("--run-dir", folder, *steps)
            self.assertEqual(self.losses(folder), self.losses("whole"))


if __name__ == "__main__":
    unittest.main()
