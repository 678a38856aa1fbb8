#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on what clang-format does not check: a file without the SPDX line or longer than 400 lines, a function longer
than 60 lines, a folder of more than 30 files, a word that marks unfinished work, a comment that cannot be read by
itself, a call that one file makes for all, a class that two files define by one name, a path in a document that leads
nowhere."""

import argparse
import ast
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"
FILE_LINES = 400
FUNCTION_LINES = 60
FOLDER_FILES = 30
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
# What is called in one place alone: the call, that file, and what the others call.
ONE_PLACE = (("hardware_concurrency", "core/machine/processor.cpp", "usable_cores()"),)
PROGRAM_FOLDERS = ("apps", "core", "kernels", "parallel")
CPP_SUFFIXES = (".h", ".cuh", ".cpp", ".cu")
# A comment that begins so says what its declaration belongs to, not what it is and why: nobody can read it by itself.
DEPENDENT = re.compile(r'(?:^|\s)(?://+|#|""")\s?O' r"f\s")
COMMENT = re.compile(r"\s*(//|#)")
DOCUMENTED = CPP_SUFFIXES + (".py",)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b|^extern$")
DEFINED = re.compile(r"(?:class|struct|enum(?: class)?) (\w+)(?: final)?(?: {|\s*:(?!:)|$)")
BLANKED = re.compile(
    r'R"(\w*)\(.*?\)\1"'  # raw strings
    r"|//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # not the digit separator
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)


def blank(match):
    """The same number of empty lines, so that line numbers do not change."""
    return "\n" * match[0].count("\n")


def opens_scope(declaration):
    """Whether a brace after this text opens a namespace or class rather than a function."""
    previous = None
    while previous != declaration:
        previous, declaration = declaration, re.sub(r"\([^()]*\)|<[^<>]*>", "", declaration)
    return bool(SCOPE.search(declaration.strip())) and not declaration.rstrip().endswith("=")


def cpp_functions(text):
    """Yields (first line, line count) of each block of code directly inside a namespace or class."""
    text = BLANKED.sub(blank, text)
    inside, header = [], 0  # open braces: True for a namespace or class; where the current declaration starts
    for match in re.finditer(r"[{};]", text):
        position, brace = match.start(), match[0]
        in_scope = all(inside)
        if brace == "{":
            declaration = text[header:position]
            inside.append(in_scope and opens_scope(declaration))
            if in_scope and not inside[-1]:
                first = header + len(declaration) - len(declaration.lstrip())
            if inside[-1]:
                header = position + 1
        elif brace == "}" and inside:
            was_scope = inside.pop()
            if not was_scope and all(inside):
                if re.match(r"\s*[,{]", text[position + 1 :]):
                    continue  # a braced member initializer: the body is still to come
                yield text.count("\n", 0, first) + 1, text.count("\n", first, position) + 1
            if all(inside):
                header = position + 1
        elif brace == ";" and in_scope:
            header = position + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def dependent_comments(lines):
    """Yields the numbers of lines in which a comment begins that depends on its declaration."""
    for number, line in enumerate(lines, 1):
        match = DEPENDENT.search(line)
        before = lines[number - 2] if match and number > 1 and not line[: match.start()].strip() else ""
        is_within = COMMENT.match(before) and LICENCE not in before
        if match and not is_within:
            yield number


def check(path, text):
    """Yields the problems of one file."""
    lines = text.splitlines()
    if LICENCE not in "\n".join(lines[: 2 if text.startswith("#!") else 1]):
        yield f"{path}:1: the first line must hold {LICENCE}"
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines; {FILE_LINES} are allowed: split it by topic"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: track unfinished work in an issue, not in a comment"
        for call, place, instead in ONE_PLACE:
            if path.suffix in CPP_SUFFIXES and call in line and path.as_posix() != place:
                yield f"{path}:{number}: {call} is for {place} alone: use {instead}"
    for number in dependent_comments(lines):
        yield f"{path}:{number}: a comment names its subject: say what this is or does, not only what it belongs to"
    functions = ()
    if path.suffix in CPP_SUFFIXES:
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for number, count in functions:
        if count > FUNCTION_LINES:
            yield f"{path}:{number}: a function of {count} lines; {FUNCTION_LINES} are allowed: split it into parts"


