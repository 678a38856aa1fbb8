// SPDX-License-Identifier: Apache-2.0
// Which split of experts' products is tried when, and which is kept.
#include "parallel/shard/split_tuner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace llmtrain::test {
namespace {

using Seconds = std::function<double(std::int64_t step, std::int64_t split)>;

// The splits of the steps from `first` to before `end`.
std::vector<std::int64_t> train_splits(SplitTuner& tuner, std::int64_t first, std::int64_t end,
                                       const Seconds& seconds) {
  std::vector<std::int64_t> splits;
  for (std::int64_t step = first; step < end; ++step) {
    tuner.start_step(step);
    splits.push_back(tuner.current());
    tuner.end_step(seconds(step, tuner.current()));
  }
  return splits;
}

double slower_if_wider(std::int64_t, std::int64_t split) { return 1.0 + static_cast<double>(split); }

}  // namespace

TEST_CASE("each split is measured in turn, and the fastest is kept") {
  SplitTuner tuner({4, 1, 2});
  CHECK(tuner.current() == 4);
  const std::vector<std::int64_t> splits = train_splits(tuner, 0, 40, slower_if_wider);
  CHECK(std::vector<std::int64_t>(splits.begin(), splits.begin() + 3) == std::vector<std::int64_t>{4, 1, 2});
  CHECK(tuner.is_final());
  // Twice each, and the others are more than a quarter slower.
  CHECK(tuner.trials().size() == 6);
  CHECK(std::all_of(splits.begin() + 6, splits.end(), [](std::int64_t split) { return split == 1; }));
}

TEST_CASE("with its trials a run repeats its splits, however long they take now") {
  SplitTuner tuner({4, 1, 2});
  const auto close = [](std::int64_t, std::int64_t split) { return split == 2 ? 1.0 : 1.05; };
  const std::vector<std::int64_t> splits = train_splits(tuner, 0, 60, close);
  CHECK(splits.back() == 2);
  CHECK(tuner.trials().size() == 30);
  for (const std::int64_t first : {0, 7, 30, 45}) {
    // Another profile may order them in another way.
    SplitTuner resumed(first % 2 == 0 ? std::vector<std::int64_t>{4, 1, 2} : std::vector<std::int64_t>{1, 2, 4});
    resumed.set_trials(tuner.trials());
    const std::vector<std::int64_t> again = train_splits(
        resumed, first, 60, [](std::int64_t, std::int64_t split) { return 1.0 / static_cast<double>(split); });
    CHECK(std::equal(again.begin(), again.end(), splits.begin() + first));
    CHECK((resumed.trials() == tuner.trials()));
  }
  // After the choice, too.
  tuner.start_step(3);
  CHECK(tuner.current() == 4);
  CHECK_FALSE(tuner.is_final());
  tuner.start_step(60);
  CHECK(tuner.current() == 2);
}

}  // namespace llmtrain::test
