# SPDX-License-Identifier: Apache-2.0
"""Questions as samples, compared with what transformers' tokenizers and its published steps for SQuAD make of the same
rows; and answers as SQuAD's evaluation counts them. spans_oracle_test.py TOOL"""
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

try:
    import tokenizer_kinds
    import transformers
    from multilingual import multilingual_texts
    from squad import normalize_answer, raw_scores
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

TOOL = sys.argv[1]
WORDS = ("The river Rhône rises in the Alps, in 1895 (some say 1896), and \"flows\" to the sea; its length is 813 km. "
         "Who measured it? Émile-Auguste did, with a 2.5 m rod — on foot! The café's naïve guests didn't believe him. "
         "Straße 天空 is blue").split()
LENGTH, QUESTION_LENGTH, OVERLAP = 64, 40, 10


def roberta(texts):
    """Byte-level BPE between RoBERTa's marks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "<pad>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def xlm_roberta(texts):
    """As XLM-R's, which cuts words before it marks them."""
    tokenizer = tokenizer_kinds.xlm_roberta(texts)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return tokenizer


KINDS = {"bert": (tokenizer_kinds.bert, "[PAD]"), "cased": (tokenizer_kinds.cased_bert, "[PAD]"),
         "roberta": (roberta, "<pad>"), "xlm_roberta": (xlm_roberta, "<pad>")}


def rows_of(draw, count):
    """Rows of words with marks around them, of which some answer the question."""
    rows = []
    for number in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.randrange(1, 90))]
        context = draw.choice([" ", " ", "  ", "\n"]).join(words)
        question = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(1, 5)))
        begin = draw.randrange(len(words))
        answer = context[context.index(words[begin]):][:draw.randrange(1, 25)].strip() if number % 4 else ""
        answers = {"text": [answer], "answer_start": [context.index(answer)]} if answer else {"text": [], "answer_start": []}
        rows.append({"question": question, "context": context, "answers": answers})
    return rows


def training_features(tokenizer, row):
    """prepare_train_features() of transformers' examples/pytorch/question-answering/run_qa.py, without padding and of one
    row. Its loops run into the marks behind a window, whose places are (0, 0); here they end with the window."""
    encoded = tokenizer(row["question"].lstrip(), row["context"], truncation="only_second", max_length=LENGTH,
                        stride=OVERLAP, return_overflowing_tokens=True, return_offsets_mapping=True,
                        return_token_type_ids=True)
    features = []
    for i, offsets in enumerate(encoded["offset_mapping"]):
        sequence_ids = encoded.sequence_ids(i)
        first = sequence_ids.index(1)
        last = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
        span = [0, 0]
        if row["answers"]["text"]:
            start_char = row["answers"]["answer_start"][0]
            end_char = start_char + len(row["answers"]["text"][0])
            if offsets[first][0] <= start_char and offsets[last][1] >= end_char:
                token_start, token_end = first, last
                while token_start <= last and offsets[token_start][0] <= start_char:
                    token_start += 1
                while token_end >= first and offsets[token_end][1] >= end_char:
                    token_end -= 1
                span = [token_start - 1, token_end + 1]
        features.append({"ids": encoded["input_ids"][i], "types": encoded["token_type_ids"][i], "span": span,
                         "first_row": first, "places": offsets[first:last + 1]})
    return features


