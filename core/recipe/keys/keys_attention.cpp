// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> linear_attention_words = {"gated_delta", "mamba2"};
constexpr std::array<std::string_view, 3> parallel_residual_words = {"none", "two_norms", "one_norm"};

void describe_linear_attention(KeyVisitor& keys, LinearAttentionRecipe& linear) {
  keys.choice({"kind",
               "Rule by which a head's state follows its tokens: the gated delta rule, as in Qwen3-Next, or that of "
               "Mamba-2, as in Nemotron-H."},
              linear.kind, linear_attention_words);
  keys.integer({"key_heads", "Heads of queries and keys; Mamba-2's groups.", "", Presence::required}, linear.key_heads,
               head_range);
  keys.integer({"value_heads", "Heads of values, each with a state; Mamba-2's heads.", "", Presence::required},
               linear.value_heads, head_range);
  keys.integer({"key_head_dim", "Elements of each query and key; Mamba-2's state size.", "", Presence::required},
               linear.key_head_dim, width_range);
  keys.integer({"value_head_dim", "Elements of each value.", "", Presence::required}, linear.value_head_dim,
               width_range);
  keys.integer({"convolution", "Tokens that the convolution of each feature of queries, keys and values sees."},
               linear.convolution, {1, 1024});
  const bool is_mamba = linear.kind == LinearAttentionKind::mamba2;
  keys.boolean({"convolution_bias", "Biases of the convolution.", "gated_delta false, mamba2 true"},
               keys.otherwise(linear.convolution_bias, is_mamba));
  keys.integer({"chunk", "Tokens that are computed at once, from one state to the next.", "gated_delta 64, mamba2 256"},
               keys.otherwise(linear.chunk, is_mamba ? 256 : 64), {1, 1 << 16});
}

}  // namespace

void describe_sliding_window(KeyVisitor& keys, SlidingWindowRecipe& window, const ModelRecipe& model) {
  keys.integer({"tokens", "Tokens that a query of a local layer sees, its own included.", "", Presence::required},
               window.tokens, sequence_range);
  keys.integer({"global_every",
                "Interval of global layers, whose queries see all tokens before them: 2 makes every second layer "
                "global, as in GPT-OSS, 6 every sixth, as in Gemma 3; 0: all layers are local, as in Mistral."},
               window.global_every, {0, layer_range.maximum});
  keys.number({"rope_theta", "Base of the rotary embeddings' wavelengths in local layers.", "model.rope_theta"},
              keys.otherwise(window.rope_theta, model.rope_theta), {1, 1e12, RangeEnds::open_minimum});
  keys.boolean({"rope_scaling", "model.rope_scaling is of local layers, too; in Gemma 3 of global ones alone."},
               window.rope_scaling);
}

void describe_layer_variants(KeyVisitor& keys, ModelRecipe& model) {
  keys.nullable_number(
      {"attention_scale", "Factor of the products of queries and keys; null: 1 ÷ √head_dim. Run on CPUs."},
      model.attention_scale, {0, 1e6, RangeEnds::open_minimum});
  keys.boolean({"attention_sinks",
                "A learned logit per head takes part in the softmax of each query, as in GPT-OSS. Run on CPUs."},
               model.attention_sinks);
  keys.boolean(
      {"attention_gate",
       "What the heads make is multiplied by a sigmoid of a projection of the layer's input, as in Qwen3-Next. "
       "Planned, not run."},
      model.attention_gate);
  keys.automatic_integer(
      {"rotary_dim",
       "Elements of each head's queries and keys that are rotated, the first ones; auto: all. Others "
       "than auto planned, not run."},
      model.rotary_dim, width_range);
  keys.choice(
      {"parallel_residual",
       "Attention and the feed-forward network both read the layer's input, through two norms as in GPT-NeoX or "
       "through one as in Falcon; none: one after the other. Run on CPUs."},
      model.parallel_residual, parallel_residual_words);
  keys.boolean({"post_norms",
                "What attention and the feed-forward network make is normed before it is added, as in Gemma 3. "
                "Run on CPUs."},
               model.post_norms);
  keys.number({"embedding_scale", "Factor of token embeddings, as in Gemma; other than 1 run on CPUs."},
              model.embedding_scale, {0, 1e6, RangeEnds::open_minimum});
  keys.optional_section(
      {"linear_attention",
       "Linear attention, which carries a state from token to token in place of all keys and values, in "
       "the layers that layer_kinds names; null: none. Planned, not run."},
      model.linear_attention, [&](LinearAttentionRecipe& linear) { describe_linear_attention(keys, linear); });
  keys.texts(
      {"layer_kinds",
       "What the layers consist of, repeated over all of them: attention or linear (attention), each followed by a "
       "feed-forward network; attention_alone, linear_alone or feed_forward_alone. Empty: attention. Planned, not "
       "run."},
      model.layer_kinds, "a list of kinds of layers");
}

}  // namespace llmtrain
