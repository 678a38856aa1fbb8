# SPDX-License-Identifier: Apache-2.0
"""Wrong command lines, and the flags themselves: the recipe is the interface, so a new flag needs justification.

python3 usage_test.py --update regenerates help.txt.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from program import PROGRAM, SOURCE, ProgramTest, small

GOLDEN = pathlib.Path(__file__).with_name("help.txt")
COMMANDS = [[], ["run"], ["plan"], ["calibrate"], ["bench"], ["bench", "kernels"], ["support"], ["validate"], ["schema"], ["sample"], ["chat"], ["serve"], ["eval"], ["checkpoint"], ["checkpoint", "inspect"],
            ["checkpoint", "verify"], ["checkpoint", "diff"], ["checkpoint", "export"], ["checkpoint", "import"], ["compare"], ["export-metrics"], ["sweep"], ["data"], ["data", "tokenize"], ["data", "train-tokenizer"],
            ["data", "inspect"], ["slurm"], ["doctor"], ["recipes"], ["new"], ["completion"], ["man"]]

WRONG = {
    "nothing": ([], "name a command"),
    "unknown command": (["frobnicate"], '"frobnicate" is not a command; see llmtrain --help'),
    "unknown command before help": (["frobnicate", "--help"], '"frobnicate" is not a command'),
    "several unknown arguments": (["schema", "a", "b"], "a b were not expected"),
    "unknown flag with a value": (["schema", "--flag", "b"], "there is no flag --flag; see"),
    "near command": (["valdate", "recipe.json"], 'did you mean "validate"?'),
    "unknown flag": (["--frobnicate"], "--frobnicate"),
    "flag without its command": (["--set", "a=1"], "--set"),
    "run without a recipe": (["run"], "RECIPE"),
    "run with two recipes": (["run", "recipe.json", "recipe.json"], "recipe.json"),
    "unknown flag of run": (["run", "recipe.json", "--epochs", "3"], "--epochs"),
    "flag without a value": (["run", "recipe.json", "--set"], "--set"),
    "quiet and verbose": (["run", "recipe.json", "-q", "-v"], "excludes"),
    "validate without a recipe": (["validate"], "RECIPE"),
    "schema with an argument": (["schema", "recipe.json"], "recipe.json"),
    "checkpoint alone": (["checkpoint"], "inspect, verify, diff, export, import"),
    "unknown command of checkpoint": (["checkpoint", "inspekt", "a"], 'did you mean "inspect"?'),
    "inspect without a source": (["checkpoint", "inspect"], "SOURCE"),
    "export without a format": (["checkpoint", "export", ".", "out"], "--to"),
    "export to another format": (["checkpoint", "export", ".", "out", "--to", "gguf"], "gguf"),
    "export without a folder": (["checkpoint", "export", ".", "--to", "hf"], "DIRECTORY"),
    "import from another format": (["checkpoint", "import", ".", "out", "--from", "gguf"], "gguf"),
    "compare of one run": (["compare", "runs/first"], "RUN"),
    "sample without a source": (["sample"], "SOURCE"),
    "sample of no tokens": (["sample", ".", "--tokens", "-1"], "--tokens"),
    "temperature that is no number": (["sample", ".", "--temperature", "hot"], "--temperature"),
    "temperature NaN": (["sample", ".", "--temperature", "nan"], "--temperature"),
    "temperature infinite": (["sample", ".", "--temperature", "inf"], "--temperature"),
    "negative top-k": (["sample", ".", "--top-k", "-1"], "--top-k"),
    "half a top-k": (["sample", ".", "--top-k", "1.5"], "--top-k"),
    "tokens beyond 64 bits": (["sample", ".", "--tokens", "99999999999999999999"], "--tokens"),
    "tokens with a unit": (["sample", ".", "--tokens", "1k"], "--tokens"),
    "seed that is no number": (["sample", ".", "--seed", "x"], "--seed"),
    "top-p beyond 1": (["sample", ".", "--top-p", "1.5"], "--top-p"),
    "a penalty of nothing": (["sample", ".", "--repetition-penalty", "0"], "--repetition-penalty"),
    "no samples": (["sample", ".", "--samples", "0"], "--samples"),
    "no batch": (["sample", ".", "--batch", "0"], "--batch"),
    "no tensor rank": (["sample", ".", "--tensor", "0"], "--tensor"),
    "stop of no text": (["sample", ".", "--stop", ""], "--stop"),
    "prompts twice": (["sample", ".", "--prompt", "a", "--prompts", "b"], "excludes"),
    "choices and data": (["eval", ".", "--choices", "a", "--data", "b"], "excludes"),
    "delimiter without choices": (["eval", ".", "--delimiter", "a"], "--choices"),
    "eval of part of a batch": (["eval", ".", "--batches", "0.5"], "--batches"),
    "doctor with an argument": (["doctor", "please"], "please"),
}


def help_of(command):
    return subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True).stdout


def all_help():
    return "\n".join(f"$ llmtrain {' '.join([*command, '--help'])}\n{help_of(command)}" for command in COMMANDS)


class Usage(ProgramTest):
    def test_wrong_command_lines(self):
        self.write("recipe.json", small())
        for name, (arguments, fragment) in WRONG.items():
            with self.subTest(name):
                result = self.refused(2, [fragment, "--help"], *arguments)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_help_is_frozen(self):
        self.assertEqual(all_help(), GOLDEN.read_text(encoding="utf-8"), "python3 usage_test.py --update writes it anew")

    def test_help_shows_an_example(self):
        for command in COMMANDS:
            with self.subTest(command):
                self.assertRegex(help_of(command), r"Examples?:\n  llmtrain ")

    def test_documentation_names_every_flag(self):
        text = (SOURCE / "docs" / "command-line.md").read_text(encoding="utf-8")
        flags = set(re.findall(r"--[a-z][a-z-]+", all_help()))
        self.assertEqual(flags - set(re.findall(r"--[a-z][a-z-]+", text)), set())
        self.assertEqual(set(re.findall(r"--[a-z][a-z-]+", text)) - flags, set())

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"^llmtrain \d+\.\d+\.\d+\n$")

    def test_set_takes_one_value_and_repeats(self):
        self.write("recipe.json", small())
        result = self.run_program("validate", "--set", "seed=1", "--set", "name=other", "recipe.json", "--print")
        self.assertIn('"name": "other"', result.stdout)


if __name__ == "__main__":
    if "--update" in sys.argv:
        GOLDEN.write_text(all_help(), encoding="utf-8")
        os._exit(0)
    unittest.main()
