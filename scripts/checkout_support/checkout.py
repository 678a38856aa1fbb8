# SPDX-License-Identifier: Apache-2.0
"""A checkout of HEAD in a separate folder with its own build, which a script may change without harm."""

import pathlib
import shutil
import subprocess
import sys

# Files are compiled alone, since one is changed at a time.
CONFIGURE = ("cmake", "--preset", "release", "-DBUILD_TESTING=ON", "-DCMAKE_UNITY_BUILD=OFF")


def fail(message):
    raise SystemExit(f"scripts/{pathlib.Path(sys.argv[0]).name}: {message}")


class Checkout:
    def __init__(self, root, folder, jobs):
        self.root = root
        self.folder = folder
        self.tree = folder / "tree"
        self.build_folder = self.tree / "build"
        self.jobs = jobs

    def make(self):
        """Brings the checkout to HEAD and configures it; a checkout that an earlier run kept is reused."""
        head = self.git("rev-parse", "HEAD")
        if (self.tree / ".git").exists():
            self.git("checkout", "--quiet", "--force", "--detach", head, folder=self.tree)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.git("worktree", "prune")
            self.git("worktree", "add", "--quiet", "--force", "--detach", str(self.tree), head)
        deps = self.tree / ".deps"
        if (self.root / ".deps").exists() and not deps.exists():
            deps.symlink_to((self.root / ".deps").resolve())
        problem = self.run(CONFIGURE)
        if problem:
            fail(f"configuring the copy failed:\n{problem}")
        return head

    def remove(self):
        """Removes only what was made here: the folder may have existed before."""
        if self.tree.exists():
            self.git("worktree", "remove", "--force", str(self.tree))
        shutil.rmtree(self.folder / "output", ignore_errors=True)
        (self.folder / "unbroken.json").unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def build(self, targets=()):
        """Builds these files of the build folder, or all; returns the compiler's output if it fails."""
        arguments = ["--target", *sorted(targets)] if targets else []
        return self.run(["cmake", "--build", "build", "--parallel", str(self.jobs), *arguments])

    def run(self, command):
        """Runs a command in the tree; returns its output if it fails, else an empty string."""
        result = subprocess.run(command, cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", check=False)
        return result.stdout[-4000:] if result.returncode != 0 else ""

    def git(self, *arguments, folder=None):
        result = subprocess.run(["git", *arguments], cwd=folder or self.root, capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            fail(f"git {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout.strip()
