# SPDX-License-Identifier: Apache-2.0
"""Runs the built program like users do, and checks what all of its runs must have in common."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["LLMTRAIN_PROGRAM"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXIT_CODES = {0, 2, 65, 66, 69, 73, 75}  # and 1, which only doctor's tests expect
ACCIDENTS = ("terminate", "what():", "internal error", "Exception raised from", "assert", "core dumped", "std::",
             "Segmentation", "Sanitizer", "json.exception", "filesystem error")
# Characters that steer a terminal, and those that also set the direction of writing, which names of others may have. A
# model's text keeps the latter, as texts of any language need them.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# CTest's, for programs that get no other variables of the test's.
SANITIZER_OPTIONS = {name: value for name, value in os.environ.items() if name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40

SMALL = {
    "name": "small",
    "model": {"architecture": "gpt2", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 256,
              "max_sequence_length": 16},
    "batch": {"global": 2, "micro": 2},
    "training": {"steps": 2},
}


def links_held_by(pid):
    """What the open descriptors of a process that is at work refer to."""
    held = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed
            held.add(os.readlink(link))
    return held


def small(changes=None, **sections):
    """A valid recipe with `changes` applied ({pointer path: value}; the value None removes the key)."""
    recipe = json.loads(json.dumps({**SMALL, **sections}))
    for path, value in (changes or {}).items():
        *above, last = path.split(".")
        place = recipe
        for key in above:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(last)
        else:
            place[last] = value
    return recipe


def numbers(value):
    """All numbers inside a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for element in value for number in numbers(element)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def tree_hash(folder):
    """A hash of every name, type, permission and content below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest.update(f"{path.relative_to(folder)} {status.st_mode:o}".encode("utf-8", "surrogateescape"))
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def without_rights():
    """For preexec_fn: root may read and write everything, so tests of permissions run as nobody."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def needs_nobody():
    """Skips a test if the program cannot be run without root's rights because only root may enter its folder."""
    try:
        subprocess.run([PROGRAM, "--version"], preexec_fn=without_rights, capture_output=True, check=True)
        return lambda test: test
    except (OSError, subprocess.SubprocessError):
        return unittest.skip("nobody may not run the program: it lies in a folder that only root may enter")


class ProgramTest(unittest.TestCase):
    """Each test has an empty working folder of its own, outside the source tree."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run_program(self, *arguments, program=PROGRAM, environment=None, **options):
        """Runs the program in the test's folder; a crash, a stack trace or an unknown exit code fails the test."""
        variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "LC_ALL": "C", **SANITIZER_OPTIONS,
                     **(environment or {})}
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        result = subprocess.run([program, *arguments], cwd=self.folder, env=variables, check=False, **options)
        result.stdout = (result.stdout or b"").decode("utf-8", "replace")
        result.stderr = (result.stderr or b"").decode("utf-8", "replace")
        said = f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
        self.assertIn(result.returncode, EXIT_CODES | ({1} if "doctor" in arguments else set()), said)
        for accident in ACCIDENTS:
            self.assertNotIn(accident, result.stderr, said)
        self.assertIsNone((CONTROL if {"sample", "chat"} & set(arguments) else STEERING).search(result.stdout), repr(said))
        self.assertIsNone(STEERING.search(result.stderr), repr(said))
        return result

    def rows(self, folder="runs/small"):
        """A run's metrics, row by row."""
        return [json.loads(line) for line in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]

    def start_program(self, *arguments, program=PROGRAM, environment=None, **options):
        """Starts the program in the test's folder; the test ends it at the latest. Its stderr is a stream of text."""
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        process = subprocess.Popen([program, *arguments], cwd=self.folder, env=variables, stderr=subprocess.PIPE,
                                   text=True, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_a_step(self, process):
        said = ""
        for line in process.stderr:
            if line.startswith("step "):
                return
            said += line
        self.fail("no step:\n" + said)

    def refused(self, code, fragments, *arguments, **options):
        """The command exits with `code`, prints every fragment on standard error and nothing on standard output, and
        leaves the folder unchanged."""
        before = tree_hash(self.folder)
        result = self.run_program(*arguments, **options)
        said = f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
        self.assertEqual(result.returncode, code, said)
        self.assertEqual(result.stdout, "", said)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr, said)
        self.assertEqual(tree_hash(self.folder), before, f"{arguments}: changed files that it refused")
        return result


class PlanTest(ProgramTest):
    """Calls `llmtrain plan`, which must succeed."""

    def plan(self, *arguments):
        result = self.run_program("plan", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def report(self, *arguments):
        return json.loads(self.plan(*arguments, "--json").stdout)


class TrainingTest(ProgramTest):
    """Its folder has a small recipe and its text."""

    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", self.recipe())

    def recipe(self, changes=None):
        return small({"data": {"train": [{"path": "text.txt"}]}, **(changes or {})})

    def train(self, *arguments, **options):
        result = self.run_program("run", "recipe.json", "-q", *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result
