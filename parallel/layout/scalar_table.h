// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace llmtrain {

// What the numbers of all ranks become.
enum class Combination {
  sum,      // in float64, in the order of the ranks
  maximum,  // of magnitudes: 0 where nobody has any, infinite where one is not a number
  gather    // those of each rank, one rank after another
};

// The numbers that every rank sends to all others in one exchange, in float64: who needs some declares them by a name,
// by which StepScalars (parallel/shard/step_scalars.h) takes and returns them. Nobody else knows where they are in the
// message. All ranks declare the same in the same order.
class ScalarTable {
 public:
  struct Entry {
    Combination combination;
    std::size_t first;  // in the message
    std::size_t count;
  };
  // Throws Error(internal_error) where the name is taken.
  void declare(std::string name, Combination combination, std::size_t count = 1);

  bool has(std::string_view name) const { return entries_.contains(name); }
  // Throws Error(internal_error) where nobody has declared it.
  const Entry& at(std::string_view name) const;
  // How long a rank's message is.
  std::size_t numbers() const { return numbers_; }
  std::size_t bytes() const { return numbers_ * sizeof(double); }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  std::size_t numbers_ = 0;
};

}  // namespace llmtrain
