// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_source.h"

#include <algorithm>

#include "core/data/file_search.h"

namespace llmtrain {

TokenSource::TokenSource(const std::string& path, const TokenizerRecipe& tokenizer, std::int64_t vocab_size,
                         MappingBudget& budget) {
  for (const auto& file : find_files(path)) {
    files_.emplace_back(file, tokenizer, vocab_size, budget);
    starts_.push_back(starts_.back() + files_.back().tokens());
  }
}

void TokenSource::read(std::int64_t first, std::span<std::int64_t> tokens) const {
  // The last file that starts at or before `first`, so empty files are passed over.
  auto file = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin()) - 1;
  for (; !tokens.empty(); ++file) {
    const auto count = std::min<std::int64_t>(starts_[file + 1] - first, std::ssize(tokens));
    files_[file].read(first - starts_[file], tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

}  // namespace llmtrain
