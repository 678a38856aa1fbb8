# SPDX-License-Identifier: Apache-2.0
"""Pairs of texts as samples, compared with what transformers' tokenizer, collator and models make of the same texts.

pairs_oracle_test.py TOOL"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

TOOL = sys.argv[1]
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "translate", ":", "the", "cat", "sat", "on", "a", "mat", "die", "saß", "auf"]
PAIRS = [("the cat", "die cat"), ("the cat sat on a mat on the mat", "auf"), ("a", "die cat saß auf a mat auf a mat"),
         ("on the mat sat a cat", "auf die mat saß a")]
LENGTH, TARGET_LENGTH = 9, 7


def small_model(family):
    if family == "t5":
        config = transformers.T5Config(vocab_size=len(WORDS), d_model=8, d_kv=4, num_heads=2, d_ff=8, num_layers=1,
                                       decoder_start_token_id=0)
        return transformers.T5ForConditionalGeneration(config)
    config = transformers.BartConfig(vocab_size=len(WORDS), d_model=8, encoder_layers=1, decoder_layers=1,
                                     encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8,
                                     decoder_ffn_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                     decoder_start_token_id=2)
    return transformers.BartForConditionalGeneration(config)


class PairsOracle(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.data = self.folder / "pairs.jsonl"
        self.data.write_text("".join(json.dumps({"source": source, "target": target}) + "\n"
                                     for source, target in PAIRS))

    def tokenizer(self, template):
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
        marks = [(mark, WORDS.index(mark)) for mark in ("<s>", "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
        loaded = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>",
                                                      unk_token="<unk>")
        loaded.save_pretrained(self.folder)
        return loaded

    def ours(self, *more):
        arguments = [self.folder / "tokenizer.json", self.data, LENGTH, TARGET_LENGTH, len(WORDS), *more]
        done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def compare(self, samples, tokenizer, model):
        encoded = [
            tokenizer("translate: " + source, text_target=target, truncation=True, max_length=LENGTH - 1)
            for source, target in PAIRS]
        for one, (_, target) in zip(encoded, PAIRS):
            one["labels"] = tokenizer(target, truncation=True, max_length=TARGET_LENGTH - 1)["input_ids"]
            one.pop("token_type_ids", None)
        collator = transformers.DataCollatorForSeq2Seq(tokenizer, padding="max_length", max_length=LENGTH)
        batch = collator([dict(one) for one in encoded])
        read = model.prepare_decoder_input_ids_from_labels(batch["labels"])
        self.assertEqual(len(samples), len(PAIRS))
        for number, sample in enumerate(samples):
            self.assertEqual(sample["source_ids"], batch["input_ids"][number].tolist())
            length = int(batch["attention_mask"][number].sum())
            labels = [label for label in batch["labels"][number].tolist() if label != -100]
            self.assertEqual(sample["targets"][:len(labels)], labels)
            self.assertEqual(sample["token_ids"][:len(labels)], read[number].tolist()[:len(labels)])
            self.assertEqual(sample["counted_rows"], [1] * len(labels) + [0] * (TARGET_LENGTH - len(labels)))
            self.assertEqual(sample["weight"], len(labels))
            # Padding is in both sequences, a document of its own.
            for starts, rows in zip(sample["starts"], (length, len(labels))):
                self.assertEqual([row for row, begins in enumerate(starts) if begins], [0, rows])

    def test_t5(self):
        tokenizer = self.tokenizer("$A </s>")
        self.compare(self.ours(), tokenizer, small_model("t5"))

    def test_bart_begins_with_the_end_of_texts(self):
        tokenizer = self.tokenizer("<s> $A </s>")
        self.compare(self.ours(WORDS.index("</s>")), tokenizer, small_model("bart"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
