// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/comm/request.h"

namespace llmtrain::test {

// The memory kind that Values report; defined by the test program.
Memory values_memory();

// Memory of a type, at an address that is misaligned by `offset` bytes.
class Values {
 public:
  Values(ElementType type, std::int64_t count, int offset = 0);

  // Rounds to the type by searching the nearest value (the even one in a tie), without the code under test.
  void set(std::int64_t index, double value);
  double get(std::int64_t index) const;

  Array array() { return {address(0), count_, type_, values_memory()}; }
  Array part(std::int64_t begin, std::int64_t count) { return {address(begin), count, type_, values_memory()}; }
  std::int64_t count() const { return count_; }
  bool operator==(const Values& other) const;  // by bits
  // Whether other's values stand here from `begin` on, by bits.
  bool has_at(std::int64_t begin, const Values& other) const;

 private:
  std::byte* address(std::int64_t index);
  const std::byte* address(std::int64_t index) const;

  ElementType type_;
  std::int64_t count_;
  std::size_t offset_;
  std::vector<std::byte> bytes_;
};

// Under the thread sanitizer only some of them.
const std::vector<ElementType>& all_types();
const std::vector<ElementType>& floating_types();

// A whole number of magnitude at most 3 that all types can represent; different for each rank and index.
double small_number(ElementType type, int rank, std::int64_t index);

// The value of a bit pattern of a floating type below fp32, from the definition of the format.
double decode(ElementType type, unsigned bits);
// The pattern of the nearest value, the even one in a tie. Infinity or NaN beyond the range.
unsigned encode(ElementType type, double value);

}  // namespace llmtrain::test
