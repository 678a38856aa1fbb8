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
// tokens: input and, shifted by one, target. Sample i of a source is tokens [i·T, i·T + T] of its concatenated files;
// a source of n tokens has (n − 1) / T samples, rounded down, and a rest is never read.
//
// The order depends on (seed, position) only: never on the layout, the batch size or what was read before.
// - Position k chooses one source by the weights (core/data/blend.h) and takes that source's next sample, its n-th.
// - Epoch e of a source with s samples is its takes e·s … e·s + s − 1, which visit each sample once: in their order
//   without shuffle, else in the order of a permutation keyed by (seed, source's index, e) (core/data/permutation.h).
// So every position is found in constant time, and nothing is stored per sample.
//
// What a source's path may name stands in core/data/file_search.h, the file formats in core/data/token_file.h. Files
// are mapped and must not change while the object lives. Reading is safe from several threads.
class Dataset {
 public:
  // Opens, maps and checks every file of `sources`. Throws Error(missing_input) when a path or glob matches nothing,
  // Error(bad_data) when a file cannot be what it claims, holds a token id that is not below `vocab_size`, or when a
  // source is shorter than one sample, and Error(bad_recipe) when there is no source, a weight is not positive, or
  // `tokenizer` cannot be used on a text file. Messages begin with the source, "<role>/<index>/path": `role` is
  // "/data/train", say.
  Dataset(const std::vector<DataSource>& sources, const TokenizerRecipe& tokenizer, std::int64_t sequence_length,
          std::int64_t vocab_size, bool shuffle, std::int64_t seed, const std::string& role);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) = delete;

  // Samples of one pass over all sources: the sum of theirs. With one source, positions 0 … samples() − 1 visit each
  // sample once; a blend repeats samples of a source whose weight exceeds its share.
  std::int64_t samples() const;
  // Tokens and files of all sources.
  std::int64_t tokens() const;
  std::int64_t files() const;

  // Sample number `position` of the order (0, 1, 2, … without end) into `tokens`, which holds T + 1 elements.
  void read(std::int64_t position, std::span<std::int64_t> tokens) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmtrain
