# SPDX-License-Identifier: Apache-2.0
"""BERT's blocks against transformers' (families_oracle_test.py)."""
import torch
from body_program import BodyTest, Ragged, randomize
from transformers import BertConfig
from transformers.models.bert import modeling_bert

HIDDEN, HEADS, WIDTH, VOCABULARY = 24, 3, 40, 50
BATCH = Ragged([7, 3, 5])
SETTINGS = {"hidden": HIDDEN, "heads": HEADS, "width": WIDTH, "vocabulary": VOCABULARY, "positions": 11,
            "token_types": 2, "activation": "gelu", "classes": 4, "sequences": 3, "tokens": 7}
LAYER = {"attention.query": "attention.self.query", "attention.key": "attention.self.key",
         "attention.value": "attention.self.value", "attention.output": "attention.output.dense",
         "attention_norm": "attention.output.LayerNorm", "ffn.up": "intermediate.dense", "ffn.down": "output.dense",
         "ffn_norm": "output.LayerNorm"}


def config(**changes):
    return BertConfig(**{**dict(
        hidden_size=HIDDEN, num_attention_heads=HEADS, intermediate_size=WIDTH, vocab_size=VOCABULARY,
        max_position_embeddings=11, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="eager", num_labels=4), **changes})


def with_biases(names):
    return {f"{own}.{part}": f"{theirs}.{part}" for own, theirs in names.items() for part in ("weight", "bias")}


class BertTest(BodyTest):
    def test_embedding(self):
        for dtype in (torch.float32, torch.float64):
            module = randomize(modeling_bert.BertEmbeddings(config(pad_token_id=None)).to(dtype))
            given = {"token_ids": torch.randint(VOCABULARY, (3, 7)), "token_types": torch.randint(2, (3, 7))}
            names = {"token.weight": "word_embeddings.weight", "position.weight": "position_embeddings.weight",
                     "token_type.weight": "token_type_embeddings.weight", **with_biases({"norm": "LayerNorm"})}
            report = self.check_block({**SETTINGS, "body": "bert.embedding"}, module, names, given,
                                      lambda t, m=module: m(t["token_ids"], t["token_types"]))
            self.assertEqual(report["forward_flops"], 0)

    def test_layer_on_ragged_sequences(self):
        for dtype in (torch.float32, torch.float64):
            for activation, theirs in (("gelu", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu")):
                module = randomize(modeling_bert.BertLayer(config(hidden_act=theirs)).to(dtype))
                given = {"x": BATCH.rows(HIDDEN, dtype)}

                def compute(t, m=module, dtype=dtype):
                    made = m(t["x"], BATCH.mask(dtype))
                    return made[0] if isinstance(made, tuple) else made

                report = self.check_block(
                    {**SETTINGS, "body": "bert.layer", "activation": activation}, module, with_biases(LAYER),
                    {**given, "documents.tokens": BATCH.documents}, compute, BATCH.of_real, ["attention.key.bias"])
                rows = 3 * 7
                # Four projections, two linear layers, and for each head two products of all tokens with all.
                products = rows * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * WIDTH) + 2 * 3 * 7 * 7 * HIDDEN
                self.assertEqual(report["forward_flops"], 2 * products)
                self.assertEqual(report["backward_flops"], 4 * products)
                # The input, queries, keys, values, what is mixed, both sums, the normed one, the activation's result
                # and but for relu its operand; two statistics of each norm, and one for each head.
                widths = 1 if activation == "relu" else 2
                elements = rows * (8 * HIDDEN + widths * WIDTH + 4 + HEADS)
                self.assertEqual(sum(report["kept"].values()), elements * dtype.itemsize, report["kept"])

    def test_masked_language_head(self):
        for dtype in (torch.float32, torch.float64):
            module = randomize(modeling_bert.BertLMPredictionHead(config()).to(dtype))
            module.bias = module.decoder.bias  # as transformers ties them
            names = {**with_biases({"transform": "transform.dense", "norm": "transform.LayerNorm"}),
                     "head.weight": "decoder.weight", "head.bias": "bias"}
            report = self.check_block({**SETTINGS, "body": "bert.masked_language_head"}, module, names,
                                      {"x": BATCH.rows(HIDDEN, dtype)}, lambda t, m=module: m(t["x"]))
            self.assertEqual(report["forward_flops"], 2 * 3 * 7 * HIDDEN * (HIDDEN + VOCABULARY))

    def test_classifier(self):
        class Classifier(torch.nn.Module):
            """What BertForSequenceClassification has behind the layers."""

            def __init__(self):
                super().__init__()
                self.pooler = modeling_bert.BertPooler(config())
                self.classifier = torch.nn.Linear(HIDDEN, 4)

            def forward(self, x):
                return self.classifier(self.pooler(x))

        for dtype in (torch.float32, torch.float64):
            module = randomize(Classifier().to(dtype))
            names = with_biases({"pooler": "pooler.dense", "classifier": "classifier"})
            self.check_block({**SETTINGS, "body": "bert.classifier"}, module, names, {"x": BATCH.rows(HIDDEN, dtype)},
                             lambda t, m=module: m(t["x"]), output=(3, 1, 4))
