# SPDX-License-Identifier: Apache-2.0
"""The vision transformer's blocks against transformers' (families_oracle_test.py)."""
import torch
from body_program import BodyTest, randomize
from transformers import ViTConfig
from transformers.models.vit import modeling_vit

HIDDEN, HEADS, WIDTH, SAMPLES, IMAGE, PATCH = 24, 3, 40, 3, 12, 4
TOKENS = 1 + (IMAGE // PATCH) ** 2
SETTINGS = {"hidden": HIDDEN, "heads": HEADS, "width": WIDTH, "image": IMAGE, "patch": PATCH, "activation": "gelu",
            "classes": 4, "sequences": SAMPLES}


def config():
    # Not "eager", which takes the softmax in fp32 of whatever is given.
    return ViTConfig(hidden_size=HIDDEN, num_attention_heads=HEADS, intermediate_size=WIDTH, image_size=IMAGE,
                     patch_size=PATCH, attn_implementation="sdpa", num_labels=4)


def layer_names(module):
    """The layer's parameters by the body's names, however the version of transformers calls them."""
    owned = {"q_proj": "attention.query", "query": "attention.query", "k_proj": "attention.key",
             "key": "attention.key", "v_proj": "attention.value", "value": "attention.value",
             "o_proj": "attention.output", "fc1": "ffn.up", "fc2": "ffn.down",
             "layernorm_before": "attention_norm", "layernorm_after": "ffn_norm"}
    return {f"{owned[name.split('.')[-2]]}.{name.split('.')[-1]}": name for name, _ in module.named_parameters()}


class VitTest(BodyTest):
    def test_embedding(self):
        for dtype in (torch.float32, torch.float64):
            module = randomize(modeling_vit.ViTEmbeddings(config()).to(dtype))
            names = {"patch.weight": "patch_embeddings.projection.weight", "patch.bias": "patch_embeddings.projection.bias",
                     "class.weight": "cls_token", "position.weight": "position_embeddings"}
            report = self.check_block({**SETTINGS, "body": "vit.embedding"}, module, names,
                                      {"pixels": torch.randn(SAMPLES, 3, IMAGE, IMAGE, dtype=dtype)},
                                      lambda t, m=module: m(t["pixels"]))
            self.assertEqual(report["forward_flops"], 2 * SAMPLES * (TOKENS - 1) * HIDDEN * 3 * PATCH * PATCH)
            self.assertEqual(report["kept"], {})

    def test_layer(self):
        for dtype in (torch.float32, torch.float64):
            module = randomize(modeling_vit.ViTLayer(config()).to(dtype))
            report = self.check_block({**SETTINGS, "body": "vit.layer"}, module, layer_names(module),
                                      {"x": torch.randn(SAMPLES, TOKENS, HIDDEN, dtype=dtype)},
                                      lambda t, m=module: m(t["x"]), no_gradient=["attention.key.bias"])
            rows = SAMPLES * TOKENS
            products = rows * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * WIDTH) + 2 * SAMPLES * TOKENS**2 * HIDDEN
            self.assertEqual(report["forward_flops"], 2 * products)

    def test_classifier(self):
        class Classifier(torch.nn.Module):
            """What ViTForImageClassification has behind the layers."""

            def __init__(self):
                super().__init__()
                self.layernorm = torch.nn.LayerNorm(HIDDEN, eps=config().layer_norm_eps)
                self.classifier = torch.nn.Linear(HIDDEN, 4)

            def forward(self, x):
                return self.classifier(self.layernorm(x)[:, 0, :])

        for dtype in (torch.float32, torch.float64):
            module = randomize(Classifier().to(dtype))
            names = {f"{own}.{part}": f"{theirs}.{part}" for own, theirs in (("norm", "layernorm"), ("classifier", "classifier"))
                     for part in ("weight", "bias")}
            self.check_block({**SETTINGS, "body": "vit.classifier"}, module, names,
                             {"x": torch.randn(SAMPLES, TOKENS, HIDDEN, dtype=dtype)}, lambda t, m=module: m(t["x"]),
                             output=(SAMPLES, 1, 4))
