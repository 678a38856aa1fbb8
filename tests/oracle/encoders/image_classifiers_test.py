# SPDX-License-Identifier: Apache-2.0
"""Models of images compute and learn what transformers' ViTForImageClassification does, whose folders are read, and
residual networks what the same network of PyTorch's modules does."""
import json
import sys
import unittest

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} lacks a package ({error}); name another one in LLMTRAIN_PYTHON")
    sys.exit(77)

from encoder_models import SHAPE, EncoderTest, randomized
from residual_network import ResidualNetwork

IMAGES, CLASSES = 6, 3
SIZES = {key: value for key, value in SHAPE.items() if key != "vocab_size"}
# A side of two patches and one of three, with other numbers of channels.
INPUTS = {"8 of 4": {"image_size": 8, "patch_size": 4}, "9 of 3, grey": {"image_size": 9, "patch_size": 3,
                                                                       "num_channels": 1}}
# Our names of a model's parts, "layers.N." beside these.
PARTS = {"layernorm_before": "attention_norm", "layernorm_after": "ffn_norm", "attention.q_proj": "attention.query",
         "attention.k_proj": "attention.key", "attention.v_proj": "attention.value",
         "attention.o_proj": "attention.output", "mlp.fc1": "ffn.up", "mlp.fc2": "ffn.down",
         "embeddings.patch_embeddings.projection": "embedding.patch", "layernorm": "head.norm",
         "classifier": "head.classifier"}
WHOLE = {"embeddings.cls_token": "embedding.class.weight", "embeddings.position_embeddings": "embedding.position.weight"}


def our_name(name):
    name = name.removeprefix("vit.")
    if name in WHOLE:
        return WHOLE[name]
    part, kind = name.rsplit(".", 1)
    if not part.startswith("layers."):
        return f"{PARTS[part]}.{kind}"
    _, layer, part = part.split(".", 2)
    return f"layers.{layer}.{PARTS[part]}.{kind}"


def ours_of(tensors):
    """Tensors of transformers' names under ours, in our shapes: a kernel is [output, input], a table [rows, width]."""
    ours = {}
    for name, tensor in tensors:
        key = our_name(name)
        ours[key] = tensor.flatten(1) if tensor.dim() == 4 else tensor[0] if tensor.dim() == 3 else tensor
    return ours


def model_of(name):
    torch.manual_seed(5)
    config = transformers.ViTConfig(num_labels=CLASSES, **INPUTS[name], **SIZES)
    return randomized(transformers.ViTForImageClassification(config))


class Images:
    def __init__(self, side, channels):
        generator = torch.Generator().manual_seed(9)
        self.pixels = torch.randn((IMAGES, channels, side, side), generator=generator)
        self.label = torch.randint(CLASSES, (IMAGES,), generator=generator)

    def save(self, path):
        safetensors.torch.save_file({"pixels": self.pixels, "label": self.label}, path)

    def theirs(self, dtype=torch.float32):
        return {"pixel_values": self.pixels.to(dtype), "labels": self.label}


class ImageClassifiers(EncoderTest):
    def for_models(self):
        for name in INPUTS:
            with self.subTest(name):
                model = model_of(name)
                model.save_pretrained(self.folder / "hf")
                yield model, Images(model.config.image_size, model.config.num_channels)

    def test_logits_losses_and_gradients_are_those_of_transformers(self):
        for model, images in self.for_models():
            model.double()
            theirs = model(**images.theirs(torch.float64))
            theirs.loss.backward()
            images.save(self.folder / "samples.safetensors")
            ours = self.tool("passes", self.folder / "hf", self.folder / "samples.safetensors", 0)
            self.assert_close(ours["logits"], theirs.logits, 1e-10, "logits")
            self.assertEqual(ours["losses"].shape, (IMAGES,))
            self.assertAlmostEqual(ours["losses"].mean().item(), theirs.loss.item(), places=10)
            self.assert_gradients(ours, ours_of([(key, value.grad) for key, value in model.named_parameters()]))

    def test_training_changes_weights_as_pytorch_does(self):
        for model, images in self.for_models():
            self.check_training(model, images, {"global": IMAGES}, ours_of)


# Odd sides, a stage that keeps its channels and one that does not, and other numbers of channels of a pixel.
NETWORKS = {
    "basic": {"size": 27, "channels": 3, "stem_channels": 6, "groups": 3, "block": "basic",
              "stages": [{"blocks": 1, "channels": 6}, {"blocks": 2, "channels": 9}]},
    "bottleneck, grey": {"size": 34, "channels": 1, "stem_channels": 4, "groups": 2, "block": "bottleneck",
                         "stages": [{"blocks": 2, "channels": 8}, {"blocks": 1, "channels": 16},
                                    {"blocks": 1, "channels": 16}]},
}


class ResidualNetworks(EncoderTest):
    def for_models(self):
        for name, shape in NETWORKS.items():
            with self.subTest(name):
                self.shape = shape
                torch.manual_seed(7)
                model = randomized(ResidualNetwork(shape, CLASSES))
                safetensors.torch.save_file(self.ours_of(model.state_dict().items()),
                                            self.folder / "weights.safetensors")
                yield model, Images(shape["size"], shape["channels"])

    def model_keys(self):
        image = {key: self.shape[key] for key in ("size", "channels")}
        resnet = {key: self.shape[key] for key in ("stem_channels", "groups", "block", "stages")}
        return {"architecture": "resnet", "image": image, "resnet": resnet,
                "classifier": {"classes": [str(number) for number in range(CLASSES)]}}

    @staticmethod
    def ours_of(tensors):
        return {name: tensor.flatten(1).contiguous() if tensor.dim() == 4 else tensor.contiguous()
                for name, tensor in tensors}

    def test_logits_losses_and_gradients_are_those_of_pytorch(self):
        for model, images in self.for_models():
            model.double()
            theirs = model(**images.theirs(torch.float64))
            theirs.loss.backward()
            images.save(self.folder / "samples.safetensors")
            (self.folder / "model.json").write_text(json.dumps({
                "model": self.model_keys(), "batch": {"global": IMAGES, "micro": IMAGES}, "training": {"steps": 1}}))
            ours = self.tool("passes", self.folder / "model.json", self.folder / "samples.safetensors", 0)
            self.assert_close(ours["logits"], theirs.logits, 1e-10, "logits")
            self.assertAlmostEqual(ours["losses"].mean().item(), theirs.loss.item(), places=10)
            self.assert_gradients(ours, self.ours_of([(key, value.grad) for key, value in model.named_parameters()]))

    def test_training_changes_weights_as_pytorch_does(self):
        for model, images in self.for_models():
            self.check_training(model, images, {"global": IMAGES}, self.ours_of)


if __name__ == "__main__":
    unittest.main()
