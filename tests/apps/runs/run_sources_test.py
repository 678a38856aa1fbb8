# SPDX-License-Identifier: Apache-2.0
"""What a run begins with: first weights, and data that must be the same when it goes on."""
import json
import shutil
import unittest

from program import TEXT, TrainingTest


class Sources(TrainingTest):
    def test_first_weights(self):
        self.write("hf/config.json", "{}")
        self.write("broken/config.json", "{")
        for source, codes in (("nowhere", (66,)), ("hf:nowhere", (66,)), ("text.txt", (65, 66)), ("hf:text.txt", (65, 66)),
                              ("hf:hf", (2, 65)), ("hf:broken", (65,))):
            with self.subTest(source):
                result = self.run_program("run", "recipe.json", "--set", f"training.init_from={source}")
                self.assertIn(result.returncode, codes, result.stderr)
                self.assertIn(source.removeprefix("hf:"), result.stderr)
                self.assertFalse((self.folder / "runs").exists())

    def test_a_model_from_a_run(self):
        """The newest checkpoint of a run, and the same one by its name; null asks for random weights."""
        self.train("--set", "training.learning_rate.peak=0.01")
        self.write("second.json", self.recipe({"model": {"from": "runs/small"}}))
        losses = []
        for source in ('"runs/small"', '"runs/small/checkpoints/step-00000002"', "null"):
            folder = f"runs/{len(losses)}"
            result = self.run_program("run", "second.json", "-q", "--run-dir", folder, "--set",
                                      f"training.init_from={source}")
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(self.rows(folder)[0]["loss"])
        self.assertEqual(losses[0], losses[1])
        self.assertLess(losses[0], losses[2] - 0.01)
        result = self.run_program("run", "second.json", "-q", "--run-dir", "runs/default")
        self.assertEqual((result.returncode, self.rows("runs/default")[0]["loss"]), (0, losses[0]))

    def test_a_longer_context_from_a_run(self):
        """Rotary positions have no weights: they may be others than the run's, but not in a run that goes on."""
        model = {"model.architecture": "gpt-rope", "checkpoint.every": 1}
        self.write("recipe.json", self.recipe(model))
        self.train()
        longer = {"model": {"from": "runs/small", "max_sequence_length": 32, "rope_theta": 500000}, "name": "longer"}
        self.write("longer.json", self.recipe(longer))
        result = self.run_program("run", "longer.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("runs/small, with other positions:", "model.max_sequence_length: 16 -> 32",
                      "model.rope_theta: 10000.0 -> 500000.0", "2 sequences × 32 tokens"):
            self.assertIn(words, result.stderr)
        # When it goes on its own weights are trained on.
        result = self.run_program("run", "longer.json", "--set", "training.steps=3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("other positions", result.stderr)
        result = self.run_program("run", "recipe.json", "--run-dir", "runs/other", "--set", "model.rope_theta=500000",
                                  "--set", "checkpoint.resume=runs/small")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("must be the same to go on from it; training.init_from starts from its weights", result.stderr)

    def test_the_recipes_folder_is_no_pattern(self):
        """Only what the recipe itself says is one."""
        data = {"train": [{"path": "*.txt"}], "validation": [{"path": "[n-z]*.txt"}]}
        for name, content in (("recipe.json", self.recipe({"data": data})), ("text.txt", TEXT)):
            self.write(f"data [1]/*/{name}", content)
        result = self.run_program("run", "data [1]/*/recipe.json", "-q")
        self.assertEqual(result.returncode, 0, result.stderr)
        for command in (("eval", "runs/small", "--data", "data [1]/*/t*.txt"),
                        ("data", "tokenize", "data [1]/*/t*.txt", "--output", "out")):
            self.assertEqual(self.run_program(*command).returncode, 0, command)

    def test_what_the_data_make_ineffective_is_said_once(self):
        changes = ("--set", 'data.document_mask={"end_of_text": 7}', "--set", 'data.validation=[{"path": "text.txt"}]')
        for steps in ("1", "2"):
            said = self.run_program("run", "recipe.json", *changes, "--set", f"training.steps={steps}").stderr
            for words in ("none of its 1.8k tokens is 7, which ends a document", "text.txt is trained on as well"):
                self.assertEqual(said.count(words), 2 if "none" in words else 1, said)
                self.assertRegex(said, f"(?m)^warning: .*{words}")

    def test_conversations_without_an_answer_are_said(self):
        """Apart from those of which a sequence holds no answer."""
        lines = ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
                 {"messages": [{"role": "user", "content": "a"}]})
        self.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        changes = {"data.train": [{"path": "chat.jsonl"}], "data.fine_tuning": {"template": "chatml"},
                   "model.max_sequence_length": 64}
        self.write("recipe.json", self.recipe(changes))
        said = self.run_program("run", "recipe.json").stderr
        self.assertIn("chat.jsonl: 1 document without a token that counts in the loss was left out", said)
        self.assertNotIn("were cut", said)
        self.assertIn("data.fine_tuning.packing: no two documents fit into a sequence of 64 tokens", said)

    def test_bad_lines_are_skipped_and_counted(self):
        """In a run, its log and its data.json, in eval, in data tokenize and data inspect."""
        for name, good in (("text.jsonl", {"text": "a" * 600}), ("chat.jsonl", {"prompt": "a", "completion": "b"})):
            with self.subTest(name):
                self.write(name, json.dumps(good) + "\nno JSON\n" + json.dumps(good) + "\n[3]\n")
                changes = {"data.train": [{"path": name}], "model.max_sequence_length": 64, "log.directory": name[:4]}
                if name == "chat.jsonl":
                    changes["data.fine_tuning"] = {"packing": False}
                self.write("recipe.json", self.recipe(changes))
                self.refused(65, [f"{name}: line 2 ", "data.on_bad_line"], "run", "recipe.json")
                result = self.run_program("run", "recipe.json", "--set", "data.on_bad_line=skip")
                self.assertEqual(result.returncode, 0, result.stderr)
                reasons = json.loads((self.folder / name[:4] / "data.json").read_text())["train"][0]["bad_lines"]
                self.assertEqual(reasons["count"], 2)
                log = (self.folder / name[:4] / "log/rank-00000.log").read_text()
                for said in (result.stderr, log):
                    self.assertEqual(said.count("skipped (data.on_bad_line)"), len(reasons["reasons"]), said)
                evaluated = self.run_program("eval", name[:4], "--data", name)
                self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
                self.assertIn("skipped (data.on_bad_line)", evaluated.stderr)
        made = self.run_program("data", "tokenize", "text.jsonl", "--output", "out", "--on-bad-line", "skip")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("1200 tokens of 2 documents", made.stdout)
        kept = json.loads((self.folder / "out.skipped.json").read_text())
        shown = self.run_program("data", "inspect", "text.jsonl", "--on-bad-line", "skip", "--json")
        self.assertEqual(json.loads(shown.stdout)["bad_lines"], kept)
        self.assertEqual(kept["count"], 2)
        self.refused(65, ["text.jsonl: line 2"], "data", "inspect", "text.jsonl")

    def test_a_step_is_of_its_samples_however_few_rows_count(self):
        """Rows are the samples' in the metrics, prompts and padding among them, and so is the model's arithmetic."""
        lines = ({"prompt": "ab" * (1 + index), "completion": "c" * (1 + index ** 2)} for index in range(6))
        self.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        changes = {"data.train": [{"path": "chat.jsonl"}], "data.fine_tuning": {"packing": False},
                   "model.max_sequence_length": 64, "batch.global": 2, "batch.micro": 1, "training.steps": 6,
                   "log.every": 1}
        self.write("recipe.json", self.recipe(changes))
        self.train()
        rows = [row for row in self.rows() if "loss" in row]
        self.assertEqual([row["tokens"] for row in rows], [2 * 64 * step for step in range(1, 7)])
        fewest = None
        for row in rows:
            self.assertAlmostEqual(row["tokens_per_second"] * row["step_seconds"], 2 * 64, places=6)
            # A step's FLOPs ÷ the highest rate so far, which only grows.
            work = row["mfu"] * row["step_seconds"]
            self.assertLessEqual(work, (fewest or work) * (1 + 1e-9))
            fewest = work

    def test_mistakes_are_told_before_tokenising(self):
        """That may take hours, and what follows it could have been looked at first."""
        tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
                     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "added_tokens": []}
        self.write("tokenizer.json", tokenizer)
        self.write("text.txt", "ab" * 2000)
        flags = ("--set", 'data.tokenizer={"huggingface": "tokenizer.json"}')
        for key, value in (("data.validation", '[{"path": "nowhere.txt"}]'), ("training.init_from", "nowhere"),
                           ("data.train", '[{"path": "text.txt"}, {"path": "nowhere.txt"}]'),
                           ("training.init_from", "hf:nowhere")):
            with self.subTest(f"{key}={value}"):
                result = self.refused(66, ["nowhere"], "run", "recipe.json", *flags, "--set", f"{key}={value}")
                self.assertNotIn("made of", result.stderr)
        self.assertIn("made of", self.run_program("run", "recipe.json", *flags).stderr)

    def test_data_that_have_changed(self):
        """All that is left of them would come in another order: some twice, some never."""
        self.write("books/one.txt", TEXT)
        data = ("--set", 'data.train=[{"path": "books"}]')
        self.train("--set", "training.steps=2", *data)
        self.write("books/two.txt", TEXT)
        before = (self.folder / "runs/small/metrics.jsonl").read_text()
        result = self.run_program("run", "recipe.json", "--set", "training.steps=4", *data)
        self.assertEqual(result.returncode, 65, result.stderr)
        for part in ("/data/train/0/path", "samples", "restore the files", "training.init_from"):
            self.assertIn(part, result.stderr)
        self.assertEqual((self.folder / "runs/small/metrics.jsonl").read_text(), before)
        (self.folder / "books" / "two.txt").unlink()
        self.train("--set", "training.steps=4", *data)
        self.assertEqual(len(self.rows()), 4)

    def test_going_on_from_another_run_with_other_data(self):
        """What is read next follows from a position in data that the model has not seen; with the same data nothing is
        said, nor of keys that leave the data as they are."""
        self.train()
        self.write("other.txt", TEXT.upper())
        words = "with other data, of which it reads sample 5 next"
        for folder, change, key in (("a", 'data.train=[{"path": "other.txt"}]', "data.train.0.path: "),
                                    ("b", "data.shuffle=false", "data.shuffle: true -> false"),
                                    ("c", "seed=7", "seed: 1234 -> 7"), ("d", "training.clip_norm=2", None)):
            result = self.run_program("run", "recipe.json", "--run-dir", f"runs/{folder}", "--resume", "runs/small",
                                      "--set", "training.steps=3", "--set", change)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(words in result.stderr, key is not None, result.stderr)
            self.assertIn(key or "resuming after step 2", result.stderr)

    def test_a_run_goes_on_without_its_source(self):
        """Its checkpoints have all that it needs: what it began with may be gone."""
        self.train("--run-dir", "base")
        source = ("--set", "training.init_from=base", "--set", "training.learning_rate.decay_steps=4")
        self.train("--run-dir", "whole", "--set", "training.steps=4", *source)
        self.train("--run-dir", "parts", "--set", "training.steps=2", *source)
        shutil.rmtree(self.folder / "base")
        self.train("--run-dir", "parts", "--set", "training.steps=4", *source)
        losses = [[row["loss"] for row in self.rows(run)] for run in ("whole", "parts")]
        self.assertEqual(losses[0][-1], losses[1][-1])

    def test_a_checkpoint_that_the_run_does_not_go_on_from_is_refused(self):
        flat = ("--set", "training.learning_rate.schedule=constant", "--set", "checkpoint.every=1")
        self.train("--run-dir", "other", *flat)
        self.train("--run-dir", "run", *flat, "--set", "training.steps=3")
        more = (*flat, "--set", "training.steps=4")
        for path, way in (("other", "--run-dir"), ("run/checkpoints/step-00000001", "remove the checkpoints")):
            with self.subTest(path):
                self.refused(2, ["stands after step 3", path, "--run-dir", way], "run", "recipe.json", "--run-dir",
                             "run", *more, "--resume", path)
        # What it began with: the same command again goes on, as does one without it in between.
        self.train("--run-dir", "begun", "--resume", "other/checkpoints/step-00000001", *flat)
        self.train("--run-dir", "begun", *flat, "--set", "training.steps=3")
        again = self.run_program("run", "recipe.json", "--run-dir", "begun", *more, "--resume",
                                 "other/checkpoints/step-00000001")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("continues from the newest, not from", again.stderr)
        self.assertEqual([row["step"] for row in self.rows("begun")], [2, 3, 4])


if __name__ == "__main__":
    unittest.main()
