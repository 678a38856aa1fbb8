# SPDX-License-Identifier: Apache-2.0
"""Masked rows, compared in their shares with what transformers' collator makes of the same sequence, and with BERT's own
create_masked_lm_predictions, written anew from its publication.

masking_oracle_test.py TOOL"""
import json
import math
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from random import Random

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

TOOL = sys.argv[1]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "b", "c", "d", "e", "f", "g", "##h", "##i", "##j"]
TIMES = 20_000


def vocabulary():
    return SPECIAL + WORDS


def ours(pieces, count, whole_words):
    ids = [vocabulary().index(piece) for piece in pieces]
    request = {
        "ids": ids, "mask": SPECIAL.index("[MASK]"), "count": count, "whole_words": whole_words, "times": TIMES,
        "special": [int(piece in SPECIAL) for piece in vocabulary()],
        "begins": [int(not piece.startswith("##")) for piece in vocabulary()]}
    done = subprocess.run([TOOL], input=json.dumps(request), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def bert(pieces, count, whole_words, random):
    """Which rows create_pretraining_data.py hides (google-research/bert), `count` being its num_to_predict."""
    words = []
    for row, piece in enumerate(pieces):
        if piece in ("[CLS]", "[SEP]"):
            continue
        if whole_words and words and piece.startswith("##"):
            words[-1].append(row)
        else:
            words.append([row])
    random.shuffle(words)
    chosen = []
    for word in words:
        if len(chosen) >= count:
            break
        if len(chosen) + len(word) <= count:
            chosen += word
    return chosen


class MaskingTest(unittest.TestCase):
    def assert_alike(self, ours_found, theirs_found, times_of_theirs):
        """Two counts of the same share: their difference has this standard deviation, of which it is within five."""
        share = (ours_found + theirs_found) / (TIMES + times_of_theirs)
        deviation = math.sqrt(share * (1 - share) * (1 / TIMES + 1 / times_of_theirs))
        self.assertLessEqual(abs(ours_found / TIMES - theirs_found / times_of_theirs), 5 * deviation + 1e-12)

    def test_what_becomes_of_chosen_rows_is_what_transformers_makes_of_them(self):
        pieces = ["[CLS]", *WORDS, *WORDS[:9], "[SEP]"]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vocab.txt"
            file.write_text("\n".join(vocabulary()) + "\n")
            tokenizer = transformers.BertTokenizer(vocab=str(file))
        self.assertEqual(tokenizer.mask_token_id, SPECIAL.index("[MASK]"))
        collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, seed=7)
        ids = torch.tensor([vocabulary().index(piece) for piece in pieces])
        batch = collator([{"input_ids": ids} for _ in range(TIMES)])
        is_chosen = batch["labels"] != -100
        found = ours(pieces, 3, False)
        # Ours chooses exactly three of 19 rows, the collator each with a chance of 0.15.
        for row, counts in enumerate(found):
            chosen = int(is_chosen[:, row].sum())
            self.assertEqual(chosen == 0, pieces[row] in SPECIAL)
            self.assertEqual(sum(counts) == 0, pieces[row] in SPECIAL)
            if chosen:
                self.assert_alike(sum(counts) * 0.15 * 19 / 3, chosen, TIMES)
        chosen, here = int(is_chosen.sum()), sum(map(sum, found))
        masks = int((is_chosen & (batch["input_ids"] == tokenizer.mask_token_id)).sum())
        deviation = math.sqrt(0.8 * 0.2 * (1 / chosen + 1 / here))
        self.assertLess(abs(masks / chosen - sum(counts[0] for counts in found) / here), 5 * deviation)
        # Its random tokens are any of the fifteen, special ones included; ours are one of the ten others.
        same = int((is_chosen & (batch["input_ids"] == ids)).sum()) / chosen - 0.1 / 15
        self.assertLess(abs(same - (sum(counts[2] for counts in found) / here - 0.1 / 10)), 5 * math.sqrt(0.1 * 0.9 * (1 / chosen + 1 / here)))

    def test_words_are_chosen_as_often_as_by_bert_where_none_is_cut(self):
        # All words have two pieces, and the count is even, so that theirs has it exactly, too.
        pieces = ["[CLS]", "a", "##h", "b", "##i", "c", "##j", "d", "##h", "e", "##i", "[SEP]"]
        random = Random(3)
        theirs = Counter(row for _ in range(TIMES) for row in bert(pieces, 4, True, random))
        found = ours(pieces, 4, True)
        for row, counts in enumerate(found):
            self.assert_alike(sum(counts), theirs[row], TIMES)

    def test_words_of_several_lengths_are_chosen_as_by_bert_but_for_what_fills_the_count(self):
        pieces = ["[CLS]", "a", "b", "##i", "##j", "c", "##h", "d", "[SEP]"]
        random = Random(4)
        theirs = Counter()
        for _ in range(TIMES):
            chosen = bert(pieces, 3, True, random)
            theirs.update(chosen)
        found = [sum(counts) for counts in ours(pieces, 3, True)]
        self.assertEqual(sum(found), 3 * TIMES)
        # The last pieces of words that are cut are never what fills the count.
        for row in (1, 4, 6, 7):
            self.assert_alike(found[row], theirs[row], TIMES)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
