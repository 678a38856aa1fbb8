# SPDX-License-Identifier: Apache-2.0
"""Typical mistakes, each answered by one line that says what to do."""
import unittest

from program import TrainingTest

RUN = ["run", "recipe.json"]

# What was typed, the exit code, and what the answer must hold: what is wrong, and what to do instead.
MISTAKES = {
    "a key of another program in a section": ([*RUN, "--set", "model.hidden=64"], 2,
                                              ["/model/hidden:", 'did you mean "hidden_size"?']),
    "a key of another program elsewhere": ([*RUN, "--set", "batch.max_seq_len=64"], 2,
                                           ["/batch/max_seq_len:", "did you mean /model/max_sequence_length?"]),
    "a short word for a key": ([*RUN, "--set", "fp8=true"], 2, ["/fp8:", "did you mean /precision/fp8_level?"]),
    "a key without its section": ([*RUN, "--set", "steps=20"], 2, ["/steps:", "did you mean /training/steps?"]),
    "a key as a flag": ([*RUN, "--steps", "20"], 2, ["--steps", "did you mean --set training.steps=20?"]),
    "a key with its section as a flag": ([*RUN, "--training.steps=20"], 2, ["did you mean --set training.steps=20?"]),
    "a flag of another program": ([*RUN, "--batch-size", "8"], 2, ["did you mean --set batch.global=8?"]),
    "a misspelt flag": ([*RUN, "--dryrun"], 2, ["--dryrun", "did you mean --dry-run?"]),
    "a space for the equals sign": ([*RUN, "--set", "training.steps", "20"], 2,
                                    ["did you mean --set training.steps=20?"]),
    "a recipe behind a flag": (["run", "--config", "recipe.json"], 2, ["--config", "by itself, without a flag"]),
    "a command of another program": (["train", "recipe.json"], 2, ['"train"', 'did you mean "run"?']),
    "no command": (["recipe.json"], 2, ['did you mean "run recipe.json"?']),
    "help as a command": (["help"], 2, ['did you mean "--help"?']),
    "a number as a text": ([*RUN, "--set", 'batch.micro="2"'], 2, ["/batch/micro:", "did you mean 2?"]),
    "half a device": ([*RUN, "--ranks", "1.5"], 2, ["/launch/ranks:", "whole number"]),
    "a word in the wrong case": ([*RUN, "--set", "model.architecture=GPT2"], 2, ['did you mean "gpt2"?']),
    "heads that do not divide": ([*RUN, "--set", "model.heads=3"], 2, ["/model/hidden_size:", "did you mean 15?"]),
    "a batch that does not divide": ([*RUN, "--set", "batch.global=3"], 2, ["/batch/global:", "did you mean 4?"]),
    "a profile that does not exist": (["plan", "recipe.json", "--set", "cluster.profile=h2000"], 2,
                                      ["/cluster/profile:", 'did you mean "h200"?']),
    "data that do not exist": ([*RUN, "--set", "data.train.0.path=nowhere.txt"], 66, ["/data/train/0/path:", "nowhere.txt", "a glob that exists"]),
    "a recipe that does not exist": (["run", "recipes/nowhere.json"], 66, ["recipes/nowhere.json", "llmtrain recipes"]),
    "a run's directory as a recipe": (["run", "."], 2, [".: is not a regular file"]),
    "a model that was never trained": (["sample", "recipe.json"], 66, ["runs/small", "give a run's directory"]),
}


class Mistakes(TrainingTest):
    def test_each_is_answered_by_one_line(self):
        for name, (arguments, code, fragments) in MISTAKES.items():
            with self.subTest(name):
                result = self.refused(code, fragments, *arguments)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_exponents_are_whole_numbers(self):
        result = self.run_program("validate", "recipe.json", "--set", "training.steps=1e3", "--print")
        self.assertIn('"steps": 1000', result.stdout)

    def test_a_warm_up_that_is_too_long_is_a_warning(self):
        flag = ["--set", "training.learning_rate.warmup_steps=40"]
        for arguments in (["validate", "recipe.json"], ["run", "recipe.json", "-q"], ["plan", "recipe.json"]):
            with self.subTest(arguments[0]):
                result = self.run_program(*arguments, *flag)
                self.assertEqual(result.returncode, 0, result.stderr)
                said = " ".join((result.stderr + result.stdout).split())
                self.assertEqual(said.count("warmup_steps: 40 is longer than the run (training.steps 2)"), 1, said)

    def test_verbose_says_nothing_twice(self):
        result = self.run_program("run", "recipe.json", "-v")
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual([line for line in set(lines) if lines.count(line) > 1], [])


if __name__ == "__main__":
    unittest.main()
