// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/token_file.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The files of one source, in the order of their paths, as one sequence of tokens without separators.
class TokenSource {
 public:
  // Throws what find_files() and TokenFile throw.
  TokenSource(const std::string& path, const TokenizerRecipe& tokenizer, std::int64_t vocab_size,
              MappingBudget& budget);

  std::int64_t tokens() const { return starts_.back(); }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }

  // Fills `tokens` with the tokens from `first` on, across files; all of them are in the source.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;

 private:
  std::vector<TokenFile> files_;
  std::vector<std::int64_t> starts_{0};  // where each file begins, and the end
};

}  // namespace llmtrain
