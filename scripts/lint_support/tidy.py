# SPDX-License-Identifier: Apache-2.0
"""usage: tidy.py BUILD FILE...   runs clang-tidy on these sources, with the flags of BUILD/compile_commands.json

clang-tidy spends most of its time in third-party headers, and parses them again for each source. Sources with the same
flags are therefore checked together, included into one file, unless their unnamed namespaces define the same name. A
group that has findings is divided, down to single sources, whose findings count.
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

GROUP = 40  # a gigabyte of memory or two
CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / ".clang-tidy"
# This check forbids including a .cpp, which is what a group does.
NOT_FOR_GROUPS = "--checks=-bugprone-suspicious-include"
# Which shared library exports a name does not change what clang-tidy sees, nor how code is optimised and tuned.
IDLE = re.compile(r" (?:-D\w+_EXPORTS|-O\w|-fPI[CE]|-fno-math-errno|-fno-trapping-math|-ffp-contract=off|-mtune=\S+"
                  r"|-mprefer-vector-width=\d+)(?= )")


def compile_flags(build):
    """{source: each distinct list of flags that a target compiles it with, without its name}."""
    flags = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith(".cu"):
            continue  # nvcc's, or C++ with words of CUDA's
        words = shlex.split(IDLE.sub("", entry["command"]))
        compiler = next(index for index, word in enumerate(words) if word.endswith(("c++", "g++")))
        of_target = tuple(words[compiler + 1:words.index("-o")])
        if of_target not in flags[entry["file"]]:
            flags[entry["file"]].append(of_target)
    return flags


ALIAS = re.compile(r"(?:using|namespace) (\w+) = .*;$")
NAMED = re.compile(r"(?:class|struct|enum class|enum) (\w+)|(\w+)\s*(?:[(={\[;]| :|$)")


def private_names(source):
    """{name: definition} at the top level of its unnamed namespaces. Two sources may define an alias alike."""
    names, inside = {}, False
    for line in pathlib.Path(source).read_text().splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line == "}  // namespace":
            inside = False
        elif inside and (alias := ALIAS.match(line)):
            names[alias[1]] = line
        elif inside and re.match(r"\w|\[\[", line) and (named := NAMED.search(line)):
            names[named[1] or named[2]] = source
    return names


def groups_of(sources, flags):
    """Pairs of flags and the sources that share them and give no private name two meanings."""
    groups = collections.defaultdict(list)  # by flags: (sources, private names)
    for source in sources:
        names = private_names(source)
        for of_target in flags[source]:
            fitting = (group for group in groups[of_target] if len(group[0]) < GROUP and
                       all(group[1].get(name, meaning) == meaning for name, meaning in names.items()))
            group = next(fitting, None)
            if group is None:
                groups[of_target].append(([source], dict(names)))
            else:
                group[0].append(source)
                group[1].update(names)
    return [(of_target, members) for of_target in groups for members, _ in groups[of_target]]


def clang_tidy(*arguments):
    """Its output; empty if there are no findings."""
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
        # Halves, because a group may also fail for two sources that do not go together.
        middle = len(sources) // 2
        return check((flags, sources[:middle])) + check((flags, sources[middle:]))
    return clang_tidy(sources[0], "--", *flags)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    flags = compile_flags(build)
    sources = [str(pathlib.Path(name).resolve()) for name in sys.argv[2:]]
    groups = groups_of([source for source in sources if source in flags], flags)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(check, groups))
        # Sources that only other machines compile: clang-tidy uses the flags of a nearby source.
        problems += pool.map(lambda source: clang_tidy("-p", str(build), source),
                             (source for source in sources if source not in flags))
    print("".join(problems), end="")
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main())
