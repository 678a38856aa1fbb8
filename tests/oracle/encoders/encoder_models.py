# SPDX-License-Identifier: Apache-2.0
"""What the tests of encoders against transformers share: names of tensors, random models, training in PyTorch."""
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
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

torch.set_num_threads(1)

ROWS, VOCABULARY, STEPS = 16, 41, 20
SHAPE = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": VOCABULARY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Our names of a model's parts, "layers.N." beside these.
PARTS = {"embeddings.word_embeddings": "embedding.token", "embeddings.position_embeddings": "embedding.position",
         "embeddings.token_type_embeddings": "embedding.token_type", "embeddings.LayerNorm": "embedding.norm",
         "attention.self.query": "attention.query", "attention.self.key": "attention.key",
         "attention.self.value": "attention.value", "attention.output.dense": "attention.output",
         "attention.output.LayerNorm": "attention_norm", "intermediate.dense": "ffn.up", "output.dense": "ffn.down",
         "output.LayerNorm": "ffn_norm", "cls.predictions.transform.dense": "head.transform",
         "cls.predictions.transform.LayerNorm": "head.norm", "cls.predictions.decoder": "head.head",
         "cls.predictions": "head.head", "lm_head.dense": "head.transform", "lm_head.layer_norm": "head.norm",
         "lm_head.decoder": "head.head", "lm_head": "head.head", "pooler.dense": "head.pooler",
         "classifier.dense": "head.pooler", "classifier.out_proj": "head.classifier", "classifier": "head.classifier", "qa_outputs": "head.classifier"}


def our_name(name):
    part, kind = name.removeprefix("bert.").removeprefix("roberta.").rsplit(".", 1)
    if part.startswith("encoder.layer."):
        _, _, layer, part = part.split(".", 3)
        return f"layers.{layer}.{PARTS[part]}.{kind}"
    return f"{PARTS[part]}.{kind}"


def randomized(model):
    """Also biases and norms, so that mixing them up is detected."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.4, 0.4)
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


class EncoderTest(unittest.TestCase):
    # AdamW divides by the root of squares and `epsilon`: with a small one it makes full steps of the rounding errors of
    # small gradients; with a large one and a small rate small gradients make steps so small that the rounding of weights,
    # which are in fp32, is a large part of them.
    rate, epsilon = 1e-3, 1e-5

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def tool(self, *words):
        command = [os.environ["LLMTRAIN_ENCODER_TOOL"], *map(str, words), str(self.folder / "out.safetensors")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return safetensors.torch.load_file(self.folder / "out.safetensors")

    def assert_close(self, got, expected, tolerance, name):
        self.assertEqual(got.shape, expected.shape, name)
        self.assertLess(distance(got, expected), tolerance, name)

    def assert_gradients(self, ours, expected):
        """What the tool found, by our names; a key's bias moves all scores of a query alike: its gradient is zero but for
        rounding."""
        self.assertEqual({f"gradient.{key}" for key in expected}, {key for key in ours if "gradient" in key})
        for key, gradient in expected.items():
            self.assert_close(ours[f"gradient.{key}"], gradient, 1e-10, key)

    def model_keys(self):
        """The section `model` of the recipe that learns: what the folder "hf" holds."""
        return {"from": f"hf:{self.folder}/hf"}

    def learned(self, samples, batch, **training):
        """The weights after 20 steps of ours on all samples in one batch, and the losses of the steps."""
        samples.save(self.folder / "samples.safetensors")
        recipe = {"model": self.model_keys(), "batch": {"micro": 2, **batch},
                  "training": {"steps": STEPS, "clip_norm": 1.0, "optimizer": {"eps": self.epsilon},
                               "learning_rate": {"peak": self.rate, "warmup_steps": 0, "schedule": "constant"}, **training},
                  "cluster": {"device": "cpu"}}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        ours = self.tool("train", self.folder / "recipe.json", self.folder / "samples.safetensors")
        return ours, ours.pop("losses")

    def train(self, model, loss_now):
        """20 steps of PyTorch's AdamW; matrices and the table of tokens decay."""
        still = ("LayerNorm", "norm", "position_embeddings", "embed_positions", "relative_attention_bias",
                 "token_type", "cls_token", ".bias")
        groups = [{"params": [value for key, value in model.named_parameters()
                              if any(part in key for part in still) == is_still], "weight_decay": decay}
                  for is_still, decay in ((False, 0.1), (True, 0.0))]
        optimizer = torch.optim.AdamW(groups, lr=self.rate, betas=(0.9, 0.95), eps=self.epsilon)
        losses = []
        for _ in range(STEPS):
            loss = loss_now()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses

    def check_training(self, model, samples, batch, named_ours, loss_now=None, still=()):
        """What 20 steps change is what they change in PyTorch; `named_ours` takes pairs of transformers' names and tensors
        to tensors by our names. `loss_now`: the loss, by default that of the model's class. `still`: parameters beside
        biases of keys whose gradients are zero but for rounding, of whose errors AdamW makes steps."""
        first = named_ours([(key, value.detach().clone()) for key, value in model.named_parameters()])
        losses = self.train(model, loss_now or (lambda: model(**samples.theirs()).loss))
        last = named_ours([(key, value.detach()) for key, value in model.named_parameters()])
        ours, our_losses = self.learned(samples, batch)
        self.assert_close(our_losses, torch.tensor(losses), 1e-5, "losses")
        self.assertEqual(sorted(ours), sorted(last))
        for key, tensor in last.items():
            if not key.endswith(("attention.key.bias", *still)):
                self.assert_close(ours[key] - first[key], tensor - first[key], 1e-4, key)


def distance(got, expected):
    return ((got - expected).abs().max() / max(1e-3, expected.abs().max())).item()
