// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llmtrain {

// A name in a text: words `first` to `last`.
struct Entity {
  std::string type;
  std::size_t first = 0, last = 0;

  bool operator==(const Entity&) const = default;
};

// The entities of a sentence's tags, such as "B-PER", "I-PER" and "O", also "E-" and "S-", in their order: as seqeval's
// get_entities() and CoNLL-2000's conlleval find them, which take an "I-" that follows nothing for a beginning. A tag
// without a type has the type "_".
std::vector<Entity> entities_of(std::span<const std::string> tags);

// Counts of entities over sentences.
struct EntityCounts {
  std::int64_t right = 0;      // predicted with their type and their words
  std::int64_t predicted = 0;  // by the model
  std::int64_t there = 0;      // in the labels

  // Both tag the same words.
  void add(std::span<const std::string> labels, std::span<const std::string> predictions);

  // Shares from 0 to 1, which are 0 where nothing is divided by.
  double precision() const;
  double recall() const;
  double f1() const;
};

}  // namespace llmtrain
