// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace llmtrain {

// A rank that takes longer than the ranks with the same work, which wait for it in every step.
struct Straggler {
  int rank = 0;
  double seconds = 0;  // median over a window of steps
  double typical = 0;  // of the ranks with the same work
};

// Looks for stragglers in the seconds that each rank computes per step. Medians over a window of steps: single slow
// steps of any rank are no news.
class StragglerWatch {
 public:
  static constexpr std::size_t window = 50;  // steps
  static constexpr double ratio = 1.5;       // to the typical rank, by which a rank is a straggler
  static constexpr double least = 0.010;     // seconds more than the typical rank: less costs no one anything

  // `peers`: the groups of ranks that have the same work, such as those of one pipeline position; each rank is in one.
  explicit StragglerWatch(std::vector<std::vector<int>> peers);

  // After each step, with the seconds of every rank. Returns the slowest straggler at the end of a window; of a rank
  // that it has returned once it says no more.
  std::optional<Straggler> add(std::span<const double> seconds);

 private:
  std::optional<Straggler> slowest() const;

  std::vector<std::vector<int>> peers_;
  std::vector<std::vector<double>> steps_;  // of each rank, the seconds of this window's steps
  std::vector<int> named_;
};

}  // namespace llmtrain
