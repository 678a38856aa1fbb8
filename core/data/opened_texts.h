// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <tuple>

#include "core/data/shared_results.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// What all kinds of texts in memory are made from, and what else one of them depends on, such as its section of a
// recipe and how many tokens it keeps.
template <class... More>
struct OpenedTextsKey {
  std::string versions;  // versions_of() the files (core/data/file_search.h)
  TokenizerRecipe tokenizer;
  OnBadLine on_bad_line = OnBadLine::stop;
  std::tuple<More...> more;

  bool operator==(const OpenedTextsKey&) const = default;
};

// What threads of this process have made from equal keys, of each kind of texts.
template <class Texts, class Key>
SharedResults<Key, Texts>& opened_texts() {
  static SharedResults<Key, Texts> opened;
  return opened;
}

}  // namespace llmtrain
