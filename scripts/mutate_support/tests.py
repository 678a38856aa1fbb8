# SPDX-License-Identifier: Apache-2.0
"""The tests that ctest knows in a build folder, run until the first one fails."""

import concurrent.futures
import dataclasses
import json
import os
import re
import signal
import subprocess
import threading
import time

# Which tests are fast: those with one of these labels and none of the others, but for a few names. What is left out
# takes from half a minute to minutes, measures times, reads sources and not the program, or needs a GPU.
FAST_LABELS = {"unit", "ranks"}
OTHER_LABELS = {"lint", "measures", "oracle", "gpu"}
SLOW_NAMES = re.compile(r"layouts_test|ranks_test")

EMULATED_PROGRAM = "tests/emulated_gpu/llmtrain"

UNBROKEN_LIMIT = 600  # seconds
POLL_SECONDS = 0.02


@dataclasses.dataclass
class Test:
    name: str
    command: list
    folder: str
    environment: dict
    labels: set
    skip_code: int
    files: set  # of the build folder, which it runs
    limit: float = UNBROKEN_LIMIT

    def is_fast(self):
        has_label = bool(self.labels & FAST_LABELS) and not self.labels & OTHER_LABELS
        return has_label and not SLOW_NAMES.fullmatch(self.name)

    def expect(self, seconds):
        """It takes so long when nothing is broken: several times that is too long, also on a machine that is busier."""
        self.limit = 30 + 5 * seconds

    def quick_command(self):
        """The same, but it ends at its first failure, as Catch2 and unittest can."""
        if self.command[-1].endswith(".py"):
            return [*self.command, "--failfast"]
        is_catch = len(self.command) == 1 and self.command[0].endswith("_test")
        return [*self.command, "--abort"] if is_catch else self.command


@dataclasses.dataclass
class Result:
    test: Test
    outcome: str  # "passes", "is skipped", "fails", "takes too long" or "is stopped"
    seconds: float

    def is_failure(self):
        return self.outcome in ("fails", "takes too long")


def list_tests(build):
    """{name: Test} of a build folder in which everything is built."""
    output = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True)
    tests = {}
    for entry in json.loads(output.stdout)["tests"]:
        if "command" not in entry:
            continue  # its program was not built
        properties = {each["name"]: each["value"] for each in entry.get("properties", [])}
        environment = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
        words = [*entry["command"], *environment.values()]
        built = [word for word in words if word.startswith(f"{build}/") and os.path.isfile(word)]
        files = {os.path.relpath(word, build) for word in built}
        # The program loads its runtime, and with it all that is loaded from there.
        if "llmtrain" in files:
            files.add("llmtrain_runtime")
        # No target is called as the copy of the program that runs on an emulated GPU (tests/emulator/CMakeLists.txt).
        if EMULATED_PROGRAM in files:
            files = files - {EMULATED_PROGRAM} | {"emulated_gpu"}
        tests[entry["name"]] = Test(entry["name"], entry["command"], properties.get("WORKING_DIRECTORY", build),
                                    environment, set(properties.get("LABELS", [])),
                                    properties.get("SKIP_RETURN_CODE", -1), files)
    return tests


class Runner:
    """Runs several tests at a time; what one that fails writes stays in `outputs`."""

    def __init__(self, jobs, outputs):
        self.jobs = jobs
        self.outputs = outputs
        outputs.mkdir(parents=True, exist_ok=True)

    def run(self, tests, label, stops_early=True):
        """The results, in the order in which they came; with `stops_early` a failure ends the other tests."""
        stop = threading.Event()
        results = []
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(self.run_one, test, label, stop) for test in tests]
            try:
                for done in concurrent.futures.as_completed(waiting):
                    results.append(done.result())
                    if stops_early and results[-1].is_failure():
                        stop.set()
            finally:
                stop.set()
        return results

    def run_one(self, test, label, stop):
        start = time.monotonic()
        if stop.is_set():
            return Result(test, "is stopped", 0)
        output = self.outputs / f"{label}.{test.name}.txt"
        outcome = run_process(test, output, stop, start + test.limit)
        if outcome in ("passes", "is stopped"):
            output.unlink()
        return Result(test, outcome, time.monotonic() - start)


def run_process(test, output, stop, deadline):
    # As the presets have it: threads that wait by spinning take the processors from other tests, which then take too
    # long although nothing is wrong.
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ, **test.environment}
    with output.open("wb") as file:
        process = subprocess.Popen(test.quick_command(), cwd=test.folder, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        while process.poll() is None:
            if stop.is_set() or time.monotonic() > deadline:
                end(process)
                return "is stopped" if stop.is_set() else "takes too long"
            time.sleep(POLL_SECONDS)
    if process.returncode == test.skip_code:
        return "is skipped"
    return "passes" if process.returncode == 0 else "fails"


def end(process):
    """mpirun ends its ranks, which are no children of this process, when it is asked to."""
    for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
