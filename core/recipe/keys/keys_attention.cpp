// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

namespace llmtrain {

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

}  // namespace llmtrain
