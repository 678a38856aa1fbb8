# SPDX-License-Identifier: Apache-2.0
"""Completion in real shells, and man pages: both say what --help says, because they read the same table."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from program import PROGRAM, ProgramTest

# What is typed, and what bash offers for its last word.
COMPLETED = {
    "llmtrain pl": ["plan"],
    "llmtrain checkpoint ": ["inspect", "verify", "diff", "export", "import"],
    "llmtrain run --dr": ["--dry-run"],
    "llmtrain plan gpt3": ["gpt3-175b"],
    "llmtrain plan llama3-8b qwen3-8": ["qwen3-8b"],
    "llmtrain plan my": ["my.json"],
    "llmtrain run --set training.st": ["training.steps="],
    # bash replaces only what follows the "=".
    "llmtrain run --set precision.fp8_level=O": ["O0", "O1", "O2", "O3"],
    "llmtrain run --set model.bias=": ["true", "false"],
    "llmtrain run --set cluster.profile=h2": ["h200"],
    "llmtrain run --set data.train.0.path=te": ["text folder"],
    "llmtrain plan --program torchtitan-a": ["torchtitan-async-tp"],
    "llmtrain run --resume a": ["auto"],
    "llmtrain run --run-dir te": ["text folder"],
    "llmtrain sample te": ["text folder"],
    "llmtrain calibrate --device cu": ["cuda"],
    "llmtrain completion z": ["zsh"],
    "llmtrain man che": ["checkpoint"],
    "llmtrain new --machine a100-4": ["a100-40gb"],
    "llmtrain run my.json other": [],
    "llmtrain nothing --of": [],
}

LIST = """
source <("$PROGRAM" completion bash)
llmtrain() { "$PROGRAM" "$@"; }
compopt() { :; }
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE}
  _llmtrain
  (IFS='|'; echo "${COMPREPLY[*]}")
done
"""


class Completion(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("my.json", {})
        self.write("text folder/a.txt", "text")
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "llmtrain").symlink_to(PROGRAM)
        self.environment = {**os.environ, "PROGRAM": str(PROGRAM), "TERM": "dumb", "HOME": str(self.folder),
                            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def output_of(self, *command, **options):
        result = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                check=False, **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def test_bash_offers(self):
        lines = self.output_of("bash", "-c", LIST, input="".join(line + "\n" for line in COMPLETED)).splitlines()
        offered = {line: [word for word in answer.split("|") if word] for line, answer in zip(COMPLETED, lines)}
        self.assertEqual(offered, COMPLETED)

    def test_bash_completes_while_typing(self):
        """With readline, a terminal and the Tab key."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**self.environment, "PS1": "ready> "})
        shown = ""

        def wait_for(text):
            nonlocal shown
            deadline = time.monotonic() + 20
            while text not in shown:
                ready = select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]
                self.assertTrue(ready, f"no {text!r} in {shown!r}")
                shown += os.read(terminal, 4096).decode()
            shown = shown[shown.index(text) + len(text):]

        try:
            wait_for("ready> ")
            os.write(terminal, b"source <(llmtrain completion bash)\n")
            wait_for("ready> ")
            os.write(terminal, b"llmtrain va\t")
            wait_for("llmtrain validate ")
            os.write(terminal, b"--set training.ste\t")
            wait_for("training.steps=")
            # No space came after the "=".
            os.write(terminal, b"7 --pr\t")
            wait_for("7 --print ")
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_can_read_it(self):
        script = self.write("_llmtrain", self.output_of(PROGRAM, "completion", "zsh"))
        self.output_of("zsh", "-n", script)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_offers(self):
        self.write("llmtrain.fish", self.output_of(PROGRAM, "completion", "fish"))
        for line, words in COMPLETED.items():
            if "text folder" in words or "my.json" in words:
                continue  # fish writes and orders files in its own way
            with self.subTest(line):
                offered = self.output_of("fish", "-c", f"source llmtrain.fish; complete -C '{line}'").splitlines()
                found = [answer.split("\t")[0] for answer in offered]
                found = [word.rpartition("=")[2] or word for word in found]
                self.assertEqual(set(words), set(found) & set(words))


class ManPages(ProgramTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.run_program("man", "--all", ".").returncode, 0)

    def test_each_says_what_help_says(self):
        pages = sorted(self.folder.glob("*.1"))
        self.assertIn("llmtrain-checkpoint-inspect.1", [page.name for page in pages])
        for page in pages:
            with self.subTest(page.name):
                text = page.read_text().replace("\\-", "-").replace("\\e", "\\")
                # Not from the file's name, as names of commands may have hyphens, too.
                words = re.search(r"^\.B llmtrain(.*)$", text, re.MULTILINE)[1].split()
                answer = self.run_program(*words, "--help").stdout
                for flag in re.findall(r"--[a-z][a-z-]+", answer):
                    self.assertIn(flag, text)
                for line in re.findall(r"^  (llmtrain .*)$", answer, re.MULTILINE):
                    self.assertIn(line, text)
                self.assertEqual(self.run_program("man", *words).stdout, page.read_text())

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_has_nothing_to_say(self):
        for page in self.folder.glob("*.1"):
            result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True,
                                    check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""), page)

    def test_unknown_command(self):
        self.refused(2, ['did you mean "inspect"?'], "man", "checkpoint", "inspekt")


if __name__ == "__main__":
    unittest.main()
