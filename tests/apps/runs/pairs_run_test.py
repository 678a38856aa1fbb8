# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders that learn to translate a ciphered language, as a user trains, evaluates and looks at them."""
import json
import random
import unittest

import ended_texts
from program import TrainingTest

LETTERS = "abcdefgh"
CIPHER = dict(zip(LETTERS, "stuvwxyz", strict=True))
END, PADDING, START = 0, 1, 2


def words(count, seed):
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS, k=draw.randint(3, 5))) for _ in range(count)]


def tokenizer():
    ids = {chr(code): code for code in range(97, 123)} | {"</s>": END, "<pad>": PADDING, "<s>": START}
    return {"model": {"type": "BPE", "vocab": ids, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "added_tokens": [{"id": id, "content": text, "special": True}
                             for text, id in ids.items() if text.startswith("<")],
            "post_processor": ended_texts.post_processor(END)}


class Pairs(TrainingTest):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", json.dumps(tokenizer()))
        self.write("tokenizer_config.json", ended_texts.MARKS)
        for name, count, seed in (("train", 512, 1), ("held-out", 64, 2)):
            self.write_pairs(name, words(count, seed))
        self.write("recipe.json", self.recipe({
            "model": {"architecture": "bart", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 128,
                      "max_sequence_length": 8},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "pairs": {"target_length": 7},
                     "train": [{"path": "train.jsonl"}], "validation": [{"path": "held-out.jsonl"}]},
            "batch": {"global": 32, "micro": 16, "sequence_length": 8},
            "training.steps": 6, "training.evaluate_every": 3, "training.learning_rate.peak": 0.01}))

    def write_pairs(self, name, sources, targets=None):
        rows = [{"source": source, "target": "".join(CIPHER[letter] for letter in target)}
                for source, target in zip(sources, targets or sources, strict=True)]
        self.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def values(self, folder, key):
        return [row[key] for row in self.rows(folder) if key in row]

    def test_layouts_learn_the_same(self):
        for architecture in ("bart", "t5"):
            common = ["--set", f"model.architecture={architecture}"]
            self.train("--run-dir", f"runs/{architecture}", *common)
            one = self.values(f"runs/{architecture}", "loss")
            self.assertEqual(len(one), 6)
            self.assertLess(one[-1], one[0] - 0.1)
            for name, ranks, settings in (("pipeline", 2, ["parallel.pipeline=2"]),
                                          ("four", 4, ["parallel.pipeline=2", "parallel.zero_stage=1"]),
                                          ("data", 2, ["parallel.zero_stage=3"])):
                with self.subTest(f"{architecture}, {name}"):
                    pairs = [part for setting in settings for part in ("--set", setting)]
                    self.train("--run-dir", f"runs/{architecture}-{name}", "--ranks", str(ranks), *common, *pairs)
                    for left, right in zip(one, self.values(f"runs/{architecture}-{name}", "loss"), strict=True):
                        self.assertAlmostEqual(left, right, delta=1e-5 * left)

    def test_a_cipher_is_learned_and_texts_that_do_not_belong_together_are_not(self):
        self.write_pairs("shuffled", words(512, 1), words(512, 3))
        last = {}
        for architecture, rate in (("bart", "0.003"), ("t5", "0.01")):
            for data in ("train", "shuffled"):
                folder = f"runs/{architecture}-{data}"
                settings = {"model.architecture": architecture, "training.steps": 400, "training.evaluate_every": 400,
                            "training.learning_rate.peak": rate,
                            "data.train": json.dumps([{"path": f"{data}.jsonl"}])}
                self.train("--run-dir", folder,
                           *[part for key, value in settings.items() for part in ("--set", f"{key}={value}")])
                last[architecture, data] = self.values(folder, "validation_loss")[-1]
            # One of eight letters is ln 8 = 2.1 where nothing says which.
            self.assertGreater(last[architecture, "shuffled"], 1.5, last)
            self.assertLess(last[architecture, "train"], 0.6, last)

    def test_eval_measures_what_validation_does(self):
        self.train("--run-dir", "runs/one", "--set", "training.label_smoothing=0.2")
        validated = self.values("runs/one", "validation_loss")[-1]
        result = self.run_program("eval", "runs/one", "--data", "held-out.jsonl", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["loss"], validated)

    def test_an_export_names_what_targets_begin_with(self):
        self.train("--run-dir", "runs/one", "--set", f"data.pairs.decoder_start={START}")
        result = self.run_program("checkpoint", "export", "runs/one", "folder", "--to", "hf")
        self.assertEqual(result.returncode, 0, result.stderr)
        config = json.loads((self.folder / "folder/config.json").read_text())
        self.assertEqual([config[key] for key in ("architectures", "decoder_start_token_id", "pad_token_id")],
                         [["BartForConditionalGeneration"], START, PADDING])

    def test_what_it_cannot_do_is_refused(self):
        self.train("--run-dir", "runs/one")
        self.refused(2, ["an encoder-decoder's", "needs a decoder"], "chat", "runs/one")
        for flags, words in ((["--temperature", "1"], ["--temperature 1", "--beams 4"]), (["--stop", "a"], ["--stop"]),
                             (["--samples", "5"], ["--samples 5"])):
            self.refused(2, words, "sample", "runs/one", "--prompt", "abc", "--beams", "4", *flags)
        self.refused(2, ["/data/pairs", "null"], "run", "recipe.json", "--set", "data.pairs=null")
        self.refused(2, ["/parallel/tensor"], "run", "recipe.json", "--ranks", "2", "--set", "parallel.tensor=2")
        self.refused(2, ["/data/pairs", "a model without an encoder"], "run", "recipe.json", "--set",
                     "model.architecture=gpt2", "--set", "model.dropout=0")


if __name__ == "__main__":
    unittest.main()
