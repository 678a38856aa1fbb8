# SPDX-License-Identifier: Apache-2.0
"""Encoders that learn to find the answers of questions in texts, as a user trains, evaluates and exports them."""
import json
import random
import unittest

from classifier_run_test import PLAIN, tokenizer_of
from program import TrainingTest

MODEL = {"architecture": "bert", "layers": 2, "hidden_size": 32, "heads": 2, "max_sequence_length": 24,
         "init_std": 0.1}
# By question, the first and the last words of its answers.
ANSWERS = {"who": (["ada", "grace", "alan"], ["stone", "hill"]), "where": (["new", "old"], ["town", "lake", "mill"])}
WORDS = [*ANSWERS, *PLAIN, *(word for parts in ANSWERS.values() for part in parts for word in part)]
LENGTH = 24


def asked(draw, may_be_none=False):
    """A text with an answer to each question, some of them longer than a sample, and one of the questions."""
    text, places = [], {}
    for question in draw.sample(list(ANSWERS), 2):
        text += [draw.choice(PLAIN) for _ in range(draw.randrange(1, 13))]
        places[question] = len(text)
        text += [draw.choice(part) for part in ANSWERS[question]]
    text += [draw.choice(PLAIN) for _ in range(draw.randrange(1, 6))]
    question = draw.choice(list(ANSWERS))
    begin = places[question]
    if may_be_none and draw.random() < 0.5:
        text[begin:begin + 2] = draw.sample(PLAIN, 2)
        return row_of(question, text)
    return row_of(question, text, begin)


def row_of(question, text, begin=None):
    answers = {"text": [], "answer_start": []}
    if begin is not None:
        answers = {"text": [" ".join(text[begin:begin + 2])], "answer_start": [len(" ".join([*text[:begin], ""]))]}
    return {"question": question, "context": " ".join(text), "answers": answers}


def shuffled(draw, row):
    """The row with two other words of its text as the answer."""
    text = row["context"].split()
    return row_of(row["question"], text, draw.randrange(len(text) - 1))


