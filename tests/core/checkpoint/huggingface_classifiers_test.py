#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests export and import of heads for classes with the real transformers package: huggingface_classifiers_test.py TOOL."""

import json
import pathlib
import sys
import unittest

import huggingface_encoders_test as encoders
import huggingface_roundtrip_test as decoders
import safetensors.torch
import torch
import transformers

CLASSES = ["sad", "glad", "calm"]
SPAN = ["start", "end"]
OF = {"sequence": "SequenceClassification", "token": "TokenClassification", "span": "QuestionAnswering"}
FAMILIES = {"bert": "Bert", "roberta": "XLMRoberta"}
# By family and what has a class, our names of the head's parts and theirs.
HEADS = {("bert", "sequence"): {"head.pooler": "bert.pooler.dense", "head.classifier": "classifier"},
         ("roberta", "sequence"): {"head.pooler": "classifier.dense", "head.classifier": "classifier.out_proj"},
         ("bert", "token"): {"head.classifier": "classifier"}, ("roberta", "token"): {"head.classifier": "classifier"},
         ("bert", "span"): {"head.classifier": "qa_outputs"}, ("roberta", "span"): {"head.classifier": "qa_outputs"}}  # fmt: skip


def keys_of(family, of, classes=None):
    classes = classes or (SPAN if of == "span" else CLASSES)
    return decoders.SHAPE | {"architecture": family, "classifier": {"of": of, "classes": list(classes)}}


def class_of(family, of):
    return f"{FAMILIES[family]}For{OF[of]}"


def state_of(ours, family, of):
    """The state_dict of the class from our weights: what it shares with a model of hidden tokens, and its head."""
    body = {name: tensor for name, tensor in ours.items() if not name.startswith("head.")}
    body |= {f"head.{part}.{kind}": torch.zeros(1) for part in ("transform", "norm", "head") for kind in ("weight", "bias")}
    prefix = "bert" if family == "bert" else "roberta"
    state = {name: tensor for name, tensor in encoders.encoder_tensors(body, True, prefix).items() if name.startswith(prefix)}
    for mine, theirs in HEADS[family, of].items():
        state |= {f"{theirs}.{kind}": ours[f"{mine}.{kind}"] for kind in ("weight", "bias")}
    return state


