# SPDX-License-Identifier: Apache-2.0
"""The machine that is tried: where its programs are, and commands with a limit whose output is kept."""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pack_environment

FIND_PACKAGES = ("import importlib.util as u, os; f = u.find_spec('torch'); "
                 "print(os.path.dirname(f.submodule_search_locations[0]) if f else '')")


class NotDone(Exception):
    """What cannot be tried here, and why."""


@dataclasses.dataclass
class Done:
    name: str
    code: object  # the exit status, or "limit"
    output: str
    seconds: float

    def failure(self):
        return {"name": self.name, "code": self.code, "log": self.output[-6000:]}


def find_python(root, environment):
    """(a Python that has PyTorch, its packages' folder), or (None, None)."""
    named = environment.get("LLMTRAIN_PYTHON")
    candidates = [named] if named else [sys.executable, "python3", str(root / ".deps" / "python" / "bin" / "python")]
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is None:
            continue
        found = subprocess.run([path, "-c", FIND_PACKAGES], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            return path, pathlib.Path(found)
    return None, None


class Machine:
    """`build` is a build folder, or that of an unpacked pack. What runs leave goes to `folder`."""

    def __init__(self, root, build, folder, device):
        self.root, self.build, self.folder, self.device = root, build, folder, device
        self.program, self.step_worker = build / "llmtrain", build / "bench" / "step_worker"
        self.python, site = find_python(root, os.environ)
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "LLMTRAIN_CACHE": str(folder / "cache"),
                            "LLMTRAIN_PROFILES": str(root / "recipes" / "clusters"),
                            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        # PyTorch's processes see nothing of what was packed.
        self.python_environment = {**self.environment, "OMP_NUM_THREADS": str(os.cpu_count())}
        if pack_environment.is_pack(root):
            self.environment.update(pack_environment.variables(root, site, self.environment))
        self.deadline = time.monotonic() + 3600
        (folder / "log").mkdir(parents=True, exist_ok=True)

    def left(self):
        """Seconds until the part that runs must have ended."""
        return self.deadline - time.monotonic()

    def has_python(self):
        if self.python is None:
            raise NotDone("no Python with PyTorch: name one in LLMTRAIN_PYTHON")
        return self.python

    def run(self, name, command, limit, environment=None, folder=None):
        """Runs a command for at most so many seconds; its output is also in log/NAME."""
        start, limit = time.monotonic(), max(1, min(limit, self.left()))
        process = subprocess.Popen([str(word) for word in command], cwd=folder or self.folder,
                                   env={**self.environment, **(environment or {})}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, code = process.communicate(timeout=limit)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], "limit"
        text = output.decode("utf-8", "replace")
        (self.folder / "log" / name).write_text(text, encoding="utf-8")
        return Done(name, code, text, time.monotonic() - start)

    def plan(self, recipe, *settings):
        """The plan of one rank, as `llmtrain plan --json` writes it."""
        flags = [word for setting in settings for word in ("--set", setting)]
        result = subprocess.run([self.program, "plan", recipe, "--ranks", "1", "--json", *flags], env=self.environment,
                                capture_output=True, text=True, timeout=60, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"llmtrain plan {recipe}: {result.stderr}")
        return json.loads(result.stdout)


def ask_driver(fields):
    """The figures of the first GPU, as nvidia-smi prints them; none without a GPU."""
    try:
        listed = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"],
                                capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [field.strip() for field in listed.strip().split(",")]


def used_bytes():
    return int(ask_driver("memory.used")[0]) * 2**20


def describe_gpu():
    found = ask_driver("name,memory.total,driver_version")
    return {"name": found[0], "memory_bytes": int(found[1]) * 2**20, "driver": found[2]} if len(found) == 3 else None
