# SPDX-License-Identifier: Apache-2.0
"""Heads for classes compute and learn what transformers' …ForSequenceClassification and …ForTokenClassification do, of
ragged texts and of pairs of them."""
import functools
import sys
import unittest

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

from encoder_models import ROWS, SHAPE, VOCABULARY, EncoderTest, ours_of, randomized

LENGTHS = [16, 11, 5, 9]  # of the texts; what is left of a sample is padding
CLASSES = 3
CONFIGS = {
    "Bert": lambda: transformers.BertConfig(max_position_embeddings=ROWS, num_labels=CLASSES, **SHAPE),
    "XLMRoberta": lambda: transformers.XLMRobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, pad_token_id=1, num_labels=CLASSES, **SHAPE),
    "Roberta": lambda: transformers.RobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, pad_token_id=1, num_labels=CLASSES, **SHAPE),
}
PARTS = ("Sequence", "Token")


def model_of(family, part):
    torch.manual_seed(5)
    return randomized(getattr(transformers, f"{family}For{part}Classification")(CONFIGS[family]()))


class Samples:
    """Random tokens of two texts, with a class each, or with some in rows."""

    def __init__(self, family, part):
        generator = torch.Generator().manual_seed(9)
        shape = (len(LENGTHS), ROWS)
        self.token_ids = torch.randint(3, VOCABULARY, shape, generator=generator)
        self.label = torch.randint(CLASSES, shape[:1], generator=generator)
        self.targets = torch.full(shape, 10**6)  # that of a row that does not count is not to be read
        self.marks, self.starts, self.token_types = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        self.starts[:, 0] = 1
        self.part = part
        for sample, length in enumerate(LENGTHS):
            if family == "Bert":
                self.token_types[sample, length // 2:length] = 1
            for row in range(1, length, 3):
                self.marks[sample, row] = 1
                self.targets[sample, row] = torch.randint(CLASSES, (), generator=generator)
            if length < ROWS:
                self.starts[sample, length] = 1
                self.token_ids[sample, length:] = 1

    def save(self, path):
        own = ("label",) if self.part == "Sequence" else ("targets", "marks")
        names = ("token_ids", "token_types", "starts", *own)
        safetensors.torch.save_file({name: getattr(self, name).contiguous() for name in names}, path)

    def mask(self):
        return (torch.arange(ROWS) < torch.tensor(LENGTHS).unsqueeze(1)).long()

    def theirs(self):
        of_tokens = torch.where(self.marks == 1, self.targets, -100)
        return {"input_ids": self.token_ids, "attention_mask": self.mask(), "token_type_ids": self.token_types,
                "labels": self.label if self.part == "Sequence" else of_tokens}


class Classifiers(EncoderTest):
    def passes(self, samples):
        samples.save(self.folder / "samples.safetensors")
        results = self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors", 0)
        if samples.part == "Token":
            for name in ("logits", "losses"):
                results[name] = results[name].unflatten(0, (len(LENGTHS), ROWS))
        return results

    def for_models(self):
        for family in CONFIGS:
            for part in PARTS:
                with self.subTest(f"{family} {part}"):
                    model = model_of(family, part)
                    model.save_pretrained(self.folder / "hf")
                    yield model, Samples(family, part)

    def test_logits_losses_and_gradients_are_those_of_transformers(self):
        for model, samples in self.for_models():
            model.double()
            theirs = model(**samples.theirs())
            theirs.loss.backward()
            ours = self.passes(samples)
            logits, losses = ours["logits"], ours["losses"]
            if samples.part == "Token":
                real, marks = samples.mask() == 1, samples.marks == 1
                self.assert_close(logits[real], theirs.logits[real], 1e-10, "logits")
                self.assertEqual(losses[~marks].abs().max(), 0)
                losses = losses[marks]
            else:
                self.assert_close(logits, theirs.logits, 1e-10, "logits")
                self.assertEqual(losses.shape, (len(LENGTHS),))
            self.assertAlmostEqual(losses.mean().item(), theirs.loss.item(), places=10)
            self.assert_gradients(ours, ours_of(model, [(key, value.grad) for key, value in model.named_parameters()]))

    def test_tokens_of_padding_change_nothing(self):
        for _, samples in self.for_models():
            before = self.passes(samples)
            for sample, length in enumerate(LENGTHS):
                samples.token_ids[sample, length:] = 17
                samples.token_types[sample, length:] = 0
            after = self.passes(samples)
            if samples.part == "Token":
                real = samples.mask() == 1
                before["logits"], after["logits"] = before["logits"][real], after["logits"][real]
            for name, tensor in before.items():
                self.assertTrue(torch.equal(tensor, after[name]), name)

    def test_training_changes_weights_as_pytorch_does(self):
        for model, samples in self.for_models():
            self.check_training(model, samples, {"global": len(LENGTHS), "sequence_length": ROWS},
                                functools.partial(ours_of, model))


if __name__ == "__main__":
    unittest.main()
