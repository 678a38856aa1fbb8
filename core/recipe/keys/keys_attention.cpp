// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 3> parallel_residual_words = {"none", "two_norms", "one_norm"};

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
  keys.choice(
      {"parallel_residual",
       "Attention and the feed-forward network both read the layer's input, through two norms as in GPT-NeoX or "
       "through one as in Falcon; none: one after the other. Others than none planned, not run."},
      model.parallel_residual, parallel_residual_words);
  keys.boolean({"post_norms",
                "What attention and the feed-forward network make is normed before it is added, as in Gemma 3. "
                "Planned, not run."},
               model.post_norms);
  keys.number({"embedding_scale", "Factor of token embeddings; other than 1 planned, not run."}, model.embedding_scale,
              {0, 1e6, RangeEnds::open_minimum});
}

}  // namespace llmtrain
