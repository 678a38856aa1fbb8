#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on what clang-format does not check: a file without the SPDX line or longer than 400 lines, a function longer
than 60 lines, a word that marks unfinished work, a call that one file makes for all."""

import argparse
import ast
import pathlib
import re
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"
FILE_LINES = 400
FUNCTION_LINES = 60
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
# What is called in one place alone: the call, that file, and what the others call.
ONE_PLACE = (("hardware_concurrency", "core/base/processor.cpp", "usable_cores()"),)
CPP_SUFFIXES = (".h", ".cuh", ".cpp", ".cu")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b|^extern$")
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
    functions = ()
    if path.suffix in CPP_SUFFIXES:
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for number, count in functions:
        if count > FUNCTION_LINES:
            yield f"{path}:{number}: a function of {count} lines; {FUNCTION_LINES} are allowed: split it into parts"


def is_source(path, file):
    if path.suffix in CPP_SUFFIXES + (".py", ".cmake") or path.name == "CMakeLists.txt":
        return True
    return path.suffix == "" and file.open("rb").read(2) == b"#!"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    root = parser.parse_args().root.resolve()
    failed = False
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if any(part.startswith(("build-", ".deps", ".git", "runs")) or part == "build" for part in path.parts[:-1]):
            continue
        if file.is_file() and is_source(path, file):
            for problem in check(path, file.read_text(errors="replace")):
                print(problem)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
