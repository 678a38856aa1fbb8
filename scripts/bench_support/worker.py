# SPDX-License-Identifier: Apache-2.0
"""The driver's side of a training process that executes the commands "run N" and "memory"."""
import json
import os
import statistics
import subprocess


class Worker:
    def __init__(self, name, command, environment, log):
        self.name = name
        self.turns = []  # seconds of each step, one list per turn
        self.peak_bytes = 0
        self.loss = None  # of the last step that warmed up
        self._log = log
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=log.open("w"), text=True)
        self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"scripts/bench: {self.name} ended with {self._process.wait()}; its messages: {self._log}")
        return json.loads(line)

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def warm_up(self, steps):
        """Untimed steps that compile, allocate and fault in what later steps use."""
        answer = self.ask(f"run {steps}")
        self.loss = answer.get("loss")
        return answer["seconds"][-1]

    def run(self, steps):
        self.turns.append(self.ask(f"run {steps}")["seconds"])

    def samples(self):
        return [seconds for turn in self.turns for seconds in turn]

    def median(self):
        return statistics.median(self.samples())

    def cpu_seconds(self):
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.peak_bytes = self.ask("memory")["peak_bytes"]
        self._process.stdin.close()
        self._process.wait()