def alternatives(name):
    """"a.{h,cpp}" as "a.h" and "a.cpp"."""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    before, after = name[: match.start()], name[match.end() :]
    return [each for part in match[1].split(",") for each in alternatives(before + part + after)]


class Documents:
    """The paths that README.md and docs name: those that begin with one of the repository's folders, and sources."""

    def __init__(self, root):
        self.root = root
        ignored = root / ".gitignore"
        self.ignored = [line.strip("/") for line in ignored.read_text().split()] if ignored.is_file() else []
        folders = [path for path in root.iterdir() if path.is_dir() and not self.is_ignored(path.name)]
        self.folders = {path.name for path in folders if not path.name.startswith(".")}
        self.sources = {path.name for folder in self.folders for path in (root / folder).rglob("*.*")}

    def is_ignored(self, name):
        """What a run or a build makes; a document may name it."""
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.ignored)

    def exists(self, name):
        """Whether the path or pattern does, perhaps without the file's ending; NAME stands for any word."""
        patterns = [each.rstrip("/").replace("NAME", "*") for each in alternatives(name)]
        return all(any(self.root.glob(pattern)) or any(self.root.glob(pattern + ".*")) for pattern in patterns)

    def is_missing(self, name):
        if "/" in name:
            return name.partition("/")[0] in self.folders and not self.is_ignored(name) and not self.exists(name)
        return pathlib.Path(name).suffix in DOCUMENTED and name not in self.sources and not (self.root / name).exists()

    def check(self):
        """Yields what is named in backticks and does not exist."""
        for file in (*self.root.glob("README.md"), *sorted(self.root.glob("docs/*.md"))):
            text = FENCED.sub(blank, file.read_text())
            for match in re.finditer(r"`([^`\s]+)[^`]*`", text):
                if self.is_missing(match[1]):
                    line = text.count("\n", 0, match.start()) + 1
                    yield f"{file.relative_to(self.root)}:{line}: {match[1]} does not exist"


def kept_files(root):
    """The files that git keeps or would add; a folder that is no checkout, such as an unpacked archive, has none."""
    if not (root / ".git").exists():
        return []
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    names = {name for name in result.stdout.split("\0") if name}
    return [pathlib.PurePosixPath(name) for name in sorted(names) if (root / name).exists()]


def check_folders(files):
    """Yields the folders that directly hold too many of the files."""
    counts = collections.Counter(file.parent for file in files)
    for folder, count in sorted(counts.items()):
        if count > FOLDER_FILES:
            yield f"{folder}: {count} files; {FOLDER_FILES} are allowed: move those of one idea to a folder of their own"


def shared_classes(sources):
    """What to say of classes, structs and enumerations that two files define by one name in one namespace. In one library
    they share their implicit members, of which the linker takes either's. `sources`: {path: text}."""
    places = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        inside = []  # the namespaces, an empty name for an unnamed one
        for line in text.splitlines():
            if opened := re.match(r"namespace ([\w:]*) ?{", line):
                inside.append(opened[1])
            elif line.startswith("}  // namespace") and inside:
                inside.pop()
            elif inside and "" not in inside and (named := DEFINED.match(line)):
                places["::".join((*inside, named[1]))].append(path)
    return [f"{paths[-1]}: {name} is defined in {paths[0]}, too: in one library the linker takes either's members"
            for name, paths in places.items() if len(paths) > 1]


def is_source(path, file):
    if path.suffix in CPP_SUFFIXES + (".py", ".cmake") or path.name == "CMakeLists.txt":
        return True
    return path.suffix == "" and file.open("rb").read(2) == b"#!"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    root = parser.parse_args().root.resolve()
    failed = False
    classes = {}  # texts that may define some, of the program: tests are programs of their own
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if any(part.startswith(("build-", ".deps", ".git", "runs")) or part == "build" for part in path.parts[:-1]):
            continue
        if file.is_file() and is_source(path, file):
            text = file.read_text(errors="replace")
            if path.suffix in CPP_SUFFIXES and path.parts[0] in PROGRAM_FOLDERS:
                classes[path] = text
            for problem in check(path, text):
                print(problem)
                failed = True
    for problem in (*check_folders(kept_files(root)), *shared_classes(classes), *Documents(root).check()):
        print(problem)
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
