# SPDX-License-Identifier: Apache-2.0
"""Models of hidden tokens compute and learn what transformers' BertForMaskedLM and XLMRobertaForMaskedLM do, where
documents are ragged, share sequences, or leave rows to padding."""
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

# By sample, the lengths of its documents; what is left of a sample is padding, a document of its own.
DOCUMENTS = [[16], [11], [7, 9], [5, 3]]
CONFIGS = {
    "bert": lambda: transformers.BertConfig(max_position_embeddings=ROWS, **SHAPE),
    "bert, untied, tanh": lambda: transformers.BertConfig(
        max_position_embeddings=20, hidden_act="gelu_new", layer_norm_eps=1e-6, tie_word_embeddings=False, **SHAPE),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, **SHAPE),
    "roberta, untied": lambda: transformers.RobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, pad_token_id=1, tie_word_embeddings=False, **SHAPE),
}


def model_of(name):
    torch.manual_seed(5)
    config = CONFIGS[name]()
    model = getattr(transformers, {"bert": "BertForMaskedLM", "roberta": "RobertaForMaskedLM",
                                   "xlm-roberta": "XLMRobertaForMaskedLM"}[config.model_type])(config)
    return randomized(model)


class Samples:
    """Random tokens, some of each document of which are to be predicted."""

    def __init__(self):
        generator = torch.Generator().manual_seed(9)
        shape = (len(DOCUMENTS), ROWS)
        self.token_ids = torch.randint(3, VOCABULARY, shape, generator=generator)
        # What is not to be read: no target of a row that does not count.
        self.targets = torch.full(shape, 10**6)
        self.marks, self.starts = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        self.documents = []
        for sample, lengths in enumerate(DOCUMENTS):
            first = 0
            for length in lengths:
                self.starts[sample, first] = 1
                self.documents.append((sample, first, length))
                for row in range(first, first + length, 3):
                    self.marks[sample, row] = 1
                    self.targets[sample, row] = torch.randint(VOCABULARY, (), generator=generator)
                first += length
            if first < ROWS:
                self.starts[sample, first] = 1
                self.token_ids[sample, first:] = 1

    def save(self, path):
        names = ("token_ids", "targets", "marks", "starts")
        safetensors.torch.save_file({name: getattr(self, name).contiguous() for name in names}, path)

    def theirs(self):
        """The documents one by one, padded to the longest, with the mask that transformers asks for."""
        shape = (len(self.documents), ROWS)
        ids, mask = torch.ones(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        labels = torch.full(shape, -100)
        for document, (sample, first, length) in enumerate(self.documents):
            rows = slice(first, first + length)
            ids[document, :length], mask[document, :length] = self.token_ids[sample, rows], 1
            counts = self.marks[sample, rows] == 1
            labels[document, :length][counts] = self.targets[sample, rows][counts]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    def of_documents(self, rows):
        return torch.cat([rows[sample, first:first + length] for sample, first, length in self.documents])


class MaskedTokens(EncoderTest):
    def passes(self, samples):
        samples.save(self.folder / "samples.safetensors")
        results = self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors", 0)
        for name in ("logits", "losses"):
            results[name] = results[name].unflatten(0, (len(DOCUMENTS), ROWS))
        return results

    def test_logits_losses_and_gradients_are_those_of_transformers(self):
        samples = Samples()
        for name in CONFIGS:
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                model.double()
                theirs = model(**samples.theirs())
                theirs.loss.backward()
                ours = self.passes(samples)
                real = samples.theirs()["attention_mask"] == 1
                self.assert_close(samples.of_documents(ours["logits"]), theirs.logits[real], 1e-10, "logits")
                marks = samples.marks == 1
                self.assertAlmostEqual(ours["losses"][marks].mean().item(), theirs.loss.item(), places=10)
                self.assertEqual(ours["losses"][~marks].abs().max(), 0)
                self.assert_gradients(ours, ours_of(model, [(key, value.grad) for key, value in model.named_parameters()]))

    def test_tokens_of_padding_change_nothing(self):
        samples = Samples()
        model_of("bert").save_pretrained(self.folder / "hf")
        before = self.passes(samples)
        for sample, lengths in enumerate(DOCUMENTS):
            samples.token_ids[sample, sum(lengths):] = 17
        after = self.passes(samples)
        for name in ("logits", "losses"):
            self.assertTrue(torch.equal(samples.of_documents(before.pop(name)), samples.of_documents(after.pop(name))))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor, after[name]), name)

    def test_training_changes_weights_as_pytorch_does(self):
        for name in CONFIGS:
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                self.check_training(model, Samples(), {"global": len(DOCUMENTS), "sequence_length": ROWS},
                                    functools.partial(ours_of, model))


if __name__ == "__main__":
    unittest.main()
