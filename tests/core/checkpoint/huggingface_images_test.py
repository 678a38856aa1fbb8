#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests export and import of models of images with the real transformers package: huggingface_images_test.py TOOL."""

import json
import pathlib
import sys
import unittest

import huggingface_roundtrip_test as decoders
import safetensors.torch
import torch
import transformers

CLASSES = ["cat", "dog", "fish"]
KEYS = {"architecture": "vit", "layers": 2, "hidden_size": 24, "heads": 4, "ffn_hidden_size": 40,
        "image": {"size": 12, "patch": 4, "channels": 3}, "norm_eps": 1e-6, "activation": "gelu_tanh",
        "classifier": {"of": "sequence", "classes": CLASSES}}  # fmt: skip
PARTS = {"attention_norm": "layernorm_before", "ffn_norm": "layernorm_after", "attention.query": "attention.q_proj",
         "attention.key": "attention.k_proj", "attention.value": "attention.v_proj",
         "attention.output": "attention.o_proj", "ffn.up": "mlp.fc1", "ffn.down": "mlp.fc2"}  # fmt: skip


def state_of(ours):
    """The state_dict of ViTForImageClassification from our weights."""
    state = {"vit.embeddings.cls_token": ours["embedding.class.weight"].unsqueeze(0),
             "vit.embeddings.position_embeddings": ours["embedding.position.weight"].unsqueeze(0),
             "vit.embeddings.patch_embeddings.projection.weight": ours["embedding.patch.weight"].view(24, 3, 4, 4),
             "vit.embeddings.patch_embeddings.projection.bias": ours["embedding.patch.bias"]}  # fmt: skip
    for kind in ("weight", "bias"):
        state[f"vit.layernorm.{kind}"] = ours[f"head.norm.{kind}"]
        state[f"classifier.{kind}"] = ours[f"head.classifier.{kind}"]
        for layer in range(2):
            for mine, theirs in PARTS.items():
                state[f"vit.layers.{layer}.{theirs}.{kind}"] = ours[f"layers.{layer}.{mine}.{kind}"]
    return state


class Images(unittest.TestCase):
    setUp, tool = decoders.RoundTrip.setUp, decoders.RoundTrip.tool
    write_recipe, assert_same = decoders.RoundTrip.write_recipe, decoders.RoundTrip.assert_same

    def export(self, keys=KEYS, name="theirs"):
        folder = self.folder / name
        self.tool("export", self.write_recipe(keys), folder, self.folder / "ours.safetensors", "fp32")
        return folder, safetensors.torch.load_file(self.folder / "ours.safetensors")

    def imported(self, folder, keys=KEYS):
        self.tool("import", folder, self.write_recipe(keys), self.folder / "back.safetensors")
        return safetensors.torch.load_file(self.folder / "back.safetensors")

    def change_config(self, folder, **changes):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def test_transformers_loads_an_export_and_what_it_saves_is_read(self):
        folder, ours = self.export()
        model, report = transformers.ViTForImageClassification.from_pretrained(folder, output_loading_info=True, dtype="auto")
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            self.assertFalse(report[kind], f"{kind}: {report[kind]}")
        self.assertEqual(model.config.id2label, dict(enumerate(CLASSES)))
        self.assertEqual((model.config.image_size, model.config.patch_size), (12, 4))
        self.assert_same(model.state_dict(), state_of(ours))
        self.assertFalse((folder / "generation_config.json").exists())
        model.save_pretrained(folder / "again")
        keys = json.loads(self.tool("model", folder / "again"))
        self.assertEqual({key: keys[key] for key in KEYS}, KEYS)
        self.assertEqual((keys["vocab_size"], keys["max_sequence_length"]), (1, 10))
        self.assert_same(self.imported(folder / "again"), ours)

    def test_a_head_of_other_classes_begins_anew_and_the_last_norm_does_not(self):
        for classes in (CLASSES[::-1], CLASSES[:2]):
            folder, ours = self.export(KEYS | {"classifier": {"classes": classes}}, f"of-{len(classes)}")
            kept = {name: tensor for name, tensor in ours.items() if not name.startswith("head.classifier.")}
            self.assert_same(self.imported(folder), kept)
            self.assertIn("head.norm.weight", kept)

    def test_a_model_without_a_head_is_a_base(self):
        torch.manual_seed(1)
        config = transformers.ViTConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
                                        image_size=12, patch_size=4, layer_norm_eps=1e-6, hidden_act="gelu_new")  # fmt: skip
        model = transformers.ViTModel(config)  # with a pooler, which nothing reads
        model.save_pretrained(self.folder / "base")
        self.assertIsNone(json.loads(self.tool("model", self.folder / "base"))["classifier"])
        back = self.imported(self.folder / "base")
        self.assertNotIn("head.classifier.weight", back)
        theirs = {f"vit.{name}": tensor for name, tensor in model.state_dict().items() if not name.startswith("pooler.")}
        heads = {f"head.classifier.{kind}": torch.zeros(1) for kind in ("weight", "bias")}
        ours = {name: tensor for name, tensor in state_of(back | heads).items() if name.startswith("vit.")}
        self.assert_same(ours, theirs)

    def test_what_keys_cannot_express_is_refused(self):
        for changes, problem in (({"qkv_bias": False}, "qkv_bias"), ({"patch_size": 5}, "patch_size"),
                                 ({"hidden_act": "relu"}, "hidden_act"), ({"image_size": [12, 16]}, "image_size")):  # fmt: skip
            with self.subTest(problem):
                folder, _ = self.export(name=problem)
                self.change_config(folder, **changes)
                with self.assertRaisesRegex(AssertionError, f"/{problem}: "):
                    self.tool("model", folder)

    def test_other_patches_and_sizes_are_other_models(self):
        folder, _ = self.export()
        for image in ({"size": 12, "patch": 2}, {"size": 16, "patch": 4}):
            with self.assertRaisesRegex(AssertionError, "model/image"):
                self.imported(folder, KEYS | {"image": image})
        path = folder / "model.safetensors"
        tensors = safetensors.torch.load_file(path)
        tensors["vit.embeddings.position_embeddings"] = torch.zeros(1, 9, 24)
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
        with self.assertRaisesRegex(AssertionError, r"has the shape \[1,9,24\], but config.json implies \[1,10,24\]"):
            self.imported(folder)


if __name__ == "__main__":
    decoders.TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
