# SPDX-License-Identifier: Apache-2.0
"""Phrases of this repository's documents and their ciphered translation, with a tokenizer of whole words."""
import json
import random
import re
from collections import Counter
from pathlib import Path

import ended_texts

DOCS = Path(__file__).resolve().parents[3] / "docs"
END, PADDING, START = 0, 1, 2
WORDS, LENGTH = 16, 5


def ciphered(word):
    """Each letter is the one that is 13 further on."""
    return "".join(chr((ord(letter) - 97 + 13) % 26 + 97) for letter in word)


def frequent_words():
    text = " ".join(path.read_text(encoding="utf-8").lower() for path in sorted(DOCS.glob("*.md")))
    words = Counter(word for word in re.findall(r"[a-z]+", text) if len(word) > 3)
    # The same word must not be in both languages.
    return sorted(word for word, _ in words.most_common(WORDS) if ciphered(word) not in words)


def phrases(count, seed):
    draw, words = random.Random(seed), frequent_words()
    return [draw.choices(words, k=draw.randint(4, LENGTH)) for _ in range(count)]


def lines(sources, targets=None):
    """Rows of JSON Lines: a phrase, and the translation of it or of another one."""
    rows = [{"source": " ".join(source), "target": " ".join(map(ciphered, target))}
            for source, target in zip(sources, targets or sources, strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def vocabulary():
    words = frequent_words()
    return {text: id for id, text in enumerate(["</s>", "<pad>", "<s>", *words, *map(ciphered, words)])}


def tokenizer():
    ids = vocabulary()
    return json.dumps({
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<s>"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": [{"id": id, "content": text, "special": True}
                         for text, id in ids.items() if text.startswith("<")],
        "post_processor": ended_texts.post_processor(END)})


# Sections of a recipe that learns it in a few hundred steps.
SECTIONS = {"model": {"architecture": "t5", "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 128,
                      "max_sequence_length": 8},
            "data": {"tokenizer": {"huggingface": "tokenizer.json"}, "pairs": {"target_length": 7},
                     "train": [{"path": "train.jsonl"}], "validation": [{"path": "held-out.jsonl"}]},
            "batch": {"global": 32, "micro": 32, "sequence_length": 8}}


def bleu(texts, references):
    """Of words between blanks, by the formula of Papineni et al. with mteval's smoothing."""
    precision, smoothing = 1.0, 1.0
    for size in range(1, 5):
        def sequences(text, size=size):
            words = text.split()
            return Counter(tuple(words[at:at + size]) for at in range(len(words) - size + 1))
        matched = sum((sequences(text) & sequences(reference)).total()
                      for text, reference in zip(texts, references, strict=True))
        total = sum(sequences(text).total() for text in texts)
        if total == 0 or (size == 1 and matched == 0):
            return 0.0
        if matched == 0:
            smoothing *= 2
        precision *= (matched / total if matched else 1 / (smoothing * total)) ** 0.25
    length, expected = (sum(len(text.split()) for text in side) for side in (texts, references))
    return 100 * precision * min(1.0, 2.718281828459045 ** (1 - expected / length))
