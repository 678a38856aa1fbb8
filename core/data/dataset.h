// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Training or validation data as an endless, deterministic order of samples. A sample of sequence length T is T + 1
// tokens: input and, shifted by one, target. Sample i of a source is tokens [i·T, i·T + T] of its concatenated files.
// The order depends on (seed, position) only: never on the layout, the batch size or what was read before.
class Dataset {
 public:
  // Opens, maps and checks every file of `sources`. Throws Error(missing_input) when a path or glob matches nothing,
  // Error(bad_data) when a file cannot be what it claims, holds a token id that is not below `vocab_size`, or when a
  // source is shorter than one sample. `role` ("data/train") stands in messages.
  Dataset(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer, std::int64_t sequence_length,
          std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) = delete;

  // Samples of one pass over all sources.
  std::int64_t samples() const;
  std::int64_t tokens() const;
  std::int64_t files() const;

  // Sample number `position` of the order (0, 1, 2, … without end) into `tokens`, which holds T + 1 elements.
  void read(std::int64_t position, std::span<std::int64_t> tokens) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmtrain
