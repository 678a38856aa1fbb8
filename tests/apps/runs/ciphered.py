# SPDX-License-Identifier: Apache-2.0
"""Phrases and their ciphered translation, with a tokenizer of whole words, as recipes/examples/cipher-phrases writes
them."""
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

from program import SOURCE


def example():
    loader = SourceFileLoader("cipher_phrases", str(SOURCE / "recipes/examples/cipher-phrases"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


phrases, lines, ciphered, tokenizer, MARKS = (
    getattr(example(), name) for name in ("phrases", "lines", "ciphered", "tokenizer", "MARKS"))

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
