// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/step_scalars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "parallel/device/transfers.h"

namespace llmtrain {
namespace {

double combined(Combination combination, double all, double more) {
  switch (combination) {
    case Combination::sum:
    case Combination::gather:
      return all + more;
    case Combination::maximum:
      // Comparisons with a NaN would lose it.
      return std::max(all, std::isnan(more) ? std::numeric_limits<double>::infinity() : more);
  }
  return all;
}

}  // namespace

void StepScalars::add(std::string_view name, std::span<const double> numbers) {
  const auto [combination, first, count] = table_.at(name);
  if (numbers.size() != count)
    throw Error(ExitCode::internal_error, "the scalar \"" + std::string(name) + "\" of a step has " +
                                              std::to_string(count) + " numbers, and not " +
                                              std::to_string(numbers.size()));
  for (std::size_t i = 0; i < count; ++i) own_[first + i] = combined(combination, own_[first + i], numbers[i]);
}

void StepScalars::add(std::string_view name, const at::Tensor& numbers) {
  bring(numbers, [this, name = std::string(name)](std::span<const double> read) { add(name, read); });
}

void StepScalars::bring(const at::Tensor& numbers, Receiver received) {
  unread_.push_back({numbers, std::move(received)});
}

void StepScalars::read() {
  const std::vector<Unread> unread = std::exchange(unread_, {});
  std::vector<at::Tensor> tensors;
  for (const Unread& each : unread) tensors.push_back(each.numbers);
  const std::vector<double> numbers = read_numbers(tensors);
  std::span<const double> rest = numbers;
  for (const auto& [tensor, received] : unread) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    received(rest.first(count));
    rest = rest.subspan(count);
  }
}

void StepScalars::exchange(const RankGroups& groups) { all_ = groups.exchange(own_); }

std::vector<double> StepScalars::numbers(std::string_view name) const {
  const auto [combination, first, count] = table_.at(name);
  std::vector<double> result;
  if (combination != Combination::gather) result.assign(count, 0);
  for (std::size_t rank = 0; rank < all_.size(); rank += table_.numbers()) {
    const auto theirs = std::span(all_).subspan(rank + first, count);
    if (combination == Combination::gather) {
      result.insert(result.end(), theirs.begin(), theirs.end());
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) result[i] = combined(combination, result[i], theirs[i]);
  }
  return result;
}

}  // namespace llmtrain
