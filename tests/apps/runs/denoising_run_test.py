# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders that learn to restore damaged texts, as a user trains, resumes, evaluates and looks at them."""
import json
import unittest

import ended_texts
from program import TrainingTest

SENTINELS = 8
WORDS = "the cat sat on a mat . and dog lay by door !".split()
MARKS = ["</s>", "<pad>", "<mask>", *(f"<extra_id_{i}>" for i in reversed(range(SENTINELS)))]
TEXT = "the cat sat on the mat . and the dog lay by the door !\n" * 60
NOISES = {"spans": {}, "infilling": {"noise": "infilling", "permute_sentences": True}}


def tokenizer(marks=MARKS):
    """Words and special tokens; T5's sentinels, the first of which has the highest id."""
    ids = {text: id for id, text in enumerate([*marks, *WORDS])}
    return json.dumps({
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<pad>"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": [{"id": ids[text], "content": text, "special": True} for text in marks],
        "post_processor": ended_texts.post_processor(0)})


class Denoising(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", TEXT)
        self.write("texts.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in TEXT.splitlines()))
        self.write("tokenizer.json", tokenizer())
        self.write("tokenizer_config.json", ended_texts.MARKS)
        self.write("recipe.json", self.recipe({
            "model": {"architecture": "t5", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 32,
                      "max_sequence_length": 24},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "denoising": {},
                     "train": [{"path": "text.txt"}], "validation": [{"path": "texts.jsonl"}]},
            "batch": {"global": 8, "micro": 2, "sequence_length": 24},
            "training.steps": 6, "training.evaluate_every": 3,
            "training.learning_rate": {"peak": 0.01, "schedule": "constant"},
            "checkpoint.every": 3}))

    def settings(self, noise, **more):
        values = {"data.denoising": json.dumps(NOISES[noise]), **more}
        return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]

    def values(self, folder, key="loss"):
        return [row[key] for row in self.rows(folder) if key in row]

    def test_layouts_and_resumed_runs_learn_the_same(self):
        for noise in NOISES:
            self.train("--run-dir", f"runs/{noise}", *self.settings(noise))
            one = self.values(f"runs/{noise}")
            self.assertEqual(len(one), 6)
            self.assertLess(one[-1], one[0] - 0.1)
            for name, layout in (("pipeline", "parallel.pipeline"), ("data", "parallel.zero_stage")):
                with self.subTest(f"{noise}, {name}"):
                    folder = f"runs/{noise}-{name}"
                    self.train("--run-dir", folder, "--ranks", "2", *self.settings(noise, **{layout: 2}))
                    for left, right in zip(one, self.values(folder), strict=True):
                        # Sums over two data ranks are joined in another order.
                        self.assertAlmostEqual(left, right, delta=1e-5 * left)
            with self.subTest(f"{noise}, resumed"):
                half = f"runs/{noise}-half"
                self.train("--run-dir", half, *self.settings(noise, **{"training.steps": 3}))
                self.train("--run-dir", half, "--resume", "auto", *self.settings(noise))
                self.assertEqual(self.values(half), one)
                self.assertEqual(self.values(half, "validation_loss")[-1],
                                 self.values(f"runs/{noise}", "validation_loss")[-1])

    def test_eval_damages_texts_as_validation_does(self):
        self.train("--run-dir", "runs/one")
        result = self.run_program("eval", "runs/one", "--data", "texts.jsonl", "--packed", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["loss"], self.values("runs/one", "validation_loss")[-1])
        self.refused(2, ["/model/architecture", "--kv-cache-dtype"], "sample", "runs/one", "--prompt", "x",
                     "--kv-cache-dtype", "int8")
        self.refused(2, ["/model/architecture", "--weight-memory"], "sample", "runs/one", "--prompt", "x",
                     "--weight-memory", "0")

    def inspected(self, noise, **changes):
        setting = json.dumps({**NOISES[noise], **changes})
        result = self.run_program("data", "inspect", "recipe.json", "--json", "--set", f"data.denoising={setting}")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_inspect_shows_what_the_model_reads_and_writes(self):
        shown = json.dumps(self.inspected("spans"))
        self.assertIn("source", shown)
        # 24 rows less padding and a mark leave 22: 24 tokens of text, of which 4 are taken out in one part.
        self.assertIn('"tokens": 23', shown)
        self.assertIn('"tokens": 6', shown)
        self.inspected("infilling", single_texts=True)

    def test_what_it_cannot_do_is_refused(self):
        run = ("run", "recipe.json")
        self.write("tokenizer.json", tokenizer(MARKS[:2]))
        self.refused(65, ["no marks <extra_id_0>", '"infilling"'], *run)
        self.refused(65, ["no token that masks others", "data.denoising.token"], *run, *self.settings("infilling"))
        self.write("tokenizer.json", tokenizer([*MARKS[:3], "<extra_id_0>"]))
        self.refused(65, ["has 1 marks from <extra_id_0> on", "mean_span"], *run, "--set", "data.denoising.mean_span=1")
        for setting, words in (("data.denoising.permute_sentences=true", ["/data/denoising/permute_sentences", "false"]),
                               ("data.denoising.token=2", ["/data/denoising/token", "auto"]),
                               ("data.denoising.decoder_start=99", ["/data/denoising/decoder_start", "vocab_size"]),
                               ("data.pairs={}", ["/data/denoising", "must be null with data.pairs"]),
                               ("data.tokenizer=bytes", ["/data/denoising", "bytes have none"]),
                               ("training.generation={}", ["/training/generation", "needs data.pairs"]),
                               ("model.architecture=gpt2", ["/data/denoising", "needs an encoder-decoder"])):
            with self.subTest(setting):
                self.refused(2, words, *run, "--set", setting)


if __name__ == "__main__":
    unittest.main()
