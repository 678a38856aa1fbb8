# SPDX-License-Identifier: Apache-2.0
"""T5's and BART's blocks against transformers' (families_oracle_test.py)."""
import functools

import torch
from body_program import BodyTest, Ragged, randomize
from transformers import BartConfig, T5Config
from transformers.models.bart import modeling_bart
from transformers.models.t5 import modeling_t5

HIDDEN, HEADS, HEAD_DIM, WIDTH = 24, 3, 5, 40
# A row is padded in both or in neither: the documents of both are pairs.
TARGET, SOURCE = Ragged([7, 3, 5]), Ragged([9, 4, 6])
SIZES = {"hidden": HIDDEN, "heads": HEADS, "width": WIDTH, "sequences": 3, "tokens": 7, "source": 9}
KINDS = (torch.float32, torch.float64)


def first_of(made):
    return made[0] if isinstance(made, tuple) else made


def with_exact_norms(module):
    """T5's norms take their statistics in fp32: in float64 others of the same formula stand in for them."""
    for part in module.modules():
        if isinstance(part, modeling_t5.T5LayerNorm) and part.weight.dtype == torch.float64:
            part.forward = functools.partial(torch.nn.functional.rms_norm, normalized_shape=(HIDDEN,),
                                             weight=part.weight, eps=part.variance_epsilon)
    return module


def buckets_of(is_decoder, tokens, buckets=8, most=20):
    distance = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    return modeling_t5.T5Attention._relative_position_bucket(
        distance, bidirectional=not is_decoder, num_buckets=buckets, max_distance=most)


class T5Test(BodyTest):
    SETTINGS = {**SIZES, "head_dim": HEAD_DIM, "buckets": 8, "most_distance": 20, "activation": "relu",
                "is_gated": False}
    ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}

    @staticmethod
    def config(is_decoder, projection):
        made = T5Config(d_model=HIDDEN, num_heads=HEADS, d_kv=HEAD_DIM, d_ff=WIDTH, dropout_rate=0.0,
                        relative_attention_num_buckets=8, relative_attention_max_distance=20,
                        feed_forward_proj=projection, attn_implementation="eager")
        made.is_decoder = is_decoder
        return made

    def names(self, is_decoder, is_gated):
        names = {"attention_norm.weight": "layer.0.layer_norm.weight"}
        names |= {f"attention.{own}.weight": f"layer.0.SelfAttention.{theirs}.weight"
                  for own, theirs in self.ATTENTION.items()}
        last = 1
        if is_decoder:
            last = 2
            names["cross_attention_norm.weight"] = "layer.1.layer_norm.weight"
            names |= {f"cross_attention.{own}.weight": f"layer.1.EncDecAttention.{theirs}.weight"
                      for own, theirs in self.ATTENTION.items()}
        of_network = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if is_gated else {"up": "wi", "down": "wo"}
        return names | {"ffn_norm.weight": f"layer.{last}.layer_norm.weight"} | {
            f"ffn.{own}.weight": f"layer.{last}.DenseReluDense.{theirs}.weight" for own, theirs in of_network.items()}

    def check_layer(self, is_decoder, is_gated, dtype):
        config = self.config(is_decoder, "gated-gelu" if is_gated else "relu")
        module = with_exact_norms(randomize(modeling_t5.T5Block(config, layer_idx=0).to(dtype)))
        given = {"x": TARGET.rows(HIDDEN, dtype), "score_bias": torch.randn(HEADS, 7, 7, dtype=dtype)}
        documents = {"documents.tokens": TARGET.documents}
        if is_decoder:
            given["memory"] = SOURCE.rows(HIDDEN, dtype)
            documents["documents.source"] = SOURCE.documents

        def compute(t):
            others = {}
            if is_decoder:
                others = {"encoder_hidden_states": t["memory"],
                          "encoder_attention_mask": SOURCE.mask(dtype, queries=7)}
            return first_of(module(t["x"], attention_mask=TARGET.mask(dtype, is_causal=is_decoder),
                                   position_bias=t["score_bias"].unsqueeze(0), **others))

        settings = {**self.SETTINGS, "body": f"t5.{'de' if is_decoder else 'en'}coder_layer", "is_gated": is_gated,
                    "activation": "gelu_tanh" if is_gated else "relu"}
        report = self.check_block(settings, module, self.names(is_decoder, is_gated), {**given, **documents}, compute,
                                  TARGET.of_real)
        rows, sources, all_heads = 3 * 7, 3 * 9, HEADS * HEAD_DIM
        products = rows * (4 * HIDDEN * all_heads + (3 if is_gated else 2) * HIDDEN * WIDTH) + 2 * 3 * 7 * 7 * all_heads
        if is_decoder:
            products += 2 * (rows + sources) * HIDDEN * all_heads + 2 * 3 * 7 * 9 * all_heads
        self.assertEqual(report["forward_flops"], 2 * products)
        self.assertEqual(report["kept"]["attention.mixed.probabilities"], 3 * HEADS * 7 * 7 * dtype.itemsize)

    def test_layers_on_ragged_sequences(self):
        for dtype in KINDS:
            for is_gated in (False, True):
                for is_decoder in (False, True):
                    with self.subTest(dtype=dtype, is_gated=is_gated, is_decoder=is_decoder):
                        self.check_layer(is_decoder, is_gated, dtype)

    def test_relative_bias(self):
        for is_decoder in (False, True):
            attention = modeling_t5.T5Attention(self.config(is_decoder, "relu"), has_relative_attention_bias=True,
                                                layer_idx=0)
            table = randomize(attention.relative_attention_bias)
            self.check_block(
                {**self.SETTINGS, "body": "t5.relative_bias", "is_decoder": is_decoder}, table,
                {"relative_bias.weight": "weight"}, {"relative_buckets": buckets_of(is_decoder, 7)},
                lambda t, a=attention: a.compute_bias(7, 7)[0])