class Spans(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", tokenizer_of(WORDS))

    def prepare(self, seed=1, is_shuffled=False, may_be_none=False, spans=None, **further):
        draw = random.Random(seed)
        rows, held_out = [[asked(draw, may_be_none) for _ in range(count)] for count in (800, 80)]
        if is_shuffled:
            rows = [shuffled(draw, row) for row in rows]
        for name, written in (("train.jsonl", rows), ("held-out.jsonl", held_out)):
            self.write(name, "".join(json.dumps(row) + "\n" for row in written))
        spans = {"question_length": 4, "overlap": 6, "answer_length": 4, "unanswerable": may_be_none, **(spans or {})}
        self.write("recipe.json", self.recipe({
            "model": {**MODEL, "vocab_size": len(tokenizer_of(WORDS)["model"]["vocab"])},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "spans": spans,
                     "train": [{"path": "train.jsonl"}], "validation": [{"path": "held-out.jsonl"}]},
            "batch": {"global": 32, "micro": 8, "sequence_length": LENGTH}, "seed": seed, "training.steps": 120,
            "training.evaluate_every": 120, "training.learning_rate.peak": 0.005, **further}))
        return held_out

    def figures(self, folder):
        return [row["figures"] for row in self.rows(folder) if "figures" in row][-1]

    def test_answers_are_found_and_those_of_shuffled_places_are_not(self):
        for seed in (1, 2, 3):
            with self.subTest(seed):
                self.prepare(seed)
                self.train("--run-dir", f"runs/{seed}")
                figures = self.figures(f"runs/{seed}")
                self.assertGreater(figures["exact_match"], 0.9)
                self.assertGreater(figures["f1"], 0.9)
                self.prepare(seed, is_shuffled=True)
                self.train("--run-dir", f"runs/control-{seed}")
                self.assertLess(self.figures(f"runs/control-{seed}")["exact_match"], 0.3)

    def test_questions_may_have_no_answer(self):
        held_out = self.prepare(may_be_none=True)
        self.train("--run-dir", "runs/some")
        none = sum(not row["answers"]["text"] for row in held_out) / len(held_out)
        self.assertGreater(self.figures("runs/some")["exact_match"], max(none, 1 - none) + 0.2)

    def test_layouts_learn_the_same(self):
        self.prepare(**{"training.steps": 6, "training.evaluate_every": 6, "model.layers": 4})
        self.train("--run-dir", "runs/one")
        layouts = {"pipeline": (2, ["parallel.pipeline=2"]), "four": (4, ["parallel.pipeline=4"]),
                   **{f"zero-{stage}": (2, [f"parallel.zero_stage={stage}"]) for stage in range(4)}}
        for name, (ranks, settings) in layouts.items():
            with self.subTest(name):
                pairs = [part for setting in settings for part in ("--set", setting)]
                self.train("--run-dir", f"runs/{name}", "--ranks", str(ranks), *pairs)
                for left, right in zip(self.rows("runs/one"), self.rows(f"runs/{name}"), strict=True):
                    loss = "loss" if "loss" in left else "validation_loss"
                    # Sums over two data ranks are joined in another order.
                    self.assertAlmostEqual(left[loss], right[loss], delta=1e-5 * left[loss])
                    self.assertEqual(left.get("figures"), right.get("figures"))

    def test_eval_says_what_the_run_says_and_plan_prices_it(self):
        self.prepare(**{"training.steps": 20, "training.evaluate_every": 20})
        self.train("--run-dir", "runs/one")
        figures = self.figures("runs/one")
        result = self.run_program("eval", "runs/one", "--data", "held-out.jsonl", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        evaluated = json.loads(result.stdout)
        self.assertEqual(evaluated["figures"], figures)
        self.assertIsNone(evaluated["perplexity"])
        self.assertGreater(evaluated["tokens"], 2 * 80)  # a start and an end of each window
        shown = self.run_program("eval", "runs/one", "--data", "held-out.jsonl").stdout
        self.assertIn(f"exact_match  {figures['exact_match']:.6f}", shown)
        self.assertIn("exact match", (self.folder / "runs/one/report.html").read_text())
        inspected = self.run_program("data", "inspect", "recipe.json").stdout
        self.assertRegex(inspected, "⟦ *(ada|grace|alan|new|old) [a-z]+⟧")
        plan = self.run_program("plan", "recipe.json", "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)

    def test_bad_rows_are_named(self):
        self.prepare(**{"training.steps": 1})
        row = row_of("who", ["ada", "stone"], 0)
        for change, words in (({"question": 3}, ['"question"']), ({"answers": []}, ["no object"]),
                              ({"answers": {"text": ["ada"]}}, ['"answer_start"']),
                              ({"answers": {"text": ["stone"], "answer_start": [0]}}, ["stone", "character 0"]),
                              ({"answers": {"text": [], "answer_start": []}}, ["unanswerable"])):
            with self.subTest(str(change)):
                self.write("train.jsonl", json.dumps({**row, **change}) + "\n")
                self.refused(65, ["train.jsonl", "line 1", *words], "run", "recipe.json")

    def test_what_does_not_fit_is_refused(self):
        self.prepare(**{"training.steps": 1})
        for setting, words in (
            ("model.classifier=null", ["/model/classifier", "null, which leaves the head for tokens"]),
            ("model.architecture=\"gpt2\"", ["/data/spans", "needs an encoder"]),
            ("parallel.tensor=2", ["/parallel/tensor"]),
            ("data.spans.overlap=20", ["/data/spans/overlap", "no tokens of its own"])):
            self.refused(2, words, "run", "recipe.json", "--set", setting)
        self.refused(65, ["puts 3 marks", "data.spans.question_length (4)"], "run", "recipe.json", "--set",
                     "data.spans.overlap=17")
        self.train()
        for command in (("sample", "runs/small", "--prompt", "rain"), ("chat", "runs/small")):
            self.refused(2, ["an encoder's", "needs a decoder"], *command)


if __name__ == "__main__":
    unittest.main()
