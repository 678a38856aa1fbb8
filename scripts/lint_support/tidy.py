# SPDX-License-Identifier: Apache-2.0
"""usage: tidy.py BUILD FILE...   clang-tidy of these sources, as BUILD/compile_commands.json compiles them

clang-tidy spends most of its time in the headers of others, and walks them anew for each source. So sources that are
compiled alike go through it together, included into one file, unless they give the same name to two things of their
unnamed namespaces. Where a group is found fault with, each of its sources is checked alone, and that is what counts.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

GROUP = 12
CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / ".clang-tidy"
# It asks that no .cpp is included, which is what a group does; scripts/check_style.py asks it of our files.
NOT_FOR_GROUPS = "--checks=-bugprone-suspicious-include"
# Flags that change nothing that clang-tidy sees: precompiled headers, and which shared library exports a name.
IDLE = re.compile(r" -Winvalid-pch| -fpch-preprocess| -include \S+/cmake_pch\.hxx| -D\w+_EXPORTS")


def compile_flags(build):
    """{source: each list of flags that a target compiles it with, without its name and the precompiled headers}."""
    flags = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(IDLE.sub("", entry["command"]))
        compiler = next(index for index, word in enumerate(words) if word.endswith(("c++", "g++")))
        of_target = tuple(words[compiler + 1:words.index("-o")])
        if of_target not in flags[entry["file"]]:
            flags[entry["file"]].append(of_target)
    return flags


def private_names(source):
    """What a source names at the outermost level of its unnamed namespaces."""
    names, inside = set(), False
    for line in pathlib.Path(source).read_text().splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line == "}  // namespace":
            inside = False
        elif inside and re.match(r"\w", line):
            name = re.search(r"(\w+)\s*(?:[(={\[;]| :|$)", line)
            names |= {name[1]} if name else set()
    return names


def groups_of(sources, flags):
    """Pairs of flags and sources that have them in common, and no private name."""
    groups = collections.defaultdict(list)  # by flags: (sources, private names)
    for source in sources:
        names = private_names(source)
        for of_target in flags[source]:
            fitting = (group for group in groups[of_target] if len(group[0]) < GROUP and not group[1] & names)
            group = next(fitting, None)
            if group is None:
                groups[of_target].append(([source], set(names)))
            else:
                group[0].append(source)
                group[1].update(names)
    return [(of_target, members) for of_target in groups for members, _ in groups[of_target]]


def clang_tidy(*arguments):
    """What it printed, empty where all is well."""
    result = subprocess.run(["clang-tidy", "--quiet", f"--config-file={CONFIGURATION}", *arguments], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if result.returncode == 0:
        return ""
    return result.stdout or f"clang-tidy {shlex.join(arguments)} ended with {result.returncode}\n"


def check(group):
    flags, sources = group
    if len(sources) > 1:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as together:
            together.writelines(f'#include "{source}"\n' for source in sources)
            together.flush()
            if not clang_tidy(NOT_FOR_GROUPS, together.name, "--", *flags):
                return ""
    return "".join(clang_tidy(source, "--", *flags) for source in sources)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    flags = compile_flags(build)
    sources = [str(pathlib.Path(name).resolve()) for name in sys.argv[2:]]
    groups = groups_of([source for source in sources if source in flags], flags)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(check, groups))
        # What is compiled on other machines alone: clang-tidy takes the flags of a source that lies near.
        problems += pool.map(lambda source: clang_tidy("-p", str(build), source),
                             (source for source in sources if source not in flags))
    print("".join(problems), end="")
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main())
