# SPDX-License-Identifier: Apache-2.0
"""Models of hidden tokens compute and learn what transformers' BertForMaskedLM and XLMRobertaForMaskedLM do, where
documents are ragged, share sequences, or leave rows to padding."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

torch.set_num_threads(1)

ROWS, VOCABULARY, STEPS, RATE = 16, 41, 20, 1e-3
EPSILON = 1e-5  # so that AdamW makes no full steps of the rounding errors of small gradients
# By sample, the lengths of its documents; what is left of a sample is padding, a document of its own.
DOCUMENTS = [[16], [11], [7, 9], [5, 3]]
SHAPE = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": VOCABULARY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(max_position_embeddings=ROWS, **SHAPE),
    "bert, untied, tanh": lambda: transformers.BertConfig(
        max_position_embeddings=20, hidden_act="gelu_new", layer_norm_eps=1e-6, tie_word_embeddings=False, **SHAPE),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, **SHAPE),
    "roberta, untied": lambda: transformers.RobertaConfig(
        max_position_embeddings=ROWS + 2, type_vocab_size=1, pad_token_id=1, tie_word_embeddings=False, **SHAPE),
}
# Our names of a model's parts, "layers.N." beside these.
PARTS = {"embeddings.word_embeddings": "embedding.token", "embeddings.position_embeddings": "embedding.position",
         "embeddings.token_type_embeddings": "embedding.token_type", "embeddings.LayerNorm": "embedding.norm",
         "attention.self.query": "attention.query", "attention.self.key": "attention.key",
         "attention.self.value": "attention.value", "attention.output.dense": "attention.output",
         "attention.output.LayerNorm": "attention_norm", "intermediate.dense": "ffn.up", "output.dense": "ffn.down",
         "output.LayerNorm": "ffn_norm", "cls.predictions.transform.dense": "head.transform",
         "cls.predictions.transform.LayerNorm": "head.norm", "cls.predictions.decoder": "head.head",
         "cls.predictions": "head.head", "lm_head.dense": "head.transform", "lm_head.layer_norm": "head.norm",
         "lm_head.decoder": "head.head", "lm_head": "head.head"}


def our_name(name):
    part, kind = name.removeprefix("bert.").removeprefix("roberta.").rsplit(".", 1)
    if part.startswith("encoder.layer."):
        _, _, layer, part = part.split(".", 3)
        return f"layers.{layer}.{PARTS[part]}.{kind}"
    return f"{PARTS[part]}.{kind}"


def model_of(name):
    torch.manual_seed(5)
    config = CONFIGS[name]()
    model = getattr(transformers, {"bert": "BertForMaskedLM", "roberta": "RobertaForMaskedLM",
                                   "xlm-roberta": "XLMRobertaForMaskedLM"}[config.model_type])(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.4, 0.4)  # also biases and norms, so that mixing them up is detected
    return model.eval()


def ours_of(model, tensors):
    """Tensors of transformers' names under ours, in our shapes."""
    before = 2 if model.config.model_type != "bert" else 0
    ours = {}
    # Nothing reads this one where the matrix has a bias of its own.
    unread = () if model.config.tie_word_embeddings else ("cls.predictions.bias", "lm_head.bias")
    for name, tensor in tensors:
        if name in unread:
            continue
        key = our_name(name)
        if key == "head.head.weight" and model.config.tie_word_embeddings:
            key = "embedding.token.weight"
        ours[key] = tensor[before:] if key == "embedding.position.weight" else tensor
    return ours


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


class MaskedTokens(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def tool(self, *words):
        command = [os.environ["LLMTRAIN_MASKED_TOKENS_TOOL"], *map(str, words), str(self.folder / "out.safetensors")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return safetensors.torch.load_file(self.folder / "out.safetensors")

    def passes(self, samples):
        samples.save(self.folder / "samples.safetensors")
        results = self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors")
        for name in ("logits", "losses"):
            results[name] = results[name].unflatten(0, (len(DOCUMENTS), ROWS))
        return results

    def assert_close(self, got, expected, tolerance, name):
        self.assertEqual(got.shape, expected.shape, name)
        distance = (got - expected).abs().max() / max(1e-3, expected.abs().max())
        self.assertLess(distance, tolerance, name)

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
                # A key's bias moves all scores of a query alike: its gradient is zero but for rounding.
                gradients = ours_of(model, [(key, value.grad) for key, value in model.named_parameters()])
                self.assertEqual({f"gradient.{key}" for key in gradients}, {key for key in ours if "gradient" in key})
                for key, gradient in gradients.items():
                    self.assert_close(ours[f"gradient.{key}"], gradient, 1e-10, key)

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
        samples = Samples()
        samples.save(self.folder / "samples.safetensors")
        for name in CONFIGS:
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                recipe = {"model": {"from": f"hf:{self.folder}/hf"},
                          "batch": {"global": len(DOCUMENTS), "micro": 2, "sequence_length": ROWS},
                          "training": {"steps": STEPS, "clip_norm": 1.0, "optimizer": {"eps": EPSILON},
                                       "learning_rate": {"peak": RATE, "warmup_steps": 0, "schedule": "constant"}},
                          "cluster": {"device": "cpu"}}
                (self.folder / "recipe.json").write_text(json.dumps(recipe))
                first = ours_of(model, [(key, value.detach().clone()) for key, value in model.named_parameters()])
                losses = self.train(model, samples)
                last = ours_of(model, [(key, value.detach()) for key, value in model.named_parameters()])
                ours = self.tool("train", self.folder / "recipe.json", self.folder / "samples.safetensors")
                self.assert_close(ours.pop("losses"), torch.tensor(losses), 1e-5, "losses")
                self.assertEqual(sorted(ours), sorted(last))
                for key, tensor in last.items():
                    if not key.endswith("attention.key.bias"):  # AdamW makes steps of rounding errors
                        self.assert_close(ours[key] - first[key], tensor - first[key], 1e-4, key)

    @staticmethod
    def train(model, samples):
        """20 steps of PyTorch's AdamW; matrices and the table of tokens decay."""
        still = ("LayerNorm", "layer_norm", "position_embeddings", "token_type", ".bias")
        groups = [{"params": [value for key, value in model.named_parameters()
                              if any(part in key for part in still) == is_still], "weight_decay": decay}
                  for is_still, decay in ((False, 0.1), (True, 0.0))]
        optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=EPSILON)
        losses = []
        for _ in range(STEPS):
            loss = model(**samples.theirs()).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses


if __name__ == "__main__":
    unittest.main()
