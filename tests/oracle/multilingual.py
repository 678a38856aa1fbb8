# SPDX-License-Identifier: Apache-2.0
"""Texts of many scripts, symbols and spaces, with words that tokenizers treat differently."""
from random import Random

# Code points of scripts, symbols and spaces.
BLOCKS = [(0x20, 0x7E), (0xA1, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA), (0x627, 0x64A), (0x905, 0x939),
          (0xE01, 0xE2E), (0x3041, 0x3093), (0x4E00, 0x4FFF), (0xAC00, 0xB000), (0x1F600, 0x1F64F), (0x300, 0x30F)]
WORDS = ["the sky is blue", "don't", "x = 12345;", "Straße", " ", "  ", "\n", "\t\n", "\u00a0", "e\u0301", "<|im_end|>",
         "天空是藍色的", "Небо", "हिन्दी", "👩‍🚀", "<s>", "</s>", "<|endoftext|>"]


def multilingual_texts(count, seed=11, words=()):
    random = Random(seed)
    words = WORDS + list(words)

    def part():
        if random.random() < 0.5:
            return random.choice(words)
        low, high = random.choice(BLOCKS)
        return "".join(chr(random.randint(low, high)) for _ in range(random.randint(1, 8)))

    return ["".join(part() for _ in range(random.randint(1, 10))) for _ in range(count)]
