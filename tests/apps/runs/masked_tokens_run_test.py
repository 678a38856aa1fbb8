# SPDX-License-Identifier: Apache-2.0
"""An encoder that learns hidden tokens of texts, as a user trains, evaluates and looks at it."""
import json
import math
import random
import re
import unittest
from collections import Counter

from classifier_run_test import tokenizer_of
from program import SOURCE, TrainingTest

MASK = 0
TEXT = "the cat sat on the mat and the dog lay by the door\n" * 40
WORDS = 16  # that texts are made of


def frequent_words():
    """Those that the documentation has most often."""
    text = "".join(path.read_text() for path in sorted((SOURCE / "docs").glob("*.md")))
    return [word for word, _ in Counter(re.findall(r"\b[a-z]{4,}\b", text)).most_common(WORDS)]


def twofold_texts(words, count, seed, is_equal=True):
    """Texts of six words, and the same again or six others: a hidden word stands in the other half, too, or nowhere."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        first, other = (draw.choices(words, k=6) for _ in range(2))
        texts.append(" ".join(first + (first if is_equal else other)))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


class MaskedTokens(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("recipe.json", self.recipe({
            "model": {"architecture": "bert", "layers": 2, "hidden_size": 16, "heads": 2, "vocab_size": 256,
                      "max_sequence_length": 32},
            "data": {"tokenizer": "bytes", "train": [{"path": "text.txt"}], "validation": [{"path": "text.txt"}],
                     "masking": {"token": MASK}},
            "batch": {"global": 8, "micro": 2, "sequence_length": 32},
            "training.steps": 6, "training.evaluate_every": 3, "training.learning_rate.peak": 0.01}))

    def losses(self, folder):
        return [row["loss"] for row in self.rows(folder) if "loss" in row]

    def test_layouts_learn_the_same(self):
        self.train("--run-dir", "runs/one")
        one = self.losses("runs/one")
        self.assertEqual(len(one), 6)
        self.assertLess(one[-1], one[0] - 0.1)
        for name, settings in (("pipeline", ["parallel.pipeline=2"]), ("data", ["parallel.zero_stage=3"])):
            with self.subTest(name):
                pairs = [part for setting in settings for part in ("--set", setting)]
                self.train("--run-dir", f"runs/{name}", "--ranks", "2", *pairs)
                for left, right in zip(one, self.losses(f"runs/{name}"), strict=True):
                    # Sums over two data ranks are joined in another order.
                    self.assertAlmostEqual(left, right, delta=1e-5 * left)

    def test_hidden_words_are_told_from_what_tells_them_and_not_by_a_model_of_other_texts(self):
        words = frequent_words()
        tokenizer = tokenizer_of(words, "[MASK]")
        self.write("tokenizer.json", tokenizer)
        self.write("equal.jsonl", twofold_texts(words, 1000, 1))
        self.write("other.jsonl", twofold_texts(words, 1000, 1, is_equal=False))
        self.write("held-out.jsonl", twofold_texts(words, 100, 2))
        self.write("words.json", self.recipe({
            "model": {"layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": len(tokenizer["model"]["vocab"]),
                      "max_sequence_length": 16, "init_std": 0.1},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "masking": {"single_texts": True},
                     "validation": [{"path": "held-out.jsonl"}]},
            "batch": {"global": 32, "micro": 32, "sequence_length": 16},
            "training.steps": 300, "training.evaluate_every": 300, "training.learning_rate.peak": 0.005}))
        for family in ("bert", "roberta"):
            for seed in (1, 2, 3):
                with self.subTest(f"{family}, seed {seed}"):
                    self.assertLess(self.loss_of_words(family, seed, "equal"), 0.25 * math.log(WORDS))
                    self.assertGreater(self.loss_of_words(family, seed, "other"), 0.9 * math.log(WORDS))

    def loss_of_words(self, family, seed, texts):
        """Of hidden words, of which one of 16 is ln 16 = 2.8 where nothing tells which."""
        folder = f"runs/{family}-{seed}-{texts}"
        result = self.run_program("run", "words.json", "-q", "--run-dir", folder, "--set", f"seed={seed}", "--set",
                                  f"model.architecture={family}", "--set", f'data.train=[{{"path": "{texts}.jsonl"}}]')
        self.assertEqual(result.returncode, 0, result.stderr)
        return [row["validation_loss"] for row in self.rows(folder) if "validation_loss" in row][-1]

    def test_eval_hides_what_validation_hides(self):
        self.train("--run-dir", "runs/one")
        validated = [row["validation_loss"] for row in self.rows("runs/one") if "validation_loss" in row][-1]
        result = self.run_program("eval", "runs/one", "--data", "text.txt", "--packed", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["loss"], validated)

    def test_inspect_shows_what_is_hidden(self):
        result = self.run_program("data", "inspect", "recipe.json", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        # A share of 0.15 of 32 tokens.
        self.assertIn('"hidden"', result.stdout)
        shown = self.run_program("data", "inspect", "recipe.json").stdout
        self.assertIn("32 tokens, 5 count in the loss", shown)

    def test_what_it_cannot_do_is_refused(self):
        self.train("--run-dir", "runs/one")
        for command in (("sample", "runs/one", "--prompt", "the"), ("chat", "runs/one")):
            self.refused(2, ["an encoder's", "needs a decoder"], *command)
        self.refused(2, ["/data/masking", "null"], "run", "recipe.json", "--set", "data.masking=null")
        self.refused(2, ["/parallel/tensor"], "run", "recipe.json", "--ranks", "2", "--set", "parallel.tensor=2")


if __name__ == "__main__":
    unittest.main()
