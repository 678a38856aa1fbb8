// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> noise_words = {"spans", "infilling"};

}  // namespace

void describe_denoising(KeyVisitor& keys, DenoisingRecipe& denoising) {
  keys.choice(
      {"noise",
       "Spans: parts of a text become marks of their own (<extra_id_0>, …), and the target is these parts, as T5 "
       "learns; infilling: parts become a mask, and the target is the text, as BART learns."},
      denoising.noise, noise_words);
  keys.nullable_number({"probability", "Share of a text's tokens that is taken out; null: 0.15 of spans, else 0.3."},
                       denoising.probability, {0, 0.5, RangeEnds::open_minimum});
  keys.number({"mean_span", "Tokens that are taken out together, on average; of infilling their number is Poisson's."},
              denoising.mean_span, {1, 100});
  keys.boolean({"permute_sentences", "With infilling: the sentences of each document come in a random order."},
               denoising.permute_sentences);
  keys.boolean({"single_texts",
                "Each text is a sample of its own, cut and filled with padding; otherwise texts follow one another and "
                "fill the sequences."},
               denoising.single_texts);
  keys.automatic_integer({"token", "With infilling: id of the mask; auto: the tokenizer's."}, denoising.token,
                         {0, 1 << 30});
  keys.automatic_integer(
      {"decoder_start", "Id after which a target's first token is predicted; auto: the tokenizer's padding."},
      denoising.decoder_start, {0, 1 << 30});
}

}  // namespace llmtrain
