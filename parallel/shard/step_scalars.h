// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/layout/scalar_table.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The few numbers of a step that the host reads and ranks exchange: the parts of the step add theirs by the names under
// which the table declares them, and read by these what the ranks' numbers have become. However many there are, the
// host waits once for a GPU, in read(), and ranks exchange once, in exchange(). What is not added is 0.
class StepScalars {
 public:
  // The table must outlive this.
  explicit StepScalars(const ScalarTable& table) : table_(table), own_(table.numbers(), 0) {}
  // Tensors that are not read yet know where they will be added.
  StepScalars(const StepScalars&) = delete;
  StepScalars& operator=(const StepScalars&) = delete;

  bool has(std::string_view name) const { return table_.has(name); }

  // Adds numbers of this rank, as many as are declared, by float64 sums in the order of the calls; of maxima the larger
  // ones stay. Those of tensors, of any type and shape and on any device, count from read() on: after those of the
  // host that were added before.
  void add(std::string_view name, std::span<const double> numbers);
  void add(std::string_view name, double number) { add(name, std::span(&number, 1)); }
  void add(std::string_view name, const at::Tensor& numbers);
  // Numbers that this rank alone needs, which read() hands to `received` in the order of the calls.
  using Receiver = std::function<void(std::span<const double>)>;
  void bring(const at::Tensor& numbers, Receiver received);

  // Reads all tensors so far. If any is a GPU's the host waits, once, for what the current stream holds.
  void read();
  // Collective over the world; blocks. Nothing is added afterwards.
  void exchange(const RankGroups& groups);

  // What exchange() has made of all ranks' numbers, as declared: of sums and maxima as many as each rank has.
  std::vector<double> numbers(std::string_view name) const;
  // The same of one number.
  double number(std::string_view name) const { return numbers(name).at(0); }

 private:
  struct Unread {
    at::Tensor numbers;
    Receiver received;
  };

  const ScalarTable& table_;
  std::vector<double> own_;
  std::vector<Unread> unread_;
  std::vector<double> all_;  // of the ranks, one after another
};

}  // namespace llmtrain
