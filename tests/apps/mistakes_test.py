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
    "another program's epochs": ([*RUN, "--set", "training.num_train_epochs=3"], 2,
                                 ["/training/num_train_epochs:", 'did you mean "epochs"?']),
    "a short word for a key": ([*RUN, "--set", "fp8=true"], 2, ["/fp8:", "did you mean /precision/fp8_level?"]),
    "a key without its section": ([*RUN, "--set", "steps=20"], 2, ["/steps:", "did you mean /training/steps?"]),
    "a key as a flag": ([*RUN, "--steps", "20"], 2, ["--steps", "did you mean --set training.steps=20?"]),
    "a key with its section as a flag": ([*RUN, "--training.steps=20"], 2, ["did you mean --set training.steps=20?"]),
    "a flag of another program": ([*RUN, "--batch-size", "8"], 2, ["did you mean --set batch.global=8?"]),
    "a misspelt flag": ([*RUN, "--dryrun"], 2, ["--dryrun", "did you mean --dry-run?"]),
    "a space for the equals sign": ([*RUN, "--set", "training.steps", "20"], 2,
                                    ["did you mean --set training.steps=20?"]),
    "one flag for two settings": ([*RUN, "--set", "training.steps=20", "batch.micro=2"], 2,
                                  ["did you mean --set batch.micro=2?"]),
    "a setting in place of a recipe": (["plan", "recipe.json", "--set", "training.steps=20", "batch.micro=2"], 66,
                                       ["did you mean --set batch.micro=2?"]),
    "a recipe after a flag": (["run", "--config", "recipe.json"], 2, ["--config", "by itself, without a flag"]),
    "a command of another program": (["train", "recipe.json"], 2, ['"train"', 'did you mean "run"?']),
    "no command": (["recipe.json"], 2, ['did you mean "run recipe.json"?']),
    "a command that goes without saying": (["resume", "recipe.json"], 2, ['"resume"', 'did you mean "run"?']),
    "a command below another": (["tokenize", "text.txt"], 2, ['did you mean "data tokenize"?']),
    "a list of something": (["list"], 2, ['did you mean "recipes"?']),
    "another program's word for an export": (["convert", "runs/small"], 2, ['did you mean "checkpoint export"?']),
    "a second look at a training": (["finetune", "recipe.json"], 2, ['did you mean "run"? See llmtrain --help']),
    "help with no command": (["help", "plann"], 2, ['"plann" is not a command; did you mean "plan"?']),
    "GPUs as a flag": ([*RUN, "--gpus", "2"], 2, ["there is no flag --gpus; did you mean --ranks 2?"]),
    "GPUs as a flag of a plan": (["plan", "recipe.json", "--gpus", "2"], 2, ["did you mean --ranks 2?"]),
    "a machine as a flag of a plan": (["plan", "recipe.json", "--machine", "h100"], 2,
                                      ["did you mean --set cluster.profile=h100?"]),
    "a profile for a machine": (["new", "--model", "quickstart", "--profile", "cpu"], 2, ["did you mean --machine cpu?"]),
    "a GPU as another device": (["calibrate", "--device", "gpu"], 2,
                                ['"gpu" is unknown; must be auto, cpu or cuda; did you mean cuda?']),
    "a format of another program": (["checkpoint", "export", ".", "out", "--to", "gguf"], 2,
                                    ['"gguf" is unknown; must be hf or peft']),
    "the newest checkpoint by a word": ([*RUN, "--resume", "latest"], 66, ['did you mean "auto"?']),
    "a number as a text": ([*RUN, "--set", 'batch.micro="2"'], 2, ["/batch/micro:", "did you mean 2?"]),
    "half a device": ([*RUN, "--ranks", "1.5"], 2, ["/launch/ranks:", "whole number"]),
    "a word in the wrong case": ([*RUN, "--set", "model.architecture=GPT2"], 2, ['did you mean "gpt2"?']),
    "heads that do not divide": ([*RUN, "--set", "model.heads=3"], 2, ["/model/hidden_size:", "did you mean 15?"]),
    "a batch that does not divide": ([*RUN, "--set", "batch.global=3"], 2, ["/batch/global:", "did you mean 4?"]),
    "half a name of a profile": (["plan", "recipe.json", "--set", "cluster.profile=h100"], 2,
                                 ["/cluster/profile:", 'did you mean "h100-sxm-80gb"?']),
    "half a name of a program": (["plan", "recipe.json", "--program", "megatron"], 2,
                                 ["/cluster/program:", 'did you mean "megatron-lm"?']),
    "a profile that does not exist": (["plan", "recipe.json", "--set", "cluster.profile=h2000"], 2,
                                      ["/cluster/profile:", 'did you mean "h200"?']),
    "data that do not exist": ([*RUN, "--set", "data.train.0.path=nowhere.txt"], 66,
                               ["/data/train/0/path:", "nowhere.txt", "a glob that exists"]),
    "a recipe that does not exist": (["run", "recipes/nowhere.json"], 66, ["recipes/nowhere.json", "llmtrain recipes"]),
    "a folder as a recipe": (["run", "."], 2, [".: is a folder", "did you mean ./recipe.json?"]),
    "a name that is nearly a recipe's": (["plan", "gpt3"], 66, ["gpt3:", "did you mean gpt3-175b?"]),
    "YAML as a recipe": (["run", "recipe.yaml"], 2, ["recipe.yaml: recipes are JSON", "llmtrain new"]),
    "a recipe from a Windows shell": (["run", "utf16.json"], 2, ["the text is UTF-16; save it as UTF-8"]),
    "a comma at the end": (["run", "comma.json"], 2, ["line 1, column 14: the comma before } must be removed"]),
    "a learning rate as a number": ([*RUN, "--set", "training.learning_rate=0.001"], 2,
                                    ["did you mean /training/learning_rate/peak?"]),
    "a type for all of the precision": ([*RUN, "--set", "precision=bf16"], 2, ["did you mean /precision/compute?"]),
    "PyTorch's word for a type": ([*RUN, "--set", "precision.compute=bfloat16"], 2, ['did you mean "bf16"?']),
    "a GPU by another word": ([*RUN, "--set", "cluster.device=gpu"], 2, ['did you mean "cuda"?']),
    "FP8 as a type": ([*RUN, "--set", "precision.compute=fp8"], 2, ["did you mean /precision/fp8_level?"]),
    "a number without its zero": ([*RUN, "--set", "training.learning_rate.peak=.5"], 2, ["did you mean 0.5?"]),
    "a number without its zero in a file": (["run", "half.json"], 2, [".5 is not a JSON number; write 0.5"]),
    "a bracket that is missing": ([*RUN, "--set", 'data.train=[{"path": "text.txt"}'], 2,
                                  ["is not JSON: line 1, column 22: the text ends too early"]),
    "where checkpoints lie": ([*RUN, "--set", "checkpoint.path=ckpt"], 2, ["did you mean /log/directory?"]),
    "a tokenizer by its file": ([*RUN, "--set", "data.tokenizer=tokenizer.json"], 2,
                                ['did you mean {"huggingface": "tokenizer.json"}?']),
    "a folder that does not exist": (["plan", "recipe.json", "--html", "nowhere/a.html"], 73,
                                     ["nowhere/a.html: cannot be created"]),
    "a price in words": (["plan", "recipe.json", "--price", "cheap"], 2, ["--price cheap: must be the price", "2.5"]),
    "a file for a list of sources": ([*RUN, "--set", "data.train=text.txt"], 2,
                                     ['did you mean [{"path": "text.txt"}]?']),
    "a tokenizer that does not exist": ([*RUN, "--set", "data.tokenizer.huggingface=nowhere.json"], 66,
                                        ["/data/tokenizer/huggingface:", "nowhere.json: cannot be opened"]),
    "a text as a tokenizer": ([*RUN, "--set", "data.tokenizer.sentencepiece=text.txt"], 65,
                              ["/data/tokenizer/sentencepiece:", "text.txt: is not a model of SentencePiece"]),
    "an empty text": ([*RUN, "--set", "data.train.0.path=empty.txt"], 65,
                      ["/data/train/0/path:", "holds 0 tokens", "one sample needs 17"]),
    "ids that are no tokens": ([*RUN, "--set", "data.train.0.path=noise.bin"], 65,
                               ["/data/train/0/path:", "has id 8224", "below model.vocab_size (256)"]),
    "a file for a run's directory": ([*RUN, "--run-dir", "text.txt"], 73, ["is not a folder", "another --run-dir"]),
    "another's folder for a run's directory": ([*RUN, "--run-dir", "."], 2, ["contains", "but no run"]),
    "ranks that do not fit the batch": ([*RUN, "--ranks", "3"], 2, ["/batch/global:", "did you mean 6?"]),
    "a recipe to compare": (["compare", "recipe.json", "recipe.json"], 66, ["is a file", "the directory of a run"]),
    "a cluster of another size": (["plan", "llama3-8b", "--ranks", "64"], 2,
                                  ["/launch/ranks:", "did you mean --set parallel.data=32 --set cluster.nodes=8?"]),
    "fewer nodes": (["plan", "llama3-8b", "--set", "cluster.nodes=8"], 2,
                    ["/cluster/nodes:", "did you mean --set cluster.nodes=64, or --set parallel.data=32?"]),
    "fewer data ranks": (["plan", "llama3-8b", "--set", "parallel.data=4"], 2,
                         ["/cluster/nodes:", "did you mean --set cluster.nodes=1, or --set parallel.data=256?"]),
    "a time without a unit": (["plan", "recipe.json", "--target", "30"], 2, ["--target 30:", "as in 30d or 12h"]),
    "first weights by a name": ([*RUN, "--set", "training.init_from=gpt2"], 66,
                                ["gpt2: does not exist", "a checkpoint's folder"]),
    "a model that was never trained": (["sample", "recipe.json"], 66, ["runs/small", "give a run's directory"]),
}


