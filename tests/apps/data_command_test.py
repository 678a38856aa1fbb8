# SPDX-License-Identifier: Apache-2.0
"""llmtrain data: token files from text, and what a data file holds."""
import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import unittest

from documents import png
from program import PROGRAM, ProgramTest, small
from runs import ended_texts

LINES = [{"text": "ab"}, {"text": ""}, {"text": "cde", "id": 3}]


class Data(ProgramTest):
    def write_lines(self, name="a.jsonl.gz"):
        (self.folder / name).write_bytes(gzip.compress("\n".join(map(json.dumps, LINES)).encode()))

    def tokenize(self, *arguments):
        result = self.run_program("data", "tokenize", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_packed_lines_become_megatrons_pair(self):
        self.write_lines()
        printed = self.tokenize("a.jsonl.gz", "--output", "out")
        self.assertTrue(printed.startswith("out.bin: 5 tokens of 2 documents, uint16, "), printed)
        self.assertEqual((self.folder / "out.bin").read_bytes(), b"a\0b\0c\0d\0e\0")
        shown = json.loads(self.run_program("data", "inspect", "out.bin", "--tokenizer", "bytes", "--json").stdout)
        self.assertEqual(shown, {"file": "out.bin", "format": "Megatron-LM, uint16", "bytes": 10, "documents": 2,
                                 "tokens": 5, "largest_id": 101, "first_tokens": [97, 98, 99, 100, 101],
                                 "first_text": "abcde"})

    def test_pairs_are_shown_and_not_run_without_an_encoder(self):
        bytes_and_marks = {chr(code): code for code in range(97, 123)} | {"</s>": 0, "<pad>": 1, "Ġ": 2}
        tokenizer = {
            "model": {"type": "BPE", "vocab": bytes_and_marks, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "added_tokens": [{"id": id, "content": text, "special": True} for id, text in ((0, "</s>"), (1, "<pad>"))],
            "post_processor": ended_texts.post_processor(0)}
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (self.folder / "tokenizer_config.json").write_text(ended_texts.MARKS)
        (self.folder / "pairs.csv").write_text("source,target\nab cd,xyz\n,q\nabcdefghijklmnop,u\n")
        recipe = small()
        recipe["model"].update(vocab_size=128, dropout=0)
        recipe["batch"]["sequence_length"] = 12
        recipe["data"] = {"tokenizer": {"huggingface": "tokenizer.json"}, "pairs": {"target_length": 6},
                          "train": [{"path": "pairs.csv"}], "shuffle": False}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        result = self.run_program("data", "inspect", "recipe.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in ("1 document without words was left out",
                     "1 document of two texts was truncated to batch.sequence_length (12) and data.pairs.target_length",
                     "sample 0: 2 documents, 10 tokens, 4 count in the loss, 8 of padding", "- source, 6 tokens",
                     "- target, 4 tokens", "⟦xyz"):
            self.assertIn(line, result.stdout)
        shown = json.loads(self.run_program("data", "inspect", "recipe.json", "--json").stdout)
        self.assertEqual([[(document["name"], document["tokens"], document["counted"]) for document in
                           sample["documents"]] for sample in shown["samples"]],
                         [[("source", 6, 0), ("target", 4, 4)], [("source", 11, 0), ("target", 2, 2)]])
        self.assertEqual(self.run_program("validate", "recipe.json").returncode, 0)
        refused = self.run_program("run", "recipe.json")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("/data/pairs: pairs for a model without an encoder can be planned but not run yet", refused.stderr)

    def test_text_is_described_without_a_tokenizer(self):
        self.write_lines()
        shown = self.run_program("data", "inspect", "a.jsonl.gz").stdout
        self.assertEqual([line.split(None, 1) for line in shown.splitlines()][1:],
                         [["format", "JSON Lines, gzip"], ["size", shown.splitlines()[2].split(None, 1)[1]],
                          ["documents", "3"], ["text", "ab"]])

    def test_a_trained_tokenizer_makes_tokens(self):
        self.write("a.txt", "low low low lower")
        train = ("data", "train-tokenizer", "a.txt", "--vocab-size", "300", "--output", "t.json")
        printed = self.run_program(*train).stdout
        self.assertTrue(printed.startswith("t.json: 260 tokens, 3 merges, from 17 B of text with 3 different"), printed)
        self.tokenize("a.txt", "--tokenizer", "t.json", "--output", "out")
        shown = json.loads(self.run_program("data", "inspect", "out.bin", "--tokenizer", "t.json", "--json").stdout)
        self.assertEqual((shown["first_text"], shown["largest_id"]), ("low low low lower<|endoftext|>", 259))
        self.refused(73, ["t.json", "exists already"], *train)
        special = ("--special", "<pad>", "--special", "<end>", "a.txt")
        self.assertEqual(self.run_program(*train[:2], *special, *train[3:-1], "s.json").returncode, 0)
        added = json.loads((self.folder / "s.json").read_text())["added_tokens"]
        self.assertEqual([(token["id"], token["content"]) for token in added], [(0, "<pad>"), (1, "<end>")])
        self.refused(2, ["--vocab-size", "at least 257"], *train[:4], "9", "--output", "u.json")
        (self.folder / "latin.txt").write_bytes(b"\xe9t\xe9")
        self.refused(65, ["latin.txt", "not UTF-8"], *train[:2], "latin.txt", *train[3:5], "--output", "u.json")

    def test_a_trained_model_makes_tokens(self):
        self.write("a.txt", "low low low lower\n" * 50 + "newest widest of  all " * 300 + "\n")  # the last line is long
        train = ("data", "train-tokenizer", "a.txt", "--kind", "sentencepiece", "--vocab-size")
        for algorithm in ("bpe", "unigram"):
            with self.subTest(algorithm):
                file = f"{algorithm}.model"
                made = self.run_program(*train, "275", "--algorithm", algorithm, "--special", "<|end|>", "--output", file)
                self.assertTrue(made.stdout.startswith(f"{file}: 275 tokens, from 7.33 KiB of text"), made)
                self.assertEqual(made.stderr, "")
                again = self.run_program(*train, "275", "--algorithm", algorithm, "--special", "<|end|>", "--output", "b")
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertEqual((self.folder / file).read_bytes(), (self.folder / "b").read_bytes())
                (self.folder / "b").unlink()
                self.write("b.txt", "low  lower\n\u00e9<|end|>")
                self.tokenize("b.txt", "--tokenizer", file, "--output", algorithm)
                shown = json.loads(self.run_program("data", "inspect", f"{algorithm}.bin", "--tokenizer", file,
                                                    "--json").stdout)
                self.assertEqual(shown["first_text"], "low  lower\n\u00e9<|end|>")
                self.assertIn(3, shown["first_tokens"])

    def test_what_the_library_reserves_becomes_bytes(self):
        text = "low\u2585low\tlow\tlower\n" * 50
        self.write("a.txt", text)
        for algorithm in ("bpe", "unigram"):
            with self.subTest(algorithm):
                file = f"{algorithm}.model"
                made = self.run_program("data", "train-tokenizer", "a.txt", "--kind", "sentencepiece", "--vocab-size",
                                        "267", "--algorithm", algorithm, "--output", file)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.tokenize("a.txt", "--tokenizer", file, "--output", algorithm)
                shown = json.loads(self.run_program("data", "inspect", f"{algorithm}.bin", "--tokenizer", file,
                                                    "--tokens", "9999", "--json").stdout)
                self.assertEqual(shown["first_text"], text)
                # The ids of bytes follow those of <unk>, <s> and </s>.
                byte = [3 + value for value in range(256)]
                tokens = shown["first_tokens"]
                begin = tokens.index(byte[ord("\n")]) + 1
                low = tokens[begin]
                self.assertGreater(low, byte[-1])
                mark, tab = [byte[value] for value in "\u2585".encode()], byte[ord("\t")]
                line = [low, *mark, low, tab, low, tab, low]
                self.assertEqual(tokens[begin:begin + len(line)], line)

    def test_models_that_cannot_be_trained(self):
        self.write("a.txt", "low low low lower\n" * 50)
        self.write("empty.txt", "")
        (self.folder / "latin.txt").write_bytes(b"\xe9t\xe9")
        model = ("--kind", "sentencepiece", "--output", "t.model")
        for code, words, arguments in (
                (2, ["--vocab-size", "9000 is too large", "at most 2"], ("a.txt", "--vocab-size", "9000", *model)),
                (2, ["--vocab-size", "260 is too small", "265"], ("a.txt", "--vocab-size", "260", *model)),
                (2, ["--vocab-size", "from 259"], ("a.txt", "--vocab-size", "258", *model)),
                (2, ["--special", "<0x41>"], ("a.txt", "--vocab-size", "280", "--special", "<0x41>", *model)),
                (2, ["--min-frequency", "huggingface"], ("a.txt", "--vocab-size", "280", "--min-frequency", "3", *model)),
                (2, ["--algorithm", "sentencepiece"],
                 ("a.txt", "--vocab-size", "280", "--algorithm", "unigram", "--output", "t.model")),
                (65, ["empty.txt", "no text"], ("empty.txt", "--vocab-size", "280", *model)),
                (65, ["latin.txt", "not UTF-8"], ("latin.txt", "--vocab-size", "280", *model))):
            with self.subTest(arguments):
                self.refused(code, words, "data", "train-tokenizer", *arguments)
                self.assertFalse((self.folder / "t.model").exists())

    def test_other_formats(self):
        self.write("a.txt", "ab")
        self.tokenize("a.txt", "--output", "nano.bin", "--format", "nanogpt")
        self.assertEqual((self.folder / "nano.bin").read_bytes(), b"a\0b\0")
        self.tokenize("a.txt", "--output", "c", "--format", "llm.c", "--threads", "2")
        self.assertEqual((self.folder / "c.bin").read_bytes()[1024:], b"a\0b\0")
        self.assertFalse((self.folder / "c.idx").exists())

    def test_damaged_and_missing_inputs(self):
        self.write_lines()
        packed = (self.folder / "a.jsonl.gz").read_bytes()
        (self.folder / "cut.jsonl.gz").write_bytes(packed[:-10])
        (self.folder / "short.bin").write_bytes(b"abc")
        self.write("bad.jsonl", '{"text": "a"}\n{"text": 3}')
        self.write("empty.txt", "")
        self.write("t.json", "{}")
        self.write("t.model", "no model")
        output = ("--output", "out")
        for code, parts, arguments in [
                (65, ["cut.jsonl.gz", "cut short"], ["tokenize", "cut.jsonl.gz", *output]),
                (65, ["bad.jsonl", "line 2"], ["tokenize", "bad.jsonl", *output]),
                (65, ["empty.txt", "no text"], ["tokenize", "empty.txt", *output]),
                (65, ["t.json", '"model"'], ["tokenize", "bad.jsonl", "--tokenizer", "t.json", *output]),
                (65, ["t.model", "SentencePiece"], ["tokenize", "bad.jsonl", "--tokenizer", "t.model", *output]),
                (66, ["no.txt"], ["tokenize", "no.txt", *output]),
                (66, ["no.json"], ["tokenize", "bad.jsonl", "--tokenizer", "no.json", *output]),
                (2, ["--tokenizer", "gpt2"], ["tokenize", "bad.jsonl", "--tokenizer", "gpt2", *output]),
                (73, ["nowhere/out.bin"], ["tokenize", "a.jsonl.gz", "--output", "nowhere/out"]),
                (65, ["short.bin", "odd"], ["inspect", "short.bin"]),
                (66, ["no.bin"], ["inspect", "no.bin"])]:
            with self.subTest(arguments):
                self.refused(code, parts, "data", *arguments)
        self.tokenize("a.jsonl.gz", *output)
        self.refused(73, ["out.bin", "exists already"], "data", "tokenize", "a.jsonl.gz", *output)

    def test_tables_are_read_as_python_writes_them(self):
        """Cells of quotation marks, delimiters, line ends and letters, in each of csv's styles."""
        draw = random.Random(5)
        for name, delimiter in (("a.csv", ","), ("a.tsv.gz", "\t")):
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
                for end in ("\n", "\r\n"):
                    cells = ["".join(draw.choice('"",,\n\t \u00e9ab') for _ in range(draw.randrange(1, 9)))
                             for _ in range(300)]
                    written = io.StringIO(newline="")
                    writer = csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=end)
                    writer.writerows([["id", "text"], *enumerate(cells)])
                    content = written.getvalue().encode()
                    (self.folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
                    output = f"{delimiter == ','}{quoting}{len(end)}"
                    self.assertIn(" of 300 documents", self.tokenize(name, "--output", output, "--format", "nanogpt"))
                    self.assertEqual((self.folder / f"{output}.bin").read_bytes()[::2], "".join(cells).encode())

    def test_tables_hold_conversations(self):
        written = io.StringIO(newline="")
        writer = csv.writer(written)
        writer.writerow(["messages", "tools"])
        writer.writerows([[json.dumps(line["messages"]), ""] for line in self.CHAT if "messages" in line])
        self.write_chat_recipe()
        self.write("chat.csv", written.getvalue())
        shown = json.loads(self.run_program("data", "inspect", "recipe.json", "--set", "data.train.0.path=chat.csv",
                                            "--json").stdout)
        document = shown["samples"][0]["documents"][0]
        self.assertEqual([(part["text"], part["counts"]) for part in document["parts"]], self.FIRST)
        self.assertEqual(shown["sources"][0]["no_answer"], 1)

    @unittest.skipIf(os.environ.get("LLMTRAIN_SANITIZE"), "a sanitizer keeps what has been freed")
    def test_memory_does_not_grow_with_the_file(self):
        """Rows of JSON Lines and of a table are tokenised while they are read."""
        peaks = {}
        for name, row in (("a.jsonl", b'{"text": "%s"}\n'), ("a.csv", b'"%s"\n')):
            for rows in (4, 48):
                head = b"text\n" if name == "a.csv" else b""
                with gzip.open(self.folder / f"{name}.gz", "wb", 1) as file:
                    file.write(head + (row % (b"word " * 200_000)) * rows)  # a megabyte each
                code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
                command = (sys.executable, "-c", code, PROGRAM, "data", "tokenize", f"{name}.gz", "--threads", "1",
                           "--output", f"{name}{rows}")
                printed = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout
                peaks[rows] = int(printed.split()[-1]) << 10
            # 44 MB more of text, and twice as many bytes of tokens.
            self.assertLess(peaks[48] - peaks[4], 16 << 20)

    CHAT = [{"messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yes."},
                          {"role": "user", "content": "So?"}, {"role": "assistant", "content": "No.", "weight": 0}]},
            {"conversations": [{"from": "human", "value": "\u00e9"}, {"from": "gpt", "value": "\u00e8 [31m"}]},
            {"messages": [{"role": "user", "content": "alone"}]}, "a text"]

    def write_chat_recipe(self, **fine_tuning):
        self.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in self.CHAT))
        self.write("recipe.json", small({"data.train": [{"path": "chat.jsonl"}], "data.shuffle": False,
                                         "data.on_bad_line": "skip", "model.max_sequence_length": 256,
                                         "data.fine_tuning": {"template": "chatml", **fine_tuning}}))

    # ChatML as Qwen writes it: the line end behind an answer does not count.
    FIRST = [("<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\n", False), ("Yes.<|im_end|>", True),
             ("\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\nNo.<|im_end|>", False)]
    SECOND = [("<|im_start|>user\n\u00e9<|im_end|>\n<|im_start|>assistant\n", False),
              ("\u00e8 [31m<|im_end|>", True)]

    def test_a_recipes_conversations_are_shown_as_they_train(self):
        for packing in (True, False):
            with self.subTest(packing=packing):
                self.write_chat_recipe(packing=packing)
                shown = json.loads(self.run_program("data", "inspect", "recipe.json", "--json").stdout)
                source = shown["sources"][0]
                self.assertEqual({key: source[key] for key in ("files", "documents", "truncated", "too_long", "no_answer")},
                                 {"files": 1, "documents": 2, "truncated": 0, "too_long": 0, "no_answer": 1})
                self.assertEqual(source["bad_lines"]["count"], 1)
                self.assertEqual(source["samples"], 1 if packing else 2)
                documents = [document for sample in shown["samples"] for document in sample["documents"]]
                parts = [[(part["text"], part["counts"]) for part in document["parts"]] for document in documents]
                self.assertEqual(parts, [self.FIRST, self.SECOND])
                self.assertEqual([document["counted"] for document in documents], [len("Yes.<|im_end|>"), 7 + 10])
                # Bytes are tokens. The line end behind a document is its last target, and takes no row.
                rows = sum(document["tokens"] for document in documents)
                self.assertEqual(sum(sample["padding"] for sample in shown["samples"]), source["samples"] * 256 - rows)

    def test_what_counts_is_marked_without_colours(self):
        self.write_chat_recipe()
        shown = self.run_program("data", "inspect", "recipe.json").stdout
        text = "".join(f"\u27e6{part}\u27e7" if counts else part for part, counts in self.FIRST)
        self.assertIn(text + "\n", shown)
        self.assertIn("1 document without a token that counts in the loss was left out", shown)
        self.assertIn('1 line was skipped (data.on_bad_line): "is not a JSON object", first in ', shown)
        self.assertNotIn("\x1b", shown)

    def test_a_recipes_text_is_shown_by_documents(self):
        self.write("a.txt", "abcdXefghXijkl")
        mask = {"document_mask": {"end_of_text": ord("X")}}
        for data, expected in (({}, [["abcdXefghXij"]]), (mask, [["abcdX", "efghX", "ij"]])):
            with self.subTest(data):
                self.write("recipe.json", small({"model.max_sequence_length": 12, "batch.sequence_length": 12,
                                                 "data": {"train": [{"path": "a.txt"}], "shuffle": False, **data}}))
                shown = json.loads(self.run_program("data", "inspect", "recipe.json", "--json").stdout)
                self.assertEqual([["".join(part["text"] for part in document["parts"]) for document in
                                   sample["documents"]] for sample in shown["samples"]], expected)

    def test_images_of_classes(self):
        for name, colours in (("cat/a.png", [(0, 51, 255), (255, 51, 0)]), ("dog/deep/b.PNG", [(0, 51, 0)] * 6)):
            file = self.folder / "images" / name
            file.parent.mkdir(parents=True)
            file.write_bytes(png(len(colours), colours))
        shown = json.loads(self.run_program("data", "inspect", "images", "--json").stdout)
        self.assertEqual({key: shown[key] for key in ("images", "classes", "smallest", "largest")},
                         {"images": 2, "classes": [{"name": "cat", "images": 1}, {"name": "dog", "images": 1}],
                          "smallest": {"height": 1, "width": 2}, "largest": {"height": 1, "width": 6}})
        # Each pixel counts, whatever the image: one of eight is red, and one blue.
        for mean, deviation, expected in zip(shown["mean"], shown["deviation"], (1 / 8, 1 / 5, 1 / 8)):
            self.assertAlmostEqual(mean, expected)
            self.assertAlmostEqual(deviation, 0 if expected == 1 / 5 else (1 / 8 - 1 / 64) ** 0.5)
        text = self.run_program("data", "inspect", "images").stdout
        self.assertEqual(text.splitlines()[-3:], ["classes    2", "  1  cat", "  1  dog"])
        self.refused(2, ["--tokens", "data files"], "data", "inspect", "images", "--tokens", "3")
        self.refused(2, ["--set", "recipes"], "data", "inspect", "images", "--set", "seed=1")
        (self.folder / "images/cat/c.jpg").write_text("no image")
        (self.folder / "images/dog/d.png").write_bytes(png(1, [(0, 0, 0)])[:-20])
        self.refused(65, ["2 of 4 files cannot be read", "cat/c.jpg: it is neither", "dog/d.png: a damaged PNG"],
                     "data", "inspect", "images")
        (self.folder / "images/none").mkdir()
        self.refused(65, ["images/none: a class without images"], "data", "inspect", "images")
        self.refused(65, ["images/none: it has no folders"], "data", "inspect", "images/none")

    def test_flags_of_inspect_are_for_one_kind_of_file(self):
        self.write_chat_recipe()
        self.write("a.txt", "abc")
        for flags in (("--tokenizer", "bytes"), ("--tokens", "3"), ("--on-bad-line", "skip")):
            self.refused(2, [flags[0], "data files"], "data", "inspect", "recipe.json", *flags)
        for flags in (("--samples", "3"), ("--validation",), ("--set", "seed=1")):
            self.refused(2, [flags[0], "recipes"], "data", "inspect", "a.txt", *flags)
        self.refused(2, ["/data/validation", "no data"], "data", "inspect", "recipe.json", "--validation")

    def test_a_tokenizer_larger_than_the_model(self):
        vocabulary = {chr(0x100 + i): i for i in range(300)}
        self.write("tokenizer.json", json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": []},
                                                 "pre_tokenizer": {"type": "ByteLevel"}}))
        self.write("a.txt", "text")
        self.write("recipe.json", small({"data.train": [{"path": "a.txt"}],
                                         "data.tokenizer": {"huggingface": "tokenizer.json"}}))
        self.refused(65, ["tokenizer.json", "up to 299", "model.vocab_size is 256", "300 or more"], "run",
                     "recipe.json")


if __name__ == "__main__":
    unittest.main()
