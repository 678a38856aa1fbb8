# SPDX-License-Identifier: Apache-2.0
"""scripts/test-documents, on a small repository whose documents have commands of the shell."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
README = "# Name\n\n```sh\nscripts/quickstart   # builds\necho first >> order\nllmtrain plan recipe.json\n```\n"
OTHER = "# Other\n\n    test ! -e order\n    cat order\n    test -e recipe.json\n    sbatch job.sh\n"


class CleanClone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("scripts/test-documents", "tests/apps/documents.py"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, self.folder / name)
        self.write("README.md", README)
        self.write("docs/other.md", OTHER)
        # What the commands are given to build and run: a program that says what it was asked for.
        program = "#!/bin/sh\necho \"$@\" >> asked\n"
        self.write("scripts/quickstart", f"#!/bin/sh\nmkdir build\ncat > build/llmtrain <<'end'\n{program}end\n"
                                         "chmod +x build/llmtrain\n", 0o755)
        self.write("given/llmtrain", program, 0o755)
        for command in (["init", "--quiet"], ["add", "README.md", "docs", "scripts", "tests"],
                        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "a"]):
            subprocess.run(["git", *command], cwd=self.folder, check=True)

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def run_script(self, *arguments):
        return subprocess.run([self.folder / "scripts/test-documents", *arguments], capture_output=True, text=True,
                              check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def outcomes(self, result):
        return re.findall(r"^(ok|FAIL|--) +(?:[\d.]+s  )?(.*?)(?:: it .*)?$", result.stdout, re.MULTILINE)

    def test_each_document_runs_in_order_in_a_clone_of_its_own(self):
        result = self.run_script("--build", self.folder / "given")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(self.outcomes(result), [
            ("ok", "build/llmtrain run recipes/quickstart.json"), ("--", "scripts/quickstart"),
            ("ok", "echo first >> order"), ("ok", "llmtrain plan recipe.json"),
            # The README's folder is another one. A command that fails is said, and the next ones run.
            ("ok", "test ! -e order"), ("FAIL", "cat order"), ("ok", "test -e recipe.json"),
            ("--", "sbatch job.sh")])
        self.assertIn("order: No such file", result.stdout)
        self.assertIn("commands that failed: 1", result.stdout)

    def test_a_clone_has_what_is_committed(self):
        self.write("README.md", README + "\n```sh\nfalse\n```\n")
        self.write("extra", "")
        self.write("docs/other.md", "# Other\n\n    test ! -e extra\n")
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "b",
                        "docs/other.md"], cwd=self.folder, check=True)
        result = self.run_script("--build", self.folder / "given")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_without_a_build_the_readme_builds(self):
        self.write("docs/other.md", "# Other\n\n    llmtrain validate other.json\n")
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "b",
                        "docs/other.md"], cwd=self.folder, check=True)
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.outcomes(result)[0], ("ok", "scripts/quickstart"))
        self.assertEqual(self.outcomes(result)[-1], ("ok", "llmtrain validate other.json"))
        self.assertEqual(self.run_script("docs/other.md").returncode, 2)


if __name__ == "__main__":
    unittest.main()
