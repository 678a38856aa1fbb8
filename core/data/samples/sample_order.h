// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/mix_bits.h"

namespace llmtrain {

// Which source each position of the order reads. The weights are taken as integer shares of a common sum: the smallest
// sum up to 65536 that represents them (0.7 and 0.3: 7 and 3), else about 2^20, at least one share each (proportions
// are then exact to one in a million). After a period of that many positions every deficit is zero again and the order
// repeats, so a table of one period answers any position in constant time, without rounding.
class Blend {
 public:
  // At least one weight, all of them positive and finite.
  explicit Blend(std::span<const double> weights);

  struct Choice {
    std::size_t source;
    std::int64_t take;  // number of earlier positions that chose this source
  };
  Choice at(std::int64_t position) const;

  std::int64_t period() const { return static_cast<std::int64_t>(table_.size()); }

 private:
  struct Entry {
    std::uint32_t source;
    std::uint32_t take;
  };
  std::vector<std::int64_t> shares_;
  std::vector<Entry> table_;
};

// A keyed bijection of 0 … size − 1, with random access in constant time and without memory: a generalised Feistel
// network with cycle walking (Black, Rogaway: "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). An index is a pair
// of digits, below `rows_` and `columns_`; each round adds a hash of one digit to the other. rows_ · columns_ exceeds
// `size` by less than a row, so walking is rare. Not for secrecy. Resumed runs rely on its values, so they must never
// change. `size` is at least 1.
class Permutation {
 public:
  Permutation(std::uint64_t key, std::uint64_t size) noexcept : key_(mix_bits(key)), size_(size) {
    columns_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size)));
    rows_ = (size + columns_ - 1) / columns_;
  }

  // `index` is below the size.
  std::uint64_t operator()(std::uint64_t index) const noexcept {
    do {
      index = network(index);
    } while (index >= size_);
    return index;
  }

 private:
  std::uint64_t network(std::uint64_t index) const noexcept {
    std::uint64_t row = index / columns_;
    std::uint64_t column = index % columns_;
    for (std::uint64_t round = 0; round < rounds; round += 2) {
      row = (row + mix_bits(mix_bits(key_ + round) ^ column) % rows_) % rows_;
      column = (column + mix_bits(mix_bits(key_ + round + 1) ^ row) % columns_) % columns_;
    }
    return row * columns_ + column;
  }

  // With eight rounds, sizes below ten still favour some positions by 2 %.
  static constexpr std::uint64_t rounds = 12;

  std::uint64_t key_;
  std::uint64_t size_;
  std::uint64_t rows_;
  std::uint64_t columns_;
};

}  // namespace llmtrain
