# SPDX-License-Identifier: Apache-2.0
"""Parquet and Arrow files are read as pyarrow reads them: tables_oracle_test.py TABLE_TOOL PROGRAM."""
import datetime
import decimal
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL, PROGRAM = sys.argv[1:3]
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string()), ("weight", pa.int8())]))


def random_table(draw, rows):
    def text():
        return None if draw.random() < 0.1 else "".join(draw.choice("ab \n\"\\\u00e9\u4e2d\U0001f600\0") for _ in range(draw.randrange(12)))

    def messages():
        return [{"role": draw.choice(["user", "assistant"]), "content": text(), "weight": draw.choice([0, 1, None])}
                for _ in range(draw.randrange(4))]

    names = draw.choices(["red", "green"], k=rows)
    return pa.table({
        "text": pa.array([text() for _ in range(rows)]),
        "messages": pa.array([None if draw.random() < 0.1 else messages() for _ in range(rows)], MESSAGES),
        "view": pa.array([text() for _ in range(rows)], pa.string_view()),
        "name": pa.array(names).dictionary_encode(),
        "nested": pa.array([[[draw.randrange(9)] * draw.randrange(3)] * draw.randrange(3) for _ in range(rows)],
                           pa.list_(pa.list_(pa.int32()))),
        "pair": pa.array([[1.5, draw.random()] for _ in range(rows)], pa.list_(pa.float64(), 2)),
        "map": pa.array([[("a", draw.randrange(9))] * draw.randrange(2) for _ in range(rows)],
                        pa.map_(pa.string(), pa.int64())),
        "large": pa.array([2**64 - 1 - draw.randrange(9) for _ in range(rows)], pa.uint64()),
        "small": pa.array([draw.randrange(-128, 128) for _ in range(rows)], pa.int8()),
        "single": pa.array([draw.random() for _ in range(rows)], pa.float32()),
        "yes": pa.array([draw.choice([True, False, None]) for _ in range(rows)]),
        "nothing": pa.nulls(rows),
        "bytes": pa.array([draw.choice([b"abc", b"\xff\xd8"]) for _ in range(rows)]),
        "nan": pa.array([draw.choice([math.nan, math.inf, 2.0]) for _ in range(rows)]),
        "day": pa.array([datetime.date(2024, 2, 29)] * rows), "sum": pa.array([decimal.Decimal("1.50")] * rows)})


