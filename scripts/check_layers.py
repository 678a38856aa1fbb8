#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an #include that violates the dependencies between folders.

All folders share one include root, so the compiler does not detect a wrong include. The allowed dependencies are those
that the folders' CMakeLists.txt declare in llmtrain_library(... DEPENDS ...), llmtrain_test, llmtrain_test_tool and
target_link_libraries; there is no other list. A folder's headers belong to its targets; add_library(NAME INTERFACE x.h)
assigns x.h to NAME only, for targets that need an interface without linking its implementation. A file may include
headers of its own folder and of every folder that its target reaches. The targets in LIGHT work without LibTorch, MPI
and CUDA, so neither they nor anything that they link may reach a header of these, directly or through other headers of
the project.
"""

import argparse
import functools
import os
import pathlib
import re
import sys

LIGHT = ("core_base", "core_recipe", "core_graph", "parallel_layout", "planner", "llmtrain")
HEAVY = re.compile(r"(ATen|torch|c10|caffe2)/|(mpi|nccl|cuda\w*|cub\w*|cooperative_groups)(\.h|\.cuh|/)")
CREATE = ("llmtrain_library", "llmtrain_test", "llmtrain_test_tool", "add_executable", "add_library")
SECTIONS = ("SOURCES", "DEPENDS", "PACKAGES", "LABELS", "TIMEOUT", "FOLDER", "PUBLIC", "PRIVATE", "INTERFACE")
SOURCE_SUFFIXES = (".h", ".cuh", ".cpp", ".cu")


class Target:
    """One library or program as declared in CMake: its folder, its sources and the names that it links."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.sources = []
        self.links = []

    def is_interface(self):
        """Whether it owns only the headers that it names."""
        return bool(self.sources) and all(source.endswith(".h") for source in self.sources)


def cmake_commands(text):
    """Yields (command, arguments) for the plain commands of a CMakeLists.txt."""
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"(\w+)\s*\(([^()]*)\)", text):
        yield match[1].lower(), match[2].replace('"', " ").split()


def read_targets(root):
    """All targets of the tree, by name."""
    targets = {}
    for file in (path for path in files_of(root) if path.name == "CMakeLists.txt"):
        folder = file.parent.relative_to(root)
        for command, arguments in cmake_commands(file.read_text()):
            if command in CREATE and arguments:
                targets[arguments[0]] = Target(arguments[0], folder.as_posix())
                if command == "llmtrain_test":
                    targets[arguments[0]].links.append("test_support")
            if command not in CREATE + ("target_link_libraries", "target_sources") or arguments[0] not in targets:
                continue
            target = targets[arguments[0]]
            section = "DEPENDS" if command == "target_link_libraries" else "SOURCES"
            for argument in arguments[1:]:
                if argument in SECTIONS:
                    is_visibility = argument in ("PUBLIC", "PRIVATE", "INTERFACE")
                    section = section if is_visibility else argument
                elif section == "DEPENDS":
                    # An installed library, as an example outside of the build links it, is the folder's own.
                    target.links.append(argument.removeprefix("llmtrain::"))
                elif section == "SOURCES":
                    target.sources.append((folder / argument).as_posix())
    return targets


def files_of(root):
    """The project's files, in order; folders of builds, runs and tools hold none."""
    files = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "build", "runs"))]
        files.extend(pathlib.Path(folder, name) for name in names)
    return sorted(files)


def reachable(targets, name):
    """The target and everything that it links, directly or indirectly."""
    seen, waiting = set(), [name]
    while waiting:
        current = waiting.pop()
        if current in targets and current not in seen:
            seen.add(current)
            waiting.extend(targets[current].links)
    return seen


def read_includes(root):
    """The #include lines of each source file: {file: [(line number, header)]}."""
    includes = {}
    for file in files_of(root):
        path = file.relative_to(root)
        if file.suffix in SOURCE_SUFFIXES:
            lines = file.read_text(errors="replace").splitlines()
            matches = ((number, re.match(r'\s*#\s*include\s*[<"]([^">]+)', line)) for number, line in enumerate(lines, 1))
            includes[path.as_posix()] = [(number, match[1]) for number, match in matches if match]
    return includes


class Checker:
    def __init__(self, root):
        self.targets = read_targets(root)
        self.includes = read_includes(root)
        self.folders = sorted({target.folder for target in self.targets.values()}, key=len, reverse=True)
        self.tops = {file.split("/")[0] for file in self.includes}
        self.problems = set()
        self.targets_of = functools.cache(self.targets_of)

    def folder_of(self, file):
        """The library folder of a file: the deepest one that has a target."""
        return next((folder for folder in self.folders if file.startswith(folder + "/")), None)

    def targets_of(self, file):
        """The targets that list a file; for a header, or a file that CMake lists in a variable, those of its folder."""
        owners = [target for target in self.targets.values() if file in target.sources]
        folder = [target for target in self.targets.values() if target.folder == self.folder_of(file)]
        return owners or [target for target in folder if not target.is_interface()]

    def check_file(self, file):
        owners = self.targets_of(file)
        if not owners:
            self.problems.add(f"{file}: belongs to no target: list it in its folder's CMakeLists.txt")
            return
        names = {name for owner in owners for name in reachable(self.targets, owner.name)}
        for number, header in self.includes[file]:
            if header.split("/")[0] not in self.tops:
                continue
            if header not in self.includes:
                self.problems.add(f"{file}:{number}: {header} is not a file of the project")
            elif names.isdisjoint(target.name for target in self.targets_of(header)):
                folder = self.folder_of(header)
                owner = "/".join(sorted(owner.name for owner in owners))
                self.problems.add(f"{file}:{number}: {header} is in {folder}, which {owner} does not depend on")

    def check_light(self, name):
        """Follows the project's headers from everything that a light target compiles, and from its folder's headers
        if it is the only target there."""
        sources = [file for file in self.includes if self.targets_of(file) == [self.targets[name]]]
        waiting, seen = [(file, file) for file in sources], set()
        while waiting:
            file, path = waiting.pop()
            if file in seen:
                continue
            seen.add(file)
            for number, header in self.includes[file]:
                if header in self.includes:
                    waiting.append((header, f"{path} > {header}"))
                elif HEAVY.match(header):
                    self.problems.add(f"{file}:{number}: {header} must not be reachable from {name} (via {path})")

    def run(self):
        for file in self.includes:
            self.check_file(file)
        for name in sorted({light for root in LIGHT for light in reachable(self.targets, root)}):
            self.check_light(name)
        return sorted(self.problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    problems = Checker(parser.parse_args().root.resolve()).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
