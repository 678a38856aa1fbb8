# SPDX-License-Identifier: Apache-2.0
"""Ids, types and texts of tokenizers of every kind, compared with the tokenizers package, which trains them here.

tokenizer_kinds_test.py [TEXTS]: so many texts with each tokenizer (300); with 5000 or more also every character of Unicode."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import tokenizers
    import tokenizer_kinds
except ImportError as error:
    print(f"skipped: {error}; run scripts/setup --tests", file=sys.stderr)
    sys.exit(77)

from multilingual import multilingual_texts
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

TOOL = os.environ["LLMTRAIN_TOKENIZER_TOOL"]
TEXTS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
WORDS = ["SKY", "sky", " sky ", "skyline", "[X]", "  [X]  ", "blue", "▁sky", "<mask>", " <mask> x", "12", "a 12b", "Ǆ", "İ",
         "ΑΣ", "ﬁ", "①", "½", "ｶﾞ", "カナ漢字", "ー", "``x''", "\u200d", "\x00", "\x85", "\u2028", "\ufffd", "\ue000",
         "Ελληνικά", "e\u0302\u0323", "\u1100\u1161\u11a8", "A" * 30, "don't do not 's .", " , ?", "₂", "\u3000", "  x"]


class Tool:
    """Answers of this program's tokenizer to requests."""

    def __init__(self, folder, tokenizer):
        self.file = Path(folder) / "tokenizer.json"
        tokenizer.save(str(self.file))

    def answers(self, requests):
        lines = "".join(json.dumps(each) + "\n" for each in requests)
        result = subprocess.run([TOOL, str(self.file)], input=lines, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.rstrip("\n").split("\n")]


class TokenizerKinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="llmtrain-kinds-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        cls.texts = multilingual_texts(TEXTS, 5, WORDS)
        cls.training_texts = multilingual_texts(400, 6, WORDS)

    def test_kinds(self):
        for name, make in tokenizer_kinds.KINDS.items():
            with self.subTest(name):
                tokenizer = make(self.training_texts)
                tool = Tool(self.folder, tokenizer)
                self.check_texts(tokenizer, tool)
                self.check_tokens(tokenizer, tool)

    def check_texts(self, tokenizer, tool):
        pairs = list(zip(self.texts, self.texts[1:]))
        requests = [{"text": text} for text in self.texts] + [{"text": text, "pair": other} for text, other in pairs]
        expected = tokenizer.encode_batch(self.texts) + tokenizer.encode_batch(pairs)
        for request, theirs, ours in zip(requests, expected, tool.answers(requests), strict=True):
            self.assertNotIn("error", ours, request)
            self.assertEqual(ours["ids"], theirs.ids, request)
            self.assertEqual(ours["types"], theirs.type_ids, request)
            self.assertEqual(ours["decoded"], tokenizer.decode(theirs.ids, skip_special_tokens=False), request)

    def check_tokens(self, tokenizer, tool):
        """What is decoded after other text goes on with it, and never changes when tokens follow."""
        chance = random.Random(7)
        word = next(token for token in ("▁the", "▁t", "the", "t", "the</w>", "t</w>", "Ġthe", "##t")
                    if tokenizer.token_to_id(token) is not None)
        first = tokenizer.token_to_id(word)
        rows = [[chance.randrange(tokenizer.get_vocab_size()) for _ in range(12)] for _ in range(60)]
        requests = [{"ids": ids[:count]} for ids in rows for count in range(1, 13)]
        answers = tool.answers(requests)
        whole = [tokenizer.decode([first, *ids], skip_special_tokens=False) for ids in rows]
        for row, text in enumerate(whole):
            parts = [answer["continued"] for answer in answers[12 * row:12 * row + 12]]
            for part, longer in zip(parts, parts[1:]):
                self.assertTrue(longer.startswith(part.rstrip("\ufffd")), (part, longer))
            if "\ufffd" not in text:
                beginning = tokenizer.decode([first], skip_special_tokens=False)
                if tokenizer.decoder is not None and "BPEDecoder" in str(tokenizer.decoder):
                    beginning = word.removesuffix("</w>") + (" " if word.endswith("</w>") else "")
                self.assertEqual(beginning + parts[-1], text)

    def all_characters(self):
        """Each of Unicode between letters, many in a text; without what has nothing but Chinese characters, unless asked."""
        codes = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000 and
                 (TEXTS >= 5000 or code < 0x20000 or 0x2F800 <= code < 0x2FA20 or 0xE0000 <= code < 0xE0200)]
        return ["".join(f"x{chr(code)}y" for code in codes[start:start + 256]) for start in range(0, len(codes), 256)]

    def compare_all(self, name, normalizer=None, splits=None):
        """Ids are bytes; with an end of each word that can be seen."""
        vocabulary = {token: byte for byte, token in enumerate(tokenizer_kinds.BYTES)}
        suffix = {"end_of_word_suffix": "|"} if splits else {}
        tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, **suffix))
        if normalizer:
            tokenizer.normalizer = normalizer
        if splits:
            tokenizer.pre_tokenizer = splits
        texts = self.all_characters()
        differ = []
        for text, theirs, ours in zip(texts, tokenizer.encode_batch_fast(texts),
                                      Tool(self.folder, tokenizer).answers([{"text": text} for text in texts])):
            if theirs.ids != ours["ids"]:
                single = tokenizer.encode_batch_fast([f"x{c}y" for c in text[1::3]])
                again = Tool(self.folder, tokenizer).answers([{"text": f"x{c}y"} for c in text[1::3]])
                differ += [ord(c) for c, one, other in zip(text[1::3], single, again) if one.ids != other["ids"]]
        self.assertEqual([hex(code) for code in differ], [], name)

    def test_all_characters(self):
        for normalizer in (normalizers.Lowercase(), normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(),
                           normalizers.NFKD(), normalizers.StripAccents(), normalizers.Nmt(),
                           normalizers.BertNormalizer(lowercase=False, strip_accents=False),
                           normalizers.BertNormalizer(clean_text=False, lowercase=False, strip_accents=True),
                           normalizers.Precompiled(tokenizer_kinds.charsmap())):
            with self.subTest(str(normalizer)[:60]):
                self.compare_all(str(normalizer)[:60], normalizer=normalizer)
        for splits in (pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                       pre_tokenizers.Digits(), pre_tokenizers.UnicodeScripts(), pre_tokenizers.BertPreTokenizer()):
            with self.subTest(str(splits)):
                self.compare_all(str(splits), splits=splits)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
