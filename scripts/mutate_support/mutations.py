# SPDX-License-Identifier: Apache-2.0
"""The list of mutations: tests/mutations/*.json, one file for each area of the program, each a list of

    name      what is broken, in words; no two are alike
    file      where, from the root of the repository
    find      text that stands exactly once in the file: one line of code, no comment and no message
    replace   what stands there instead
    tests     a regular expression of the whole names of the ctest tests that most likely fail; they run first
    survives  only for a mutation that is known to live: the reason
"""

import dataclasses
import json
import re

REQUIRED = {"name", "file", "find", "replace", "tests"}
OPTIONAL = {"survives"}


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    find: str
    replace: str
    tests: str
    survives: str = ""

    def problem_in(self, root):
        """Why it cannot be applied to the tree under `root`; empty when it can."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} is no file"
        count = path.read_text().count(self.find)
        return "" if count == 1 else f"{self.file} holds {self.find!r} {count} times; it must stand there once"

    def apply(self, root):
        """Breaks the file and returns what it held."""
        path = root / self.file
        text = path.read_text()
        path.write_text(text.replace(self.find, self.replace))
        return text

    def revert(self, root, text):
        (root / self.file).write_text(text)


def problem_of_entry(entry):
    """What is wrong with the entry itself, whatever the sources are."""
    missing, unknown = REQUIRED - entry.keys(), entry.keys() - REQUIRED - OPTIONAL
    if missing or unknown:
        return f"has no {', '.join(sorted(missing))}" if missing else f"has an unknown {', '.join(sorted(unknown))}"
    if not all(isinstance(value, str) for value in entry.values()):
        return "holds something that is no string"
    if not entry["find"] or entry["find"] == entry["replace"]:
        return "changes nothing"
    try:
        re.compile(entry["tests"])
    except re.error as error:
        return f"tests is no regular expression: {error}"
    return ""


def read_mutations(folder):
    """(mutations, problems) of all lists in the folder, in the order of their names."""
    mutations, problems, names = [], [], set()
    for path in sorted(folder.glob("*.json")):
        for number, entry in enumerate(json.loads(path.read_text()), 1):
            where = f"{path.name}: {entry.get('name', f'entry {number}')}"
            problem = problem_of_entry(entry)
            if not problem and entry["name"] in names:
                problem = "another one has this name"
            if problem:
                problems.append(f"{where}: {problem}")
                continue
            names.add(entry["name"])
            mutations.append(Mutation(**entry))
    return mutations, problems
