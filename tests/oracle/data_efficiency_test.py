# SPDX-License-Identifier: Apache-2.0
"""Curricula, token dropping and attention within documents compared with a PyTorch model that masks what a layer drops and
other documents, by the formulas of docs/curricula.md."""
import collections
import math
import unittest

from training_checks import FP32, TrainingChecks  # first: skips the test where a package is missing

from oracle_train import in_order

import torch

STEPS = 20


def philox(key, counter):
    """The four words of Philox 4×32-10 (Salmon et al., SC11) for two numbers of 64 bits as the counter."""
    words = [counter[0] & 0xFFFFFFFF, counter[0] >> 32, counter[1] & 0xFFFFFFFF, counter[1] >> 32]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(second >> 32) ^ words[1] ^ keys[0], second & 0xFFFFFFFF,
                 (first >> 32) ^ words[3] ^ keys[1], first & 0xFFFFFFFF]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


MASK = 0xFFFFFFFFFFFFFFFF


def mixed(value):
    """The finaliser of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def permuted(key, size, index):
    """The Feistel network by which samples are shuffled (core/data/sample_order.h)."""
    key, columns = mixed(key), int(math.sqrt(size))
    rows = -(-size // columns)
    while True:
        row, column = divmod(index, columns)
        for number in range(0, 12, 2):
            row = (row + mixed(mixed(key + number & MASK) ^ column) % rows) % rows
            column = (column + mixed(mixed(key + number + 1 & MASK) ^ row) % columns) % columns
        index = row * columns + column
        if index < size:
            return index


def easiest_first(tokens, length):
    """Sample numbers by their vocabulary rarity, by the formula of the paper."""
    tokens = tokens.tolist()
    counts = collections.Counter(tokens)
    rarity = [int(sum(-math.log(counts[token] / len(tokens)) for token in tokens[begin : begin + length]))
              for begin in range(0, len(tokens) - length, length)]
    return sorted(range(len(rarity)), key=lambda number: (rarity[number], number))


def length_at(schedule, t, longest):
    if t >= schedule["steps"]:
        return longest
    start, multiple = schedule["start"], schedule["multiple"]
    length = math.floor(start + (longest - start) * (t / schedule["steps"]) ** (1 / schedule.get("degree", 1)) + 1e-9)
    return min(length - length % multiple, longest)


def documents_of(inputs, end):
    """Each token's document and its position there: Megatron-LM's _get_ltor_masks_and_position_ids with its options
    reset_attention_mask and reset_position_ids."""
    documents, positions = torch.zeros_like(inputs), torch.arange(inputs.shape[1]).repeat(len(inputs), 1)
    for row, tokens in enumerate(inputs.tolist()):
        begin = 0
        for index in (index for index, token in enumerate(tokens) if token == end):
            documents[row, index + 1 :] += 1
            positions[row, index + 1 :] -= index + 1 - begin
            begin = index + 1
    return documents, positions


class Course:
    """What the steps of a recipe train on."""

    def __init__(self, recipe):
        self.longest, self.layers = recipe["batch"]["sequence_length"], recipe["model"]["layers"]
        self.micro, self.seed = recipe["batch"]["micro"], recipe.get("seed", 1234)
        self.curriculum = recipe["data"].get("curriculum", {}).get("sequence_length")
        self.rarity = recipe["data"].get("curriculum", {}).get("vocabulary_rarity")
        self.shuffles = recipe["data"]["shuffle"]
        self.end = (recipe["data"].get("document_mask") or {}).get("end_of_text")
        self.dropping = recipe["training"].get("token_dropping")
        self.by_tokens = recipe["training"]["learning_rate"].get("clock") == "tokens"

    def sample_order(self, tokens):
        if not self.rarity:
            return in_order
        easiest = easiest_first(tokens, self.longest)
        schedule = {"multiple": 1, "start": 1, "degree": 2, **self.rarity}

        def draw(step, global_batch, samples):
            percent = length_at(schedule, step + 1, 100)
            count = max(1, samples * percent // 100)
            numbers = []
            for position in range(step * global_batch, (step + 1) * global_batch):
                key, place = mixed(mixed(mixed(self.seed)) + position // count & MASK), position % count
                if percent < 100:
                    key = mixed(key + count & MASK)
                place = permuted(key, count, place) if self.shuffles else place
                numbers.append(easiest[place] if percent < 100 else place)
            return numbers

        return draw

    def length(self, step):
        return length_at(self.curriculum, step + 1, self.longest) if self.curriculum else self.longest

    def kept(self, step):
        kept = length_at(self.dropping, step, self.longest) if self.dropping else self.longest
        return min(kept, self.length(step))

    def sequences(self, step, samples):
        if not self.curriculum or self.curriculum.get("method", "truncate") == "truncate":
            return samples
        return samples // self.micro * (self.micro * self.longest // self.length(step))

    def position(self, step):
        if not self.by_tokens:
            return step
        middle = self.layers - 2 if self.dropping else 0
        seen = 0
        for earlier in range(step):
            each = (self.length(earlier) * (self.layers - middle) + self.kept(earlier) * middle) // self.layers
            seen += self.sequences(earlier, self.micro) * each
        return seen / (self.micro * self.longest)

    def prepare(self, model, step, inputs, targets):
        length, sequences = self.length(step), self.sequences(step, len(inputs))
        parts = [self.cut(rows, length, sequences // (len(inputs) // self.micro)) for rows in (inputs, targets)]
        for index, layer in enumerate(model.layers):
            drops = 0 < index < self.layers - 1 and self.kept(step) < length
            layer.attention.kept = self.draw(step, index, sequences, length) if drops else None
            layer.attention.documents = documents_of(parts[0], self.end) if self.end is not None else None
        return parts

    def cut(self, rows, length, each):
        """`each` sequences of a micro-batch, from whole samples."""
        result = []
        for samples in rows.split(self.micro):
            pieces = [sample[begin : begin + length] for sample in samples
                      for begin in range(0, self.longest - length + 1, length)] if each > self.micro else []
            pieces += [sample[:length] for sample in samples] if each == self.micro else []
            pieces += [sample[-length:] for sample in samples]
            result += pieces[:each]
        return torch.stack(result)

    def draw(self, step, layer, sequences, length):
        words = philox(self.seed, (step, fnv(f"layers.{layer}.token_dropping")))
        kept = torch.zeros(sequences, length, dtype=torch.bool)
        for sequence in range(sequences):
            numbers = [philox(words[0] | words[1] << 32, (position, sequence)) for position in range(length)]
            order = sorted(range(length), key=lambda position: numbers[position][:2])
            kept[sequence, order[: self.kept(step)]] = True
        return kept


class DataEfficiencyTest(TrainingChecks):
    def check(self, name, curriculum=None, dropping=None, clock="steps", rarity=None, shuffle=False, end=None, **sections):
        def on_its_course(case):
            case.course = Course(case.recipe)
            self.check_same_training(case, FP32)

        rate = {"peak": 3e-4, "warmup_steps": 10, "clock": clock}
        training = {"steps": STEPS, "token_dropping": dropping, "learning_rate": rate}
        data = {"curriculum": {"sequence_length": curriculum, "vocabulary_rarity": rarity}, "shuffle": shuffle}
        if end is not None:
            data["document_mask"] = {"end_of_text": end}
        self.for_each([name], on_its_course, training=training, data=data, **sections)

    def test_short_sequences(self):
        lengths = {"start": 8, "steps": 15, "multiple": 4}
        self.check("gpt2, no bias", curriculum=lengths, clock="tokens")
        self.check("gpt-rope", curriculum={**lengths, "degree": 2, "method": "reshape"}, clock="tokens")

    def test_token_dropping(self):
        kept = {"start": 8, "steps": 15, "multiple": 4}
        self.check("gpt-rope", dropping=kept, clock="tokens")
        self.check("gpt2, no bias", dropping=kept, memory={"recompute": "full"})

    def test_easiest_samples(self):
        # In the first step the 45 easiest of 130 samples; the last three of 20 steps read all.
        self.check("gpt2, no bias", rarity={"steps": 18, "start": 16})
        self.check("gpt-rope", rarity={"steps": 15, "degree": 1}, shuffle=True)
        self.check("gpt2, no bias", rarity={"steps": 8}, shuffle=True, clock="tokens",
                   curriculum={"start": 8, "steps": 15, "multiple": 4, "method": "reshape"})

    def test_documents(self):
        # One token in about 40 ends a document, among them a sequence's first, last and neighbouring ones.
        self.check("gpt2, no bias", end=5)
        self.check("llama, 6 heads on 2, head_dim 20", end=7, memory={"recompute": "full"})
        self.check("gpt-rope", end=3, kernels={"attention": "math"},
                   curriculum={"start": 8, "steps": 15, "multiple": 4, "method": "reshape"})
        self.check("gpt-rope", end=1, dropping={"start": 8, "steps": 15, "multiple": 4})

    def test_both(self):
        self.check("gpt-rope", curriculum={"start": 16, "steps": 12, "multiple": 8},
                   dropping={"start": 8, "steps": 18, "multiple": 8}, clock="tokens")


if __name__ == "__main__":
    unittest.main()