class Classifiers(unittest.TestCase):
    setUp, tool = decoders.RoundTrip.setUp, decoders.RoundTrip.tool
    write_recipe, assert_same = decoders.RoundTrip.write_recipe, decoders.RoundTrip.assert_same

    def export(self, keys, name="theirs"):
        recipe, folder = self.write_recipe(keys), self.folder / name
        self.tool("export", recipe, folder, self.folder / "ours.safetensors", "fp32")
        return folder, safetensors.torch.load_file(self.folder / "ours.safetensors")

    def imported(self, folder, keys):
        self.tool("import", folder, self.write_recipe(keys), self.folder / "back.safetensors")
        return safetensors.torch.load_file(self.folder / "back.safetensors")

    def test_transformers_loads_every_export(self):
        for family, of in HEADS:
            with self.subTest(f"{family} {of}"):
                folder, ours = self.export(keys_of(family, of), f"{family}-{of}")
                name = class_of(family, of)
                model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, dtype="auto")
                for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
                    self.assertFalse(report[kind], f"{kind}: {report[kind]}")
                self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], [name])
                classes = keys_of(family, of)["classifier"]["classes"]
                self.assertEqual(model.config.id2label, dict(enumerate(classes)))
                self.assertEqual(model.config.label2id[classes[-1]], len(classes) - 1)
                self.assert_same(model.state_dict(), state_of(ours, family, of))
                model.save_pretrained(folder / "again")
                keys = json.loads(self.tool("model", folder / "again"))
                self.assertEqual(keys["classifier"], {"of": of, "classes": classes})
                self.assert_same(self.imported(folder / "again", keys), ours)

    def test_classes_without_names_are_those_of_the_recipe(self):
        folder, ours = self.export(keys_of("bert", "sequence"))
        config = json.loads((folder / "config.json").read_text())
        del config["id2label"], config["label2id"]
        (folder / "config.json").write_text(json.dumps(config | {"num_labels": 3}))
        self.assertEqual(json.loads(self.tool("model", folder))["classifier"]["classes"], ["LABEL_0", "LABEL_1", "LABEL_2"])
        self.assert_same(self.imported(folder, keys_of("bert", "sequence")), ours)

    def test_heads_of_other_classes_are_not_taken_over(self):
        for family in FAMILIES:
            for of in ("sequence", "token"):
                for before, keys in (
                    ("tokens", decoders.SHAPE | {"architecture": family}),
                    ("other order", keys_of(family, of, reversed(CLASSES))),
                    ("fewer", keys_of(family, of, CLASSES[:2])),
                    ("other part", keys_of(family, "token" if of == "sequence" else "sequence")),
                    ("span", keys_of(family, "span")),
                ):
                    with self.subTest(f"{family} {of} after {before}"):
                        folder, ours = self.export(keys, f"{family}-{of}-{before}")
                        kept = {name: tensor for name, tensor in ours.items() if not name.startswith("head.")}
                        if of == "sequence" and before in ("other order", "fewer"):
                            kept |= {f"head.pooler.{kind}": ours[f"head.pooler.{kind}"] for kind in ("weight", "bias")}
                        self.assert_same(self.imported(folder, keys_of(family, of)), kept)

    def test_heads_of_spans_begin_anew_after_others(self):
        for family in FAMILIES:
            for of in ("sequence", "token"):
                with self.subTest(f"{family} {of}"):
                    folder, ours = self.export(keys_of(family, of, CLASSES[:2]), f"{family}-{of}")
                    kept = {name: tensor for name, tensor in ours.items() if not name.startswith("head.")}
                    self.assert_same(self.imported(folder, keys_of(family, "span")), kept)

    def test_labels_of_spans_are_a_start_and_an_end(self):
        folder, ours = self.export(keys_of("bert", "span"))
        path = folder / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}))
        self.assertEqual(json.loads(self.tool("model", folder))["classifier"]["classes"], SPAN)
        self.assert_same(self.imported(folder, keys_of("bert", "span")), ours)
        path.write_text(json.dumps(config | {"id2label": {"0": "a", "1": "b", "2": "c"}}))
        with self.assertRaisesRegex(AssertionError, "/id2label: names 3 labels"):
            self.tool("model", folder)

    def test_poolers_of_the_hub_are_taken_over(self):
        folder, ours = self.export(decoders.SHAPE | {"architecture": "bert"})
        path = folder / "model.safetensors"
        pooler = {f"bert.pooler.dense.{kind}": torch.rand(shape) for kind, shape in (("weight", (24, 24)), ("bias", (24,)))}
        safetensors.torch.save_file(safetensors.torch.load_file(path) | pooler, path, metadata={"format": "pt"})
        kept = {name: tensor for name, tensor in ours.items() if not name.startswith("head.")}
        kept |= {f"head.pooler.{kind}": pooler[f"bert.pooler.dense.{kind}"] for kind in ("weight", "bias")}
        self.assert_same(self.imported(folder, keys_of("bert", "sequence")), kept)

    def test_what_is_no_choice_of_one_class_is_refused(self):
        for changes, problem in (({"problem_type": "multi_label_classification"}, "problem_type"),
                                 ({"id2label": {"0": "a", "2": "b"}}, "id2label")):  # fmt: skip
            with self.subTest(problem):
                folder, _ = self.export(keys_of("bert", "sequence"), problem)
                path = folder / "config.json"
                path.write_text(json.dumps(json.loads(path.read_text()) | changes))
                with self.assertRaisesRegex(AssertionError, f"/{problem}: "):
                    self.tool("model", folder)

    def test_a_part_of_the_same_head_may_not_be_missing(self):
        folder, _ = self.export(keys_of("bert", "sequence"))
        path = folder / "model.safetensors"
        tensors = safetensors.torch.load_file(path)
        del tensors["classifier.bias"]
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
        with self.assertRaisesRegex(AssertionError, '"classifier.bias" is missing'):
            self.imported(folder, keys_of("bert", "sequence"))


if __name__ == "__main__":
    decoders.TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
