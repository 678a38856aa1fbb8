// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// A choice for each layer as recipes write it: an object of lists of layers by word, each a number from 0 or a range of
// them, both ends included, as a text: {"full": [0, "4-7"], "selective": [2]}. Layers that none names have the first
// word.

inline constexpr std::string_view layer_range_pattern = "^[0-9]+-[0-9]+$";

// What an entry of these lists must be.
std::string layer_range_words(IntegerRange layers);

// The choice as an object, without layers of the first word.
Json layer_choice_json(const std::vector<Recompute>& of_layers, Words words);

// The choice by layer, up to the last one that the object names, whose words are an enum's values in their order. One
// problem for each entry that is wrong, that a layer is named before, and an object that names none.
std::vector<Recompute> read_layer_choice(const WrittenValue& written, Words words, IntegerRange layers,
                                         const std::string& entry_words);

}  // namespace llmtrain