class Mistakes(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("recipe.yaml", "model:\n  layers: 2\n")
        self.write("comma.json", '{"name": "x",}')
        self.write("half.json", '{"seed": .5}')
        self.write("empty.txt", "")
        self.write("noise.bin", " " * 100)
        (self.folder / "utf16.json").write_text('{"name": "x"}', encoding="utf-16")

    def test_each_is_answered_by_one_line(self):
        for name, (arguments, code, fragments) in MISTAKES.items():
            with self.subTest(name):
                result = self.refused(code, fragments, *arguments)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_what_a_cluster_of_another_size_needs_is_planned(self):
        for given, needed in ((["--ranks", "64"], ["parallel.data=32", "cluster.nodes=8"]),
                              (["--set", "cluster.nodes=8"], ["parallel.data=32"]),
                              (["--set", "parallel.data=4"], ["cluster.nodes=1"])):
            with self.subTest(given):
                flags = [word for change in needed for word in ("--set", change)]
                result = self.run_program("plan", "llama3-8b", *given, *flags)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_help_is_a_command_too(self):
        for command in ([], ["plan"], ["checkpoint", "inspect"]):
            with self.subTest(command):
                said = self.run_program("help", *command)
                self.assertEqual((said.returncode, said.stderr), (0, ""))
                self.assertEqual(said.stdout, self.run_program(*command, "--help").stdout)

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
                self.assertIn("the learning rate ends at 1.5e-05, below its peak of 0.0003", said)

    def test_verbose_says_nothing_twice(self):
        result = self.run_program("run", "recipe.json", "-v")
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual([line for line in set(lines) if lines.count(line) > 1], [])


if __name__ == "__main__":
    unittest.main()
