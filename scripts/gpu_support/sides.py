# SPDX-License-Identifier: Apache-2.0
"""Training processes that take turns on one GPU, as many at a time as fit beside each other."""
import contextlib
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import machine as machines

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench_support"))
from worker import Worker  # noqa: E402

WARM_UP_STEPS = 4
TURN_SECONDS = 2.0
MOST_STEPS = 40
ANSWER_SECONDS = 150
NO_TIME = "no time left"
# A process's own share: CUDA's context and the libraries' kernels.
CONTEXT_BYTES = 1 << 30


class Side:
    """One of those compared. `needs` are the bytes that it is expected to take at work and while others are; one that
    `releases` gives memory back after a turn."""

    def __init__(self, name, command, log, needs, releases=False):
        peak_need, idle_need = needs
        self.name, self.command, self.log, self.releases = name, command, log, releases
        self.peak_need, self.idle_need = peak_need + CONTEXT_BYTES, idle_need + CONTEXT_BYTES
        self.worker, self.steps, self.start_seconds = None, 1, 0
        self.turns, self.peak_bytes, self.tensor_bytes, self.failure = [], 0, 0, None

    def median(self):
        return statistics.median(seconds for turn in self.turns for seconds in turn)


class LimitedWorker(Worker):
    """Kills its process when an answer takes too long: the answer is then that it has ended."""

    def __init__(self, left, *arguments):
        self._left = left
        super().__init__(*arguments)

    def _answer(self):
        timer = threading.Timer(max(1, min(ANSWER_SECONDS, self._left())), self._process.kill)
        timer.start()
        try:
            return super()._answer()
        finally:
            timer.cancel()

    def end(self):
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Turns:
    def __init__(self, machine, memory):
        self.machine, self.memory, self.open = machine, memory, []

    def used(self):
        return machines.used_bytes() if self.machine.device == "cuda" else 0

    def close(self, side):
        self.open.remove(side)
        worker, side.worker = side.worker, None
        with contextlib.suppress(OSError, SystemExit, ValueError):
            if side.releases:
                side.tensor_bytes = max(side.tensor_bytes, worker.ask("memory")["peak_bytes"])
        worker.end()

    def make_room(self, side):
        """Closes those that have waited longest until the next fits beside what the others keep."""
        def fits():
            return side.peak_need + sum(each.idle_need for each in self.open if each is not side) <= 0.95 * self.memory

        for other in [each for each in self.open if each is not side]:
            if fits():
                return
            self.close(other)

    def start(self, side):
        """A new process, after the untimed steps that compile and allocate; sees how much memory it takes."""
        before, start = self.used(), time.monotonic()
        side.worker = LimitedWorker(self.machine.left, side.name, side.command, self.environment(side), side.log)
        self.open.append(side)
        seconds = side.worker.warm_up(WARM_UP_STEPS)
        side.steps = max(2, min(MOST_STEPS, round(TURN_SECONDS / seconds)))
        side.peak_bytes = max(side.peak_bytes, self.used() - before)
        side.start_seconds = time.monotonic() - start

    def environment(self, side):
        """PyTorch finds its own libraries; those of a pack are llmtrain's."""
        return self.machine.python_environment if side.releases else self.machine.environment

    def take(self, side):
        """One turn; what goes wrong is the side's failure, and it gets no further one."""
        try:
            self.make_room(side)
            if side.worker is None:
                self.start(side)
            side.worker.run(side.steps)
            side.turns.append(side.worker.turns[-1])
            if side.releases and self.machine.device == "cuda":
                side.worker.ask("release")
        except (OSError, SystemExit, ValueError) as error:
            side.failure = str(error).removeprefix("scripts/bench: ") if self.machine.left() > 1 else NO_TIME
            if side in self.open:
                self.close(side)

    def close_all(self):
        for side in list(self.open):
            self.close(side)
