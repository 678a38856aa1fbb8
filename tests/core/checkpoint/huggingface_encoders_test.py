#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests export and import of encoders with the real transformers package: huggingface_encoders_test.py TOOL."""

import json
import pathlib
import sys
import unittest

import huggingface_roundtrip_test as decoders
import safetensors.torch
import torch
import transformers

SHAPE = decoders.SHAPE

# Our model keys, and the class that the export must load as.
MODELS = {
    "bert": ({"architecture": "bert"}, "BertForMaskedLM"),
    "bert_untied_tanh": (
        {"architecture": "bert", "tie_embeddings": False, "activation": "gelu_tanh", "norm_eps": 1e-6}, "BertForMaskedLM"
    ),
    "xlm_roberta": ({"architecture": "roberta", "ffn_hidden_size": 40}, "XLMRobertaForMaskedLM"),
    "xlm_roberta_untied": ({"architecture": "roberta", "tie_embeddings": False}, "XLMRobertaForMaskedLM"),
}
THEIRS = {
    "bert": transformers.BertConfig,
    "roberta": lambda **shape: transformers.RobertaConfig(type_vocab_size=1, **shape),
    "xlm_roberta": lambda **shape: transformers.XLMRobertaConfig(type_vocab_size=1, **shape),
}


def encoder_tensors(ours, tied, prefix):
    """The state_dict of a BertForMaskedLM, or of a model of RoBERTa's family, from our weights."""
    is_bert = prefix == "bert"
    position = ours["embedding.position.weight"]
    if not is_bert:  # the rows before that of the first position, which nothing reads
        position = torch.cat((torch.zeros(2, position.shape[1]), position))
    head = "cls.predictions" if is_bert else "lm_head"
    dense, norm = ("transform.dense", "transform.LayerNorm") if is_bert else ("dense", "layer_norm")
    state = {
        f"{prefix}.embeddings.word_embeddings.weight": ours["embedding.token.weight"],
        f"{prefix}.embeddings.position_embeddings.weight": position,
        f"{prefix}.embeddings.token_type_embeddings.weight": ours["embedding.token_type.weight"],
        f"{head}.decoder.weight": ours["embedding.token.weight" if tied else "head.head.weight"],
        f"{head}.decoder.bias": ours["head.head.bias"],
        f"{head}.bias": ours["head.head.bias"],
    }
    parts = {"attention.query": "attention.self.query", "attention.key": "attention.self.key",
             "attention.value": "attention.self.value", "attention.output": "attention.output.dense",
             "attention_norm": "attention.output.LayerNorm", "ffn.up": "intermediate.dense", "ffn.down": "output.dense",
             "ffn_norm": "output.LayerNorm"}  # fmt: skip
    for kind in ("weight", "bias"):
        state[f"{prefix}.embeddings.LayerNorm.{kind}"] = ours[f"embedding.norm.{kind}"]
        state[f"{head}.{dense}.{kind}"] = ours[f"head.transform.{kind}"]
        state[f"{head}.{norm}.{kind}"] = ours[f"head.norm.{kind}"]
        for layer in range(SHAPE["layers"]):
            for mine, theirs in parts.items():
                state[f"{prefix}.encoder.layer.{layer}.{theirs}.{kind}"] = ours[f"layers.{layer}.{mine}.{kind}"]
    return state


def state_of(model, ours):
    return encoder_tensors(ours, "head.head.weight" not in ours, model.base_model_prefix)


