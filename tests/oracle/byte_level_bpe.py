# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE tokenizers like those of published models, trained by the tokenizers package."""
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def train(texts, pattern, vocab_size, **model):
    """With a model's pattern of pre-tokens, or GPT-2's, which the package has built in, where it is None."""
    tokenizer = Tokenizer(models.BPE(**model))
    split = pre_tokenizers.Split(Regex(pattern), "isolated") if pattern else None
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level]) if split else byte_level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
