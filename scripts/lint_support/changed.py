# SPDX-License-Identifier: Apache-2.0
"""usage: changed.py REVISION FILE...   prints those of the sources in which clang-tidy may find something else than it
did at the commit REVISION: what has changed since then, and what includes a header that has

All of them are printed where that cannot be said: the commit is unknown here, as in a shallow clone, or the checks or
this machine's flags are others.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# With these, findings change in sources that have not.
OF_ALL = re.compile(r"\.clang-tidy|scripts/lint|scripts/lint_support/.*|cmake/.*|CMakePresets\.json|scripts/requirements/.*")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)


def changed_since(revision):
    """Paths from the root of what differs from the commit, or is new beside it; None if there is no such commit."""
    if git("merge-base", "--is-ancestor", revision, "HEAD").returncode != 0:
        return None
    names = git("diff", "--name-only", revision, "--").stdout + git("ls-files", "--others", "--exclude-standard").stdout
    return set(names.splitlines())


class Includes:
    """Which headers of the project a file reaches, each file read once."""

    def __init__(self):
        self.direct = {}

    def of(self, name):
        if name not in self.direct:
            path = ROOT / name
            self.direct[name] = set(INCLUDE.findall(path.read_text())) if path.is_file() else set()
        return self.direct[name]

    def reach(self, name, wanted):
        """Whether the file is one of `wanted` or includes one, directly or through other headers."""
        seen, waiting = {name}, [name]
        while waiting:
            current = waiting.pop()
            if current in wanted:
                return True
            waiting += self.of(current) - seen
            seen |= self.of(current)
        return False


def affected(sources, changed):
    if changed is None or any(OF_ALL.fullmatch(name) for name in changed):
        return sources
    includes = Includes()
    return [source for source in sources if includes.reach(source, changed)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for affected_source in affected(sys.argv[2:], changed_since(sys.argv[1])):
        print(affected_source)