class BartTest(BodyTest):
    SETTINGS = {**SIZES, "vocabulary": 50, "positions": 11, "activation": "gelu", "scales_embedding": False}
    ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}

    @staticmethod
    def config(**changes):
        return BartConfig(**{**dict(
            d_model=HIDDEN, vocab_size=50, max_position_embeddings=11, encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS, encoder_ffn_dim=WIDTH, decoder_ffn_dim=WIDTH, dropout=0.0,
            attention_dropout=0.0, activation_dropout=0.0, attn_implementation="eager"), **changes})

    def names(self, is_decoder):
        names = {"attention_norm": "self_attn_layer_norm", "ffn.up": "fc1", "ffn.down": "fc2",
                 "ffn_norm": "final_layer_norm"}
        names |= {f"attention.{own}": f"self_attn.{theirs}" for own, theirs in self.ATTENTION.items()}
        if is_decoder:
            names["cross_attention_norm"] = "encoder_attn_layer_norm"
            names |= {f"cross_attention.{own}": f"encoder_attn.{theirs}" for own, theirs in self.ATTENTION.items()}
        return {f"{own}.{part}": f"{theirs}.{part}" for own, theirs in names.items() for part in ("weight", "bias")}

    def test_layers_on_ragged_sequences(self):
        for dtype in KINDS:
            for is_decoder in (False, True):
                kind = modeling_bart.BartDecoderLayer if is_decoder else modeling_bart.BartEncoderLayer
                module = randomize(kind(self.config(), layer_idx=0).to(dtype))
                given = {"x": TARGET.rows(HIDDEN, dtype), "documents.tokens": TARGET.documents}
                if is_decoder:
                    given |= {"memory": SOURCE.rows(HIDDEN, dtype), "documents.source": SOURCE.documents}

                def compute(t, m=module, dtype=dtype, is_decoder=is_decoder):
                    mask = TARGET.mask(dtype, is_causal=is_decoder)
                    if not is_decoder:
                        return first_of(m(t["x"], mask))
                    return first_of(m(t["x"], mask, encoder_hidden_states=t["memory"],
                                      encoder_attention_mask=SOURCE.mask(dtype, queries=7)))

                name = f"bart.{'de' if is_decoder else 'en'}coder_layer"
                with self.subTest(name, dtype=dtype):
                    self.check_block({**self.SETTINGS, "body": name}, module, self.names(is_decoder), given, compute,
                                     TARGET.of_real, ["attention.key.bias", "cross_attention.key.bias"])

    def test_embedding(self):
        for dtype in KINDS:
            for scales in (False, True):
                config = self.config(scale_embedding=scales, pad_token_id=None, encoder_layers=0)
                module = randomize(modeling_bart.BartEncoder(config).to(dtype))
                names = {"token.weight": "embed_tokens.weight", "position.weight": "embed_positions.weight",
                         "norm.weight": "layernorm_embedding.weight", "norm.bias": "layernorm_embedding.bias"}
                self.check_block({**self.SETTINGS, "body": "bart.embedding", "scales_embedding": scales}, module, names,
                                 {"token_ids": torch.randint(50, (3, 7))},
                                 lambda t, m=module: m(t["token_ids"]).last_hidden_state)