def small(name, **changes):
    """A tiny random model of transformers, created by the package's own classes."""
    torch.manual_seed(3)
    shape = {"vocab_size": 29, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 16}  # fmt: skip
    model = transformers.AutoModelForMaskedLM.from_config(THEIRS[name](**shape, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)  # also biases and norms, so that mixing them up is detected
        if name != "bert":  # as exports have what nothing reads
            model.roberta.embeddings.position_embeddings.weight[:2] = 0
    return model


class Encoders(unittest.TestCase):
    setUp, tool = decoders.RoundTrip.setUp, decoders.RoundTrip.tool
    write_recipe, assert_same = decoders.RoundTrip.write_recipe, decoders.RoundTrip.assert_same

    def load(self, folder):
        model, report = transformers.AutoModelForMaskedLM.from_pretrained(
            folder, output_loading_info=True, dtype="auto", local_files_only=True
        )
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            self.assertFalse(report[kind], f"{kind}: {report[kind]}")
        return model

    def ours(self, folder):
        recipe = self.write_recipe(json.loads(self.tool("model", folder)))
        self.tool("import", folder, recipe, self.folder / "ours.safetensors")
        return safetensors.torch.load_file(self.folder / "ours.safetensors")

    def test_transformers_loads_every_export(self):
        for name, (keys, class_name) in MODELS.items():
            for shard_bytes in ([], [6000]):
                with self.subTest(name, shards=shard_bytes):
                    recipe, folder = self.write_recipe(SHAPE | keys), self.folder / f"{name}{len(shard_bytes)}"
                    self.tool("export", recipe, folder, self.folder / "ours.safetensors", "fp32", *shard_bytes)
                    model = self.load(folder)
                    self.assertEqual(type(model).__name__, class_name)
                    self.assertEqual(model.config.type_vocab_size, 2 if class_name == "BertForMaskedLM" else 1)
                    ours = safetensors.torch.load_file(self.folder / "ours.safetensors")
                    self.assert_same(model.state_dict(), state_of(model, ours))
                    # Through transformers' own writer and back to us.
                    model.save_pretrained(folder / "again")
                    self.tool("import", folder / "again", recipe, self.folder / "back.safetensors")
                    self.assert_same(safetensors.torch.load_file(self.folder / "back.safetensors"), ours)

    def test_models_of_transformers_are_imported(self):
        for name in THEIRS:
            for changes in ({}, {"tie_word_embeddings": False}, {"hidden_act": "gelu_new"}):
                with self.subTest(name, **changes):
                    model = small(name, **changes)
                    model.save_pretrained(self.folder / name)
                    state = dict(model.state_dict())
                    if not model.config.tie_word_embeddings:  # the bias that its matrix has; nothing reads the other
                        head = "cls.predictions" if name == "bert" else "lm_head"
                        state[f"{head}.bias"] = state[f"{head}.decoder.bias"]
                    self.assert_same(state_of(model, self.ours(self.folder / name)), state)

    def test_checkpoints_of_the_hub_are_imported(self):
        """They have parts for other tasks, the names that TensorFlow gives norms, and both names of what is tied."""
        for name, head in (("bert", "cls.predictions"), ("xlm_roberta", "lm_head")):
            with self.subTest(name):
                model = small(name)
                model.save_pretrained(self.folder / name)
                path, prefix = self.folder / name / "model.safetensors", model.base_model_prefix
                state = {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"):
                         tensor for key, tensor in safetensors.torch.load_file(path).items()}  # fmt: skip
                state[f"{prefix}.pooler.dense.weight"], state[f"{prefix}.pooler.dense.bias"] = torch.ones(24, 24), torch.ones(24)
                state[f"{prefix}.embeddings.position_ids"] = torch.arange(16).unsqueeze(0)
                state[f"{head}.decoder.weight"] = model.state_dict()[f"{head}.decoder.weight"].clone()
                state[f"{head}.decoder.bias"] = model.state_dict()[f"{head}.bias"].clone()
                if name == "bert":
                    state["cls.seq_relationship.weight"], state["cls.seq_relationship.bias"] = torch.ones(2, 24), torch.ones(2)
                safetensors.torch.save_file(state, path, metadata={"format": "pt"})
                self.assert_same(state_of(model, self.ours(self.folder / name)), model.state_dict())

    def test_configurations_that_keys_cannot_say_are_refused(self):
        for name, changes, problem in (
            ("bert", {"type_vocab_size": 4}, "type_vocab_size"),
            ("bert", {"hidden_act": "relu"}, "hidden_act"),
            ("bert", {"is_decoder": True}, "is_decoder"),
            ("xlm_roberta", {"pad_token_id": 0}, "pad_token_id"),
        ):
            with self.subTest(name, **changes):
                model = small(name)
                model.save_pretrained(self.folder / name)
                path = self.folder / name / "config.json"
                path.write_text(json.dumps(json.loads(path.read_text()) | changes))
                with self.assertRaisesRegex(AssertionError, f"/{problem}: is"):
                    self.ours(self.folder / name)


if __name__ == "__main__":
    decoders.TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
