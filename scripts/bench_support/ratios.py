# SPDX-License-Identifier: Apache-2.0
"""How long steps of one side take beside those of another one, with which it took turns."""
import dataclasses
import statistics

BF16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}  # as core/machine/processor.cpp
FP8_LIMIT = 3
WIDENED_BF16_LIMIT = 1.15


@dataclasses.dataclass
class Ratio:
    name: str
    median: float
    least: float  # of the rounds
    most: float
    limit: float = None  # that `median` should not exceed; none: it is whatever the processor makes of it

    def line(self):
        bound = "" if self.limit is None else f"; at most {self.limit:g}: {'no' if self.median > self.limit else 'yes'}"
        return f"  {self.name}: {self.median:.2f} (rounds {self.least:.2f} to {self.most:.2f}){bound}"


def of_rounds(name, steps, others, limit=None):
    """`steps` and `others` are lists of seconds by round. Each round compares its own medians: a round in which the
    machine was busy is slow on both sides."""
    ratios = [statistics.median(own) / statistics.median(other) for own, other in zip(steps, others)]
    return Ratio(name, statistics.median(ratios), min(ratios), max(ratios), limit)


def fp8_ratios(turns, features):
    """`turns`: seconds of steps by round, of each of the precisions fp32, bf16 and one with FP8. `features`: the
    processor's extensions, by Linux's names."""
    (fp8,) = set(turns) - {"fp32", "bf16"}
    widens = not BF16_INSTRUCTIONS & set(features)
    bf16 = of_rounds("bf16 ÷ fp32", turns["bf16"], turns["fp32"], WIDENED_BF16_LIMIT if widens else None)
    faster = "bf16" if bf16.median < 1 else "fp32"
    yield of_rounds(f"{fp8} ÷ {faster}, the faster of fp32 and bf16", turns[fp8], turns[faster], FP8_LIMIT)
    yield bf16
