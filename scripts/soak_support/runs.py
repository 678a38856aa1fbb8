# SPDX-License-Identifier: Apache-2.0
"""Runs of the program in a folder of their own."""
import contextlib
import json
import os
import pathlib
import subprocess
import time

import checker

TEXT = "The quick brown fox jumps over the lazy dog, and nothing is lost.\n" * 60
RECIPE = {"name": "soak",
          "model": {"architecture": "gpt2", "layers": 2, "hidden_size": 32, "heads": 4, "vocab_size": 256,
                    "max_sequence_length": 32},
          "data": {"train": [{"path": "text.txt"}]}, "batch": {"global": 8, "micro": 1},
          "training": {"steps": 60, "evaluate_every": 0, "learning_rate": {"warmup_steps": 20}},
          "log": {"tensorboard": False}}


class Started:
    """A run that was started, and all processes that it has started so far."""

    def __init__(self, process, folder):
        self.process, self.folder, self.start = process, folder, time.monotonic()

    def below(self):
        return list(checker.processes_below(self.process.pid))

    def rank_processes(self):
        ranks = ((checker.rank_of(identity[0]), identity[0]) for identity in self.below())
        return {rank: pid for rank, pid in ranks if rank is not None}

    def wait_for(self, condition, seconds=120):
        """Until the condition holds or the run has ended; returns whether it holds."""
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > end:
                raise checker.Loss(f"{self.folder}: nothing happens within {seconds} s")
            time.sleep(0.002)
        return True

    def wait_for_step(self, step):
        return self.wait_for(lambda: max(checker.rows_of(self.folder), default=0) >= step)

    def end(self, seconds=60):
        """Exit code and what it said; a run that does not end is a Loss."""
        try:
            said = self.process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise checker.Loss(f"{self.folder}: did not end within {seconds} s") from None
        return self.process.returncode, said

    def orphans(self, known, seconds=5):
        """Processes of `known` that run on `seconds` from now."""
        end = time.monotonic() + seconds
        left = [each for each in known if checker.running(each)]
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = [each for each in left if checker.running(each)]
        return left


class Runs:
    """The program, and a folder for its runs, with a recipe and its text."""

    def __init__(self, program, folder, recipe=None):
        self.program, self.folder = program, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "text.txt").write_text(TEXT)
        (self.folder / "recipe.json").write_text(json.dumps(recipe or RECIPE))

    def command(self, run, settings):
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        return [self.program, "run", "recipe.json", "-q", "--run-dir", run, *sets]

    def start(self, run, settings, environment=None):
        # One thread per rank; the machine's cores are fewer than ranks.
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **(environment or {})}
        process = subprocess.Popen(self.command(run, settings), cwd=self.folder, env=variables, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return Started(process, self.folder / run)

    def finish(self, run, settings):
        """Runs to the end; anything but success is a Loss. Returns the run's folder."""
        code, said = self.start(run, settings).end(300)
        if code != 0:
            raise checker.Loss(f"{run}: exit code {code}: {said}")
        return self.folder / run

    @contextlib.contextmanager
    def started(self, run, settings, environment=None):
        """A run that does not outlive the block."""
        run = self.start(run, settings, environment)
        try:
            yield run
        finally:
            if run.process.poll() is None:
                run.process.kill()
                run.process.communicate()
