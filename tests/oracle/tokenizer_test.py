# SPDX-License-Identifier: Apache-2.0
"""Ids and texts of tokenizers compared with the programs that own the files: Hugging Face's `tokenizers` and
SentencePiece. The tokenizers are small ones that are trained here.

LLMTRAIN_TOKENIZER_STRINGS=100000 compares that many strings instead of 3,000."""
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

try:
    import numpy
    import sentencepiece
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as error:
    print(f"skipped: {error}; run scripts/setup --tests", file=sys.stderr)
    sys.exit(77)

import byte_level_bpe
from byte_level_bpe import LLAMA3, QWEN2

PROGRAM = os.environ["LLMTRAIN_PROGRAM"]
STRINGS = int(os.environ.get("LLMTRAIN_TOKENIZER_STRINGS", "3000"))

# Ranges of characters that make a string, from ASCII to what Unicode 16 added, and all.
BLOCKS = [(0x20, 0x7F), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0x10FF),
          (0x1100, 0x11FF), (0x1C80, 0x1CFF), (0x1E00, 0x20FF), (0x2100, 0x2BFF), (0x3000, 0x33FF), (0x4E00, 0x9FFF),
          (0xA7C0, 0xA7FF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x10000, 0x11FFF), (0x1D000, 0x1D7FF),
          (0x1F000, 0x1FAFF), (0x31350, 0x323AF), (0, 0x10FFFF)]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\n\n", "   \n", "\u00a0", "\u3000", "\u180e", "\u0085", "\u2028", "\x1c",
          "\ufeff"]
WORDS = ["'s", "'S", "'\u017f", "'re", "'LL", "don't", "123", "45678", "x=1;", "<|endoftext|>", "<|", "e\u0301",
         "e\u0302\u0323", "\u1100\u1161\u11a8", "소\u11a7", "\u2126", "A\u030a", "가각", "n\u0303", "the quick brown fox",
         "<tag> x"]


def character(block):
    while 0xD800 <= (code := random.randint(*block)) <= 0xDFFF:
        pass
    return chr(code)


def random_string():
    parts = []
    for _ in range(random.randint(1, 12)):
        kind = random.random()
        if kind < 0.5:
            block = random.choice(BLOCKS)
            parts.append("".join(character(block) for _ in range(random.randint(1, 10))))
        else:
            parts.append(random.choice(WORDS) if kind < 0.75 else random.choice(SPACES) * random.choice((1, 1, 2, 5)))
    return "".join(parts)


def source_text():
    root = Path(__file__).resolve().parents[2]
    return [path.read_text(encoding="utf-8") for path in sorted([*root.glob("docs/*.md"), *root.glob("core/**/*.cpp")])]


def trained(pattern, **model):
    return byte_level_bpe.train(source_text() + [random_string() for _ in range(1000)], pattern, 3000, **model)


class Tokenizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        random.seed(4)
        cls.folder_owner = tempfile.TemporaryDirectory(prefix="llmtrain-tokenizer-")
        cls.addClassCleanup(cls.folder_owner.cleanup)
        cls.folder = Path(cls.folder_owner.name)
        cls.strings = [random_string() for _ in range(STRINGS)]
        cls.lines = cls.folder / "strings.jsonl.gz"
        with gzip.open(cls.lines, "wt", encoding="utf-8", compresslevel=1) as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in cls.strings)

    def run_program(self, *arguments):
        result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def documents(self, tokenizer, name):
        """The ids of each string as `data tokenize` writes them, read by Megatron-LM's layout."""
        prefix = self.folder / name
        self.run_program("data", "tokenize", self.lines, "--tokenizer", tokenizer, "--output", prefix)
        index = prefix.with_suffix(".idx").read_bytes()
        self.assertEqual(index[:18], b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x08")
        count = int.from_bytes(index[18:26], "little")
        lengths = numpy.frombuffer(index, numpy.int32, count, 34)
        tokens = numpy.fromfile(prefix.with_suffix(".bin"), numpy.uint16)
        return [part.tolist() for part in numpy.split(tokens, numpy.cumsum(lengths)[:-1])]

    def compare(self, tokenizer, name, end, add_special_tokens=False):
        file = self.folder / f"{name}.json"
        tokenizer.save(str(file))
        expected = [encoding.ids + [end] for encoding in
                    tokenizer.encode_batch_fast(self.strings, add_special_tokens=add_special_tokens)]
        for text, ours, theirs in zip(self.strings, self.documents(file, name), expected, strict=True):
            self.assertEqual(ours, theirs, repr(text))
        shown = json.loads(self.run_program("data", "inspect", self.folder / f"{name}.bin", "--tokenizer", file,
                                            "--tokens", 4000, "--json"))
        first = sum(expected, [])[:4000] if len(expected) < 5000 else shown["first_tokens"]
        self.assertEqual(shown["first_tokens"], first)
        self.assertEqual(shown["first_text"], tokenizer.decode(first, skip_special_tokens=False))
        self.assertEqual(shown["documents"], len(self.strings))

    def test_gpt2(self):
        self.compare(trained(None), "gpt2", 0)

    def test_llama3(self):
        tokenizer = trained(LLAMA3, ignore_merges=True)
        tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A",
                                                                 special_tokens=[("<|endoftext|>", 0)])
        self.compare(tokenizer, "llama3", 0, add_special_tokens=True)

    def test_qwen2(self):
        tokenizer = trained(QWEN2)
        tokenizer.normalizer = normalizers.NFC()
        # One that takes the space beside it, and one that is found in normalized text.
        tokenizer.add_tokens([AddedToken("x=1", lstrip=True, rstrip=True), AddedToken("\u1ec7", normalized=True)])
        self.compare(tokenizer, "qwen2", 0)

    def test_digits_and_a_space_before(self):
        tokenizer = trained(None)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=True)])
        self.compare(tokenizer, "digits", 0)

    def sentencepiece_model(self, kind):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in source_text() for line in text.splitlines()), model_writer=model,
            vocab_size=1000, model_type=kind, byte_fallback=True, minloglevel=2, character_coverage=0.999)
        file = self.folder / f"{kind}.model"
        file.write_bytes(model.getvalue())
        return file

    def compare_model(self, file, may_tie=0):
        """With the package's ids, but for the share of strings that may have ties; returns what the package reads."""
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
        expected = [[1, *ids, 2] for ids in model.encode(self.strings)]
        ties = 0
        for text, ours, theirs in zip(self.strings, self.documents(file, file.stem), expected, strict=True):
            if ours == theirs:
                continue
            # Two and three spaces, or three and two: versions of the library choose differently between equal sums.
            ties += 1
            self.assertEqual(sorted(ours), sorted(theirs), repr(text))
            self.assertEqual(model.decode(ours), model.decode(theirs), repr(text))
        self.assertLessEqual(ties, may_tie * len(self.strings))
        shown = json.loads(self.run_program("data", "inspect", file.with_suffix(".bin"), "--tokenizer", file,
                                            "--tokens", 300, "--json"))
        self.assertEqual(shown["first_text"], model.decode(shown["first_tokens"]))
        return model

    def test_sentencepiece(self):
        for kind in ("bpe", "unigram"):
            with self.subTest(kind):
                # bpe has no sums that could be equal.
                self.compare_model(self.sentencepiece_model(kind), may_tie=0.01 if kind == "unigram" else 0)

    def test_trained_models(self):
        """The package reads them, gives the ids that we give, and by itself finds pieces that are as good and mostly the
        same: its version orders equally good ones otherwise than the library, and later ones follow from those."""
        texts = self.folder / "texts.jsonl"
        documents = source_text()[:60]
        texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
        for algorithm in ("bpe", "unigram"):
            with self.subTest(algorithm):
                file = self.folder / f"ours-{algorithm}.model"
                self.run_program("data", "train-tokenizer", texts, "--kind", "sentencepiece", "--algorithm", algorithm,
                                 "--vocab-size", 1500, "--special", "<|im_start|>", "--special", 'a,"b', "--output", file)
                model = self.compare_model(file, may_tie=0.2 if algorithm == "unigram" else 0)
                pieces = [model.id_to_piece(number) for number in range(len(model))]
                self.assertEqual(pieces[:6], ["<unk>", "<s>", "</s>", "<|im_start|>", 'a,"b', "<0x00>"])
                self.assertEqual(len(pieces), 1500)
                # Nothing is normalized, and what has no piece is bytes.
                text = "one  two \u00c5\u2126\n\tthree   \U0001f600 a,\"b"
                self.assertEqual(model.decode(model.encode(text)), text)
                self.assertNotIn(0, model.encode(text))
                theirs = io.BytesIO()
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(line for text in documents for line in text.splitlines() if line),
                    model_writer=theirs, vocab_size=1500, model_type=algorithm, byte_fallback=True, minloglevel=2,
                    normalization_rule_name="identity", remove_extra_whitespaces=False,
                    allow_whitespace_only_pieces=True, user_defined_symbols=["<|im_start|>", 'a,"b'])
                theirs = sentencepiece.SentencePieceProcessor(model_proto=theirs.getvalue())
                shared = set(pieces) & {theirs.id_to_piece(number) for number in range(len(theirs))}
                self.assertGreaterEqual(len(shared), 0.9 * 1500)
                # Pieces are chosen so that the texts come to few of them. The package learns none that holds a line's end.
                ours, expected = (sum(len(ids) for ids in each.encode(documents)) for each in (model, theirs))
                # Either may take the better ones of equally good pieces, by how the texts fall.
                self.assertLessEqual(ours, 1.005 * expected)

    def test_trained_vocabulary(self):
        """The merges and ids that the package finds in the same texts."""
        file = self.folder / "vocabulary.json"
        self.run_program("data", "train-tokenizer", self.lines, "--vocab-size", 1200, "--output", file)
        theirs = Tokenizer(models.BPE())
        theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        theirs.train_from_iterator(self.strings, trainers.BpeTrainer(
            vocab_size=1200, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        ours, expected = json.loads(file.read_text(encoding="utf-8"))["model"], json.loads(theirs.to_str())["model"]
        self.assertEqual(ours["merges"], expected["merges"])
        self.assertEqual(ours["vocab"], expected["vocab"])
        theirs.decoder = decoders.ByteLevel()
        text = "".join(self.strings[:200])
        self.assertEqual(Tokenizer.from_file(str(file)).encode(text).ids, theirs.encode(text).ids)

    def test_training_evaluating_sampling_and_exporting(self):
        tokenizer = trained(LLAMA3)
        (self.folder / "run").mkdir()
        file = self.folder / "run" / "tokenizer.json"
        tokenizer.save(str(file))
        text = "\n".join(source_text())[:20000]
        (self.folder / "run" / "text.md").write_text(text)
        recipe = {"name": "words",
                  "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "train": [{"path": "text.md"}]},
                  "model": {"architecture": "gpt2", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 3000,
                            "max_sequence_length": 32},
                  "batch": {"global": 2, "micro": 2}, "training": {"steps": 2}, "checkpoint": {"every": 2},
                  "log": {"directory": str(self.folder / "words"), "tensorboard": False}}
        (self.folder / "run" / "recipe.json").write_text(json.dumps(recipe))
        self.run_program("run", self.folder / "run" / "recipe.json", "--quiet")
        result = json.loads(self.run_program("eval", self.folder / "words", "--json"))
        ids = tokenizer.encode(text).ids
        self.assertEqual((result["tokens"], result["bytes"]), (len(ids), len(text.encode())))
        packed = json.loads(self.run_program("eval", self.folder / "words", "--packed", "--json"))
        # Whole samples of 32 tokens, of the text and its end-of-text token but for the last, which is a target alone.
        self.assertEqual(packed["tokens"], len(ids) // 32 * 32)
        written = self.run_program("sample", self.folder / "words", "--prompt", "The model é", "--tokens", 5)
        self.assertTrue(written.startswith("The model é"), written)
        self.run_program("checkpoint", "export", self.folder / "words", self.folder / "exported", "--to", "hf")
        exported = transformers.AutoTokenizer.from_pretrained(self.folder / "exported")
        self.assertEqual(exported.encode(text, add_special_tokens=False), ids)
        self.assertEqual(exported.eos_token, "<|endoftext|>")

    def losses(self, recipe, data, name):
        """Losses of a run with two processes on this data, and what it says on standard error."""
        path = self.folder / "shared" / f"{name}.json"
        path.write_text(json.dumps({**recipe, "data": {**recipe["data"], "train": [{"path": data}]},
                                    "log": {"directory": str(self.folder / "shared" / name), "tensorboard": False}}))
        shown = subprocess.run([PROGRAM, "run", path], capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        rows = (self.folder / "shared" / name / "metrics.jsonl").read_text().splitlines()
        return shown.stderr, [json.loads(row)["loss"] for row in rows]

    def test_text_is_tokenised_once_for_all_ranks_and_starts(self):
        folder = self.folder / "shared"
        folder.mkdir()
        trained(LLAMA3).save(str(folder / "tokenizer.json"))
        lines = [{"text": text} for text in self.strings[:200]] + [{"text": ""}]
        (folder / "text.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.run_program("data", "tokenize", folder / "text.jsonl", "--tokenizer", folder / "tokenizer.json",
                         "--output", folder / "tokens")
        recipe = {"name": "shared", "data": {"tokenizer": {"huggingface": "tokenizer.json"}},
                  "model": {"architecture": "gpt2", "layers": 1, "hidden_size": 16, "heads": 2, "vocab_size": 3000,
                            "max_sequence_length": 32},
                  "batch": {"global": 4, "micro": 2}, "training": {"steps": 3}, "cluster": {"device": "cpu"},
                  "launch": {"ranks": 2, "backend": "mpi"}}
        _, expected = self.losses(recipe, "tokens.bin", "tokens")
        shown, losses = self.losses(recipe, "text.jsonl", "text")
        self.assertEqual(losses, expected)
        self.assertEqual(shown.count("made of"), 1, shown)
        # A later start finds it.
        recipe["training"]["steps"] = 4
        shown, losses = self.losses(recipe, "text.jsonl", "text")
        self.assertEqual(losses[:3], expected)
        self.assertNotIn("made of", shown)
        (made,) = (folder / "text" / "data-cache").glob("*.bin")
        self.assertEqual(made.read_bytes(), (folder / "tokens.bin").read_bytes())


if __name__ == "__main__":
    unittest.main()
