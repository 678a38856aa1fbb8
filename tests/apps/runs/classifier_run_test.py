# SPDX-License-Identifier: Apache-2.0
"""Encoders that learn to tell classes of texts, of pairs of them and of words, as a user trains, evaluates and exports
them."""
import json
import random
import unittest

from program import TrainingTest

MODEL = {"architecture": "bert", "layers": 1, "hidden_size": 32, "heads": 2, "max_sequence_length": 16,
         "init_std": 0.1}
PLAIN = [f"word{i}" for i in range(20)]
MOODS = {"sad": ["rain", "grey"], "glad": ["sun", "song"], "calm": ["lake", "moss"]}
NAMES = {"PER": ["ada", "grace", "alan"], "LOC": ["paris", "oslo"]}
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def tokenizer_of(plain, *marks):
    """A tokenizer.json of whole words that stand as BERT's do, [CLS] text [SEP] other [SEP], and of further marks."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *marks]
    words = [*special, *plain]
    ids = {word: number for number, word in enumerate(words)}
    return {"version": "1.0", "normalizer": None, "decoder": None, "truncation": None, "padding": None,
            "added_tokens": [{"id": ids[word], "content": word, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for word in special],
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", ids["[SEP]"]], "cls": ["[CLS]", ids["[CLS]"]]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}


def tokenizer():
    return tokenizer_of([*PLAIN, *sum(MOODS.values(), []), *sum(NAMES.values(), [])])


def of_moods(draw):
    """A text's class is that of the one word in it that has a mood."""
    mood = draw.choice(list(MOODS))
    text = draw.sample(PLAIN, draw.randrange(3, 9))
    text.insert(draw.randrange(len(text) + 1), draw.choice(MOODS[mood]))
    return {"text": " ".join(text), "label": mood}


def of_pairs(draw):
    """Whether the second text is sad; the first one may be, too."""
    first, second = (of_moods(draw) for _ in range(2))
    short = [" ".join(one["text"].split()[-4:]) for one in (first, second)]
    is_sad = any(word in MOODS["sad"] for word in short[1].split())
    return {"text": short[0], "other": short[1], "label": int(is_sad)}


def of_names(draw):
    tokens, tags = [], []
    for _ in range(draw.randrange(2, 5)):
        kind = draw.choice(["O", *NAMES])
        words = draw.sample(PLAIN if kind == "O" else NAMES[kind], draw.randrange(1, 3))
        tokens += words
        tags += ["O"] * len(words) if kind == "O" else [f"B-{kind}", *[f"I-{kind}"] * (len(words) - 1)]
        tokens.append(draw.choice(PLAIN))
        tags.append("O")
    return {"tokens": tokens, "tags": tags}


TASKS = {"moods": (of_moods, {"classes": list(MOODS)}),
         "pairs": (of_pairs, {"classes": ["other", "sad"], "text_pair": "other"}),
         "names": (of_names, {"of": "words", "classes": TAGS})}


