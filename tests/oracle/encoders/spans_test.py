# SPDX-License-Identifier: Apache-2.0
"""Heads for spans compute and learn what transformers' …ForQuestionAnswering do of texts without padding, which it would
count among the places where answers may begin and end."""
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

from classifiers_test import CONFIGS, LENGTHS
from encoder_models import ROWS, VOCABULARY, EncoderTest, ours_of, randomized

SPANS = [(3, 7), (10, 10), (0, 0), (8, 2)]  # rows of starts and ends, which nothing holds to an order


def model_of(family):
    torch.manual_seed(5)
    config = CONFIGS[family]()
    config.num_labels = 2
    return randomized(getattr(transformers, f"{family}ForQuestionAnswering")(config))


class Samples:
    """Random tokens of a question and a text."""

    def __init__(self, family):
        generator = torch.Generator().manual_seed(14)
        shape = (len(LENGTHS), ROWS)
        self.token_ids = torch.randint(3, VOCABULARY, shape, generator=generator)
        self.starts, self.token_types = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
        self.span = torch.tensor(SPANS)
        self.starts[:, 0] = 1
        for sample, length in enumerate(LENGTHS):
            if family == "Bert":
                self.token_types[sample, length // 2:length] = 1
            if length < ROWS:
                self.starts[sample, length] = 1
                self.token_ids[sample, length:] = 1

    def save(self, path):
        names = ("token_ids", "token_types", "starts", "span")
        safetensors.torch.save_file({name: getattr(self, name).contiguous() for name in names}, path)

    def outputs(self, model):
        """By text, each alone."""
        return [model(input_ids=self.token_ids[i:i + 1, :length], token_type_ids=self.token_types[i:i + 1, :length],
                      start_positions=self.span[i:i + 1, 0], end_positions=self.span[i:i + 1, 1])
                for i, length in enumerate(LENGTHS)]

    def loss(self, model):
        return torch.stack([output.loss for output in self.outputs(model)]).mean()


class Spans(EncoderTest):
    rate, epsilon = 3e-3, 1e-4

    def passes(self, samples):
        samples.save(self.folder / "samples.safetensors")
        return self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors", 0)

    def logits(self, results):
        """Starts and ends of each text, without those of padding."""
        logits = results["logits"].unflatten(0, (len(LENGTHS), 2))
        return [logits[i, :, :length] for i, length in enumerate(LENGTHS)]

    def for_models(self):
        for family in CONFIGS:
            with self.subTest(family):
                model = model_of(family)
                model.save_pretrained(self.folder / "hf")
                yield model, Samples(family)

    def test_logits_losses_and_gradients_are_those_of_transformers(self):
        for model, samples in self.for_models():
            model.double()
            theirs = samples.outputs(model)
            samples.loss(model).backward()
            ours = self.passes(samples)
            for i, (logits, output) in enumerate(zip(self.logits(ours), theirs, strict=True)):
                self.assert_close(logits, torch.cat([output.start_logits, output.end_logits]), 1e-10, f"logits {i}")
            self.assertEqual(ours["losses"].shape, (2 * len(LENGTHS),))
            pairs = ours["losses"].view(len(LENGTHS), 2).mean(1)
            self.assert_close(pairs, torch.stack([output.loss for output in theirs]), 1e-10, "losses")
            self.assert_gradients(ours, ours_of(model, [(key, value.grad) for key, value in model.named_parameters()]))

    def test_tokens_of_padding_change_nothing(self):
        for _, samples in self.for_models():
            before = self.passes(samples)
            for sample, length in enumerate(LENGTHS):
                samples.token_ids[sample, length:] = 17
                samples.token_types[sample, length:] = 0
            after = self.passes(samples)
            for left, right in zip(self.logits(before), self.logits(after), strict=True):
                self.assertTrue(torch.equal(left, right))
            del before["logits"], after["logits"]
            for name, tensor in before.items():
                self.assertTrue(torch.equal(tensor, after[name]), name)

    def test_training_changes_weights_as_pytorch_does(self):
        for model, samples in self.for_models():
            self.check_training(model, samples, {"global": len(LENGTHS), "sequence_length": ROWS},
                                functools.partial(ours_of, model), lambda: samples.loss(model),
                                # What all tokens have alike moves no softmax over them.
                                still=("layers.1.ffn_norm.bias", "head.classifier.bias"))


if __name__ == "__main__":
    unittest.main()
