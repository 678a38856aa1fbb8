# SPDX-License-Identifier: Apache-2.0
"""The programs of two builds, and what each leaves of a case in a folder of its own."""
import dataclasses
import json
import os
import pathlib
import subprocess

# A case takes some seconds; one that has not ended by then waits for something.
SECONDS = 180
PROGRAM, EMULATED = "llmtrain", "tests/emulated_gpu/llmtrain"


@dataclasses.dataclass
class Case:
    """Commands that run one after another in one folder, in which there are files {name: content}."""

    name: str
    files: dict
    commands: list
    program: str = PROGRAM
    number: int | None = None  # of a random layout

    def write(self, folder):
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content, indent=1))


@dataclasses.dataclass
class Result:
    """What one build made of a case: of each command its exit code and what it said."""

    folder: pathlib.Path
    codes: list
    outputs: list
    errors: list

    def refused(self):
        return any(code != 0 for code in self.codes)


def settings(keys):
    """The flags that set these keys of a recipe."""
    return [word for key, value in keys.items() for word in ("--set", f"{key}={json.dumps(value)}")]


class Build:
    def __init__(self, label, build, work):
        self.label, self.build, self.work = label, pathlib.Path(build).resolve(), work / label

    def has(self, program):
        return os.access(self.build / program, os.X_OK)

    def run(self, case):
        folder = self.work / case.name
        case.write(folder)
        result = Result(folder, [], [], [])
        # One thread per rank: sums do not depend on the machine, and several cases share its cores.
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "EMULATED_MEMORY": "512",
                     "EMULATED_DEVICES": "4", "EMULATED_DELAY": "0"}
        for command in case.commands:
            code, output, error = self.execute([self.build / case.program, *command], folder, variables)
            result.codes.append(code)
            result.outputs.append(output)
            result.errors.append(error)
            if code != 0:
                break
        return result

    def execute(self, command, folder, variables):
        try:
            done = subprocess.run(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return "none", "", f"does not end within {SECONDS} s"
        return done.returncode, self.text(done.stdout, folder), self.text(done.stderr, folder)

    def text(self, said, folder):
        """Without the folders in which builds differ."""
        text = said.decode("utf-8", "replace").replace(str(folder), "FOLDER").replace(str(self.build), "BUILD")
        return text