class Classifiers(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", tokenizer())

    def write_rows(self, name, rows):
        self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def prepare(self, task, seed=1, shuffled=False, **further):
        make, labels = TASKS[task]
        draw = random.Random(seed)
        rows, held_out = [make(draw) for _ in range(600)], [make(draw) for _ in range(90)]
        if shuffled:
            labels_of_rows = [row["label"] for row in rows]
            draw.shuffle(labels_of_rows)
            rows = [{**row, "label": label} for row, label in zip(rows, labels_of_rows, strict=True)]
        self.write_rows("train.jsonl", rows)
        self.write_rows("held-out.jsonl", held_out)
        self.write("recipe.json", self.recipe({
            "model": {**MODEL, "vocab_size": len(tokenizer()["model"]["vocab"])},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "labels": labels,
                     "train": [{"path": "train.jsonl"}], "validation": [{"path": "held-out.jsonl"}]},
            "batch": {"global": 32, "micro": 8, "sequence_length": 16}, "seed": seed,
            "training.steps": 60, "training.evaluate_every": 60, "training.learning_rate.peak": 0.005, **further}))
        return held_out

    def figures(self, folder):
        return [row["figures"] for row in self.rows(folder) if "figures" in row][-1]

    def evaluated(self, *words):
        result = self.run_program("eval", *words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_classes_are_learned_and_those_of_shuffled_labels_are_not(self):
        for seed in (1, 2, 3):
            with self.subTest(seed):
                self.prepare("moods", seed)
                self.train("--run-dir", f"runs/{seed}")
                figures = self.figures(f"runs/{seed}")
                self.assertGreater(figures["accuracy"], 0.9)
                self.assertGreater(figures["macro_f1"], 0.9)
                self.prepare("moods", seed, shuffled=True)
                self.train("--run-dir", f"runs/control-{seed}")
                self.assertLess(self.figures(f"runs/control-{seed}")["accuracy"], 0.6)

    def test_second_texts_and_names_are_told(self):
        for task, figure in (("pairs", "accuracy"), ("names", "entity_f1")):
            with self.subTest(task):
                self.prepare(task, **{"training.steps": 100, "training.evaluate_every": 100})
                self.train("--run-dir", f"runs/{task}")
                self.assertGreater(self.figures(f"runs/{task}")[figure], 0.8)

    def test_layouts_learn_the_same(self):
        for task in ("moods", "names"):
            self.prepare(task, **{"training.steps": 6, "training.evaluate_every": 6, "model.layers": 4})
            self.train("--run-dir", f"runs/{task}")
            layouts = {"pipeline": (2, ["parallel.pipeline=2"]), "four": (4, ["parallel.pipeline=4"]),
                       **{f"zero-{stage}": (2, [f"parallel.zero_stage={stage}"]) for stage in range(4)}}
            for name, (ranks, settings) in layouts.items():
                with self.subTest(f"{task} {name}"):
                    pairs = [part for setting in settings for part in ("--set", setting)]
                    self.train("--run-dir", f"runs/{task}-{name}", "--ranks", str(ranks), *pairs)
                    for left, right in zip(self.rows(f"runs/{task}"), self.rows(f"runs/{task}-{name}"), strict=True):
                        loss = "loss" if "loss" in left else "validation_loss"
                        # Sums over two data ranks are joined in another order.
                        self.assertAlmostEqual(left[loss], right[loss], delta=1e-5 * left[loss])
                        self.assertEqual(left.get("figures"), right.get("figures"))

    def test_eval_says_what_the_run_says(self):
        held_out = self.prepare("pairs", **{"training.steps": 20, "training.evaluate_every": 20})
        self.train("--run-dir", "runs/one")
        figures = self.figures("runs/one")
        evaluated = self.evaluated("runs/one", "--data", "held-out.jsonl")
        self.assertEqual(evaluated["figures"], figures)
        self.assertIsNone(evaluated["perplexity"])
        self.assertEqual(evaluated["tokens"], len(held_out))
        shown = self.run_program("eval", "runs/one", "--data", "held-out.jsonl").stdout
        self.assertIn(f"accuracy    {figures['accuracy']:.6f}", shown)
        self.assertIn("accuracy", (self.folder / "runs/one/report.html").read_text())
        self.assertIn('figure="macro_f1"', (self.folder / "runs/one/metrics.prom").read_text())

    def test_heads_begin_anew_where_the_base_has_none_of_their_classes(self):
        self.prepare("moods")
        of_tokens = self.recipe({"model": {**MODEL, "vocab_size": len(tokenizer()["model"]["vocab"])},
                                 "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "masking": {"token": 1},
                                          "train": [{"path": "text.txt"}]},
                                 "batch": {"global": 2, "micro": 2, "sequence_length": 16}, "training.steps": 2})
        self.write("text.txt", " ".join(PLAIN) * 40)
        self.write("tokens.json", of_tokens)
        base = self.run_program("run", "tokens.json", "-q", "--run-dir", "runs/base")
        self.assertEqual(base.returncode, 0, base.stderr)
        self.write("recipe.json", {**json.loads((self.folder / "recipe.json").read_text()),
                                   "model": {"from": "runs/base"}})
        steps = ("--set", "training.steps=2", "--set", "training.evaluate_every=2")
        for ranks in ("1", "2"):
            first = self.run_program("run", "recipe.json", *steps, "--run-dir", f"runs/{ranks}", "--ranks", ranks)
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertIn("head.pooler.weight, head.pooler.bias, head.classifier.weight, head.classifier.bias begin",
                          first.stderr + first.stdout)
        for left, right in zip(self.rows("runs/1"), self.rows("runs/2"), strict=True):
            self.assertAlmostEqual(left.get("loss", 0), right.get("loss", 0), places=5)
        # With other classes the pooler stays, and with the same ones all of the head does.
        other = self.run_program("run", "recipe.json", *steps, "--run-dir", "runs/other", "--set",
                                 'model.from="runs/1"', "--set", 'data.labels.classes=["calm", "sad", "glad"]')
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn(" head.classifier.weight, head.classifier.bias begin", other.stderr + other.stdout)
        self.assertNotIn("head.pooler", other.stderr + other.stdout)
        same = self.run_program("run", "recipe.json", *steps, "--run-dir", "runs/same", "--set", 'model.from="runs/1"')
        self.assertNotIn("begin at random", same.stderr + same.stdout)

    def test_what_does_not_fit_is_refused(self):
        self.prepare("moods", **{"training.steps": 1})
        for setting, words in (
            ("model.classifier=null", ["/model/classifier", "null, which leaves the head for tokens"]),
            ('model.classifier={"classes": ["sad", "glad"]}', ["/model/classifier", "other classes"]),
            ("model.architecture=\"gpt2\"", ["/data/labels", "needs an encoder"]),
            ("parallel.tensor=2", ["/parallel/tensor"])):
            self.refused(2, words, "run", "recipe.json", "--set", setting)
        self.train()
        for command in (("sample", "runs/small", "--prompt", "rain"), ("chat", "runs/small")):
            self.refused(2, ["an encoder's", "needs a decoder"], *command)


if __name__ == "__main__":
    unittest.main()