class Spans(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def ours(self, *words, lines=()):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([TOOL, *map(str, words)], input=text, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def tokenizer(self, kind):
        make, padding = KINDS[kind]
        loaded = transformers.PreTrainedTokenizerFast(
            tokenizer_object=make([" ".join(WORDS)] * 20 + multilingual_texts(100, 6)), pad_token=padding)
        loaded.save_pretrained(self.folder)
        return loaded

    def assert_places(self, text, places, theirs, tokens):
        """White space, and a mark of it alone, is no place where an answer begins or ends. Tokens that share a character
        which the tokenizer has changed may all have what they are made of together."""
        for place, their, token in zip(places, theirs, tokens, strict=True):
            mine = tuple(len(text.encode()[:byte].decode()) for byte in place)
            if token == "▁" or not text[their[0]:their[1]].strip():
                continue
            made_of = text[mine[0]:mine[1]]
            if unicodedata.normalize("NFKC", made_of) == made_of:
                self.assertEqual(mine, tuple(their), (text, token))
            else:
                self.assertTrue(mine[0] <= their[0] < their[1] <= mine[1], (text, token, mine, their))

    def test_windows_and_answers_are_those_of_transformers(self):
        for kind in KINDS:
            with self.subTest(kind):
                tokenizer = self.tokenizer(kind)
                rows = rows_of(random.Random(3), 60)
                data = self.folder / "rows.jsonl"
                data.write_text("".join(json.dumps(row) + "\n" for row in rows))
                # Questions that are cut have no equal there.
                ours = self.ours("windows", self.folder / "tokenizer.json", data, LENGTH, len(tokenizer), QUESTION_LENGTH, OVERLAP)
                number = answered = 0
                for question, row in enumerate(rows):
                    features = training_features(tokenizer, row)
                    self.assertLessEqual(len(tokenizer.tokenize(row["question"])), QUESTION_LENGTH)
                    for theirs in features:
                        mine = ours[number]
                        number += 1
                        rest = LENGTH - len(theirs["ids"])
                        self.assertEqual(mine["token_ids"], theirs["ids"] + [tokenizer.pad_token_id] * rest)
                        # Windows that transformers cuts off forget that all types of XLM-R are 0.
                        types = [0] * LENGTH if kind == "xlm_roberta" else theirs["types"] + [0] * rest
                        self.assertEqual(mine["token_types"], types)
                        self.assertEqual((mine["question"], mine["first_row"]), (question, theirs["first_row"]))
                        self.assertEqual([row for row, begins in enumerate(mine["starts"]) if begins],
                                         [0] + ([len(theirs["ids"])] if rest else []))
                        self.assertEqual(mine["weight"], 2)
                        rows_of_text = theirs["ids"][theirs["first_row"]:][:len(theirs["places"])]
                        self.assert_places(row["context"], mine["places"], theirs["places"],
                                           tokenizer.convert_ids_to_tokens(rows_of_text))
                        # There a mark of white space has the first character behind it, with which an answer may end.
                        if kind == "xlm_roberta" and theirs["ids"][theirs["span"][1]] == tokenizer.convert_tokens_to_ids("▁"):
                            theirs["span"][1] += 1
                        self.assertEqual(mine["span"], theirs["span"])
                        answered += mine["span"] != [0, 0]
                self.assertEqual(number, len(ours))
                self.assertGreater(answered, 30)

    def test_answers_count_as_in_squad(self):
        draw = random.Random(4)
        words = ["the", "The", "a", "an", "Rhône", "rhône,", "river.", "and", "theatre", "1895", "—", "(", "U.S.", "a-an",
                 "İ", "ΑΣ", "the-the", "\u00a0", "", "A", "don't", "ﬁ", "b_c"]
        text = lambda: draw.choice([" ", "  ", "\n"]).join(draw.choice(words) for _ in range(draw.randrange(0, 5)))
        lines = [{"told": text(), "answers": [text() for _ in range(draw.randrange(0, 4))]} for _ in range(400)]
        lines.append({"told": "the", "answers": []})
        # Python makes two letters of this one.
        lines = [line for line in lines if "İ" not in line["told"] + "".join(line["answers"])]
        for line, mine in zip(lines, self.ours("answers", lines=lines), strict=True):
            self.assertEqual(mine["normalized"], normalize_answer(line["told"]).replace("ς", "σ"), line)
            exact, f1 = raw_scores(line["told"], line["answers"])
            self.assertEqual(mine["exact_match"], exact, line)
            self.assertAlmostEqual(mine["f1"], f1, 12, line)

    def test_the_best_span_is_the_best_of_all(self):
        draw = random.Random(5)
        lines = []
        for _ in range(60):
            count = draw.randrange(1, 12)
            begin = draw.randrange(count)
            lines.append({"starts": [draw.gauss(0, 1) for _ in range(count)], "begin": begin,
                          "ends": [draw.gauss(0, 1) for _ in range(count)], "end": draw.randrange(begin, count + 1),
                          "longest": draw.randrange(1, 6)})
        for line, mine in zip(lines, self.ours("best", lines=lines), strict=True):
            spans = [(line["starts"][first] + line["ends"][last], first, last)
                     for first in range(line["begin"], line["end"]) for last in range(first, line["end"])
                     if last - first + 1 <= line["longest"]]
            if not spans:
                self.assertIsNone(mine)
                continue
            score, first, last = max(spans)
            self.assertEqual(mine[:2], [first, last], line)
            self.assertAlmostEqual(mine[2], score, 12)

    def test_tokens_stand_where_transformers_finds_them(self):
        """Also in texts of many scripts, where the tokens are those of the text as a whole."""
        texts = multilingual_texts(200, 9)
        for kind in KINDS:
            with self.subTest(kind):
                tokenizer = self.tokenizer(kind)
                compared = 0
                answers = self.ours("places", self.folder / "tokenizer.json", lines=texts)
                for text, mine in zip(texts, answers, strict=True):
                    theirs = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
                    if mine["ids"] != mine["whole"]:
                        continue
                    self.assertEqual(mine["ids"], theirs["input_ids"], text)
                    compared += len(mine["ids"])
                    self.assert_places(text, mine["places"], theirs["offset_mapping"],
                                       tokenizer.convert_ids_to_tokens(mine["ids"]))
                self.assertGreater(compared, 1000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