def expected(value):
    """pyarrow's value as JSON has it."""
    if isinstance(value, dict):
        return {key: expected(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [expected(each) for each in value]
    if isinstance(value, bytes):
        return None if value == b"\xff\xd8" else value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, (datetime.date, decimal.Decimal)) else value


def write_stream(table, path, rows=7):
    """As datasets' save_to_disk does."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


class Tables(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def rows_of(self, path, skipped=0):
        printed = subprocess.run([TOOL, path, str(skipped)], capture_output=True, text=True, check=True).stdout
        pairs = [line.split(" ", 1) for line in printed.split("\n")[:-1]]
        return [(int(number), json.loads(row)) for number, row in pairs]

    def llmtrain(self, *arguments, code=0):
        result = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout if code == 0 else result.stderr

    def test_rows_are_those_that_pyarrow_reads(self):
        table = random_table(random.Random(4), 50)
        rows = list(enumerate((expected(row) for row in table.to_pylist()), 1))
        files = {}
        for name, options in (("a.parquet", {}), ("b.parquet", {"row_group_size": 9, "compression": "zstd"}),
                              ("c.parquet", {"data_page_size": 64, "compression": "gzip", "version": "1.0"})):
            files[name] = lambda path, options=options: pa.parquet.write_table(table, path, **options)
        files["a.arrow"] = lambda path: write_stream(table, path)
        files["a.feather"] = lambda path: pa.feather.write_feather(table, str(path), "lz4", chunksize=11)
        for name, write in files.items():
            with self.subTest(name):
                path = self.folder / name
                write(path)
                self.assertEqual(self.rows_of(path), rows)
                for skipped in (1, 9, 30, 50):
                    self.assertEqual(self.rows_of(path, skipped), rows[skipped:])

    def test_documents_and_conversations_are_those_of_json_lines(self):
        texts = [{"text": f"document {i}\n"} for i in range(300)]
        chats = [{"messages": [{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"a{i}", "weight": i % 2}]}
                 for i in range(30)]
        for name, rows in (("text", texts), ("chat", chats)):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            table = pa.Table.from_pylist(rows, schema=pa.schema([("messages", MESSAGES)]) if name == "chat" else None)
            pa.parquet.write_table(table, self.folder / f"{name}.parquet", row_group_size=100)
            saved = self.folder / f"{name}.saved"
            saved.mkdir()
            write_stream(table, saved / "data-00000-of-00001.arrow")
            for other in ("state.json", "dataset_info.json"):
                (saved / other).write_text("{}")
        for source in ("text.parquet", "text.saved", "text.jsonl"):
            self.llmtrain("data", "tokenize", source, "--output", source.replace(".", "-"))
        made = {path.read_bytes() for path in self.folder.glob("text-*.bin")}
        self.assertEqual(made, {b"".join(row["text"].encode("utf-16-le") for row in texts)})
        recipe = {"model": {"architecture": "llama", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 256,
                            "max_sequence_length": 512}, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1},
                  "data": {"train": [{"path": "chat.jsonl"}], "fine_tuning": {}}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        samples = [json.loads(self.llmtrain("data", "inspect", "recipe.json", "--json", "--set", f"data.train.0.path={source}"))
                   ["samples"] for source in ("chat.jsonl", "chat.parquet", "chat.saved")]
        self.assertIn("a1<|im_end|>", json.dumps(samples[0]))
        self.assertEqual(samples[1:], samples[:1] * 2)

    def test_questions_and_their_answers_are_those_of_json_lines(self):
        words = ["who", "where", "is", "ada", "in", "paris", "oslo"]
        ids = {word: id for id, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
        (self.folder / "tokenizer.json").write_text(json.dumps({
            "added_tokens": [{"id": id, "content": word, "special": True} for word, id in ids.items() if word[0] == "["],
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}))
        rows = [{"question": "where is ada", "context": "ada is in paris", "answers": {"text": ["paris"], "answer_start": [10]}},
                {"question": "who is in oslo", "context": "ada is in paris", "answers": {"text": [], "answer_start": []}}]
        (self.folder / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        # As hubs have SQuAD.
        answers = pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])
        table = pa.Table.from_pylist(rows, pa.schema([("question", pa.string()), ("context", pa.string()), ("answers", answers)]))
        pa.parquet.write_table(table, self.folder / "asked.parquet")
        recipe = {"model": {"architecture": "bert", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": len(ids),
                            "max_sequence_length": 12}, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1},
                  "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "train": [{"path": "asked.jsonl"}],
                           "spans": {"unanswerable": True, "question_length": 4, "overlap": 2}}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        lines, parquet = (json.loads(self.llmtrain("data", "inspect", "recipe.json", "--json", "--set",
                                                   f"data.train.0.path=asked.{kind}"))["samples"]
                          for kind in ("jsonl", "parquet"))
        self.assertEqual(len(lines), len(rows))
        self.assertIn("paris", json.dumps(lines[0]))
        self.assertEqual(parquet, lines)

    def test_a_source_names_the_column_of_its_text(self):
        texts = [f"document {i}\n" for i in range(300)]
        table = pa.table({"id": list(range(300)), "body": texts})
        pa.parquet.write_table(table, self.folder / "a.parquet", row_group_size=100)
        write_stream(table, self.folder / "a.arrow")
        (self.folder / "a.txt").write_text("".join(texts))
        recipe = {"model": {"architecture": "llama", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 256,
                            "max_sequence_length": 64}, "batch": {"global": 1, "micro": 1}, "training": {"steps": 1}}
        shown = []
        for source in ({"path": "a.txt"}, {"path": "a.parquet", "text_key": "body"},
                       {"path": "a.arrow", "text_key": "body"}):
            (self.folder / "recipe.json").write_text(json.dumps({**recipe, "data": {"train": [source]}}))
            shown.append(json.loads(self.llmtrain("data", "inspect", "recipe.json", "--json"))["samples"])
        self.assertEqual(shown[1:], shown[:1] * 2)
        described = json.loads(self.llmtrain("data", "inspect", "a.parquet", "--key", "body", "--json"))
        self.assertEqual((described["documents"], described["first_text"]), (300, "document 0\n"))
        for policy in ("stop", "skip"):
            said = self.llmtrain("data", "inspect", "recipe.json", "--set", "data.train.0.text_key=bodies", "--set",
                                 f"data.on_bad_line={policy}", code=65)
            self.assertIn('a.arrow: has no column "bodies"; its columns are "id", "body"; name one of them by', said)
        self.assertIn('has no column "text"', self.llmtrain("data", "inspect", "a.parquet", code=65))

    def test_bad_rows_and_files_are_said(self):
        pa.parquet.write_table(pa.table({"text": ["a", None, "b"]}), self.folder / "a.parquet")
        said = self.llmtrain("data", "tokenize", "a.parquet", "--output", "out", code=65)
        self.assertIn('a.parquet: row 2 has no string "text"', said)
        self.assertIn("2 documents", self.llmtrain("data", "tokenize", "a.parquet", "--output", "out", "--on-bad-line",
                                                   "skip"))
        whole = (self.folder / "a.parquet").read_bytes()
        for name, content in (("cut.parquet", whole[:-9]), ("other.parquet", b"no table at all"), ("empty.arrow", b""),
                              ("damaged.parquet", whole[:20] + bytes(20) + whole[40:])):
            with self.subTest(name):
                (self.folder / name).write_bytes(content)
                said = self.llmtrain("data", "tokenize", name, "--output", "out2", code=65)
                self.assertIn(f"{name}: cannot be read as Parquet or Arrow", said)
        (self.folder / "both").mkdir()
        (self.folder / "both/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        for split in ("train", "test"):
            (self.folder / "both" / split).mkdir()
        said = self.llmtrain("data", "tokenize", "both", "--output", "out3", code=65)
        self.assertIn("both/train", said)

    def test_memory_grows_neither_with_the_file_nor_with_a_row_group(self):
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        draw, peaks = random.Random(1), []
        texts = ["".join(draw.choices("abcdefgh ", k=10_000)) for _ in range(500)]
        for times in (6, 18):
            pa.parquet.write_table(pa.table({"text": texts * times}), self.folder / "a.parquet", use_dictionary=False,
                                   compression="none")
            command = (sys.executable, "-c", code, TOOL, self.folder / "a.parquet", "0")
            with tempfile.TemporaryFile("w+") as printed:
                subprocess.run(command, stdout=printed, check=True)
                printed.seek(0)
                rows = [line for line in printed]
            self.assertEqual(len(rows), 500 * times + 1)
            peaks.append(int(rows[-1]) << 10)
        # 60 MB more, in one row group; what is read at a time is 2.5 MB.
        self.assertLess(peaks[1] - peaks[0], 15 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
