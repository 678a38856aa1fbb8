// SPDX-License-Identifier: Apache-2.0
// Which exchange of experts' rows is tried when, and which is kept.
#include "parallel/shard/exchange_tuner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace llmtrain::test {
namespace {

const std::vector<ExchangeMethod> eight_methods{
    {2, AllToAll::linear},       {1, AllToAll::linear},       {4, AllToAll::linear},       {8, AllToAll::linear},
    {2, AllToAll::hierarchical}, {1, AllToAll::hierarchical}, {4, AllToAll::hierarchical}, {8, AllToAll::hierarchical}};

// Two buckets, of fewer than 100 rows and of more.
ExchangeMethods two_buckets() {
  return {.planned = eight_methods.front(), .bucket_rows = 100, .of_buckets = {eight_methods, eight_methods}};
}

// Seconds of a pass at a step.
using Times = std::function<double(std::int64_t step, const ExchangeMethod& method)>;

// Steps from `first` to before `end` of two ranks, each with three passes of `rows` rows.
void train_steps(ExchangeTuner& tuner, std::int64_t first, std::int64_t end, std::int64_t rows, const Times& seconds) {
  for (std::int64_t step = first; step < end; ++step) {
    tuner.start_step(step);
    for (int pass = 0; pass < 3; ++pass)
      tuner.took(rows, [taken = seconds(step, tuner.choose(rows))] { return taken; });
    std::vector<double> sums = tuner.measured();
    for (double& sum : sums) sum *= 2;
    tuner.end_step(sums);
  }
}

// Far enough apart that only those of four parts are within a quarter of the fastest.
double by_parts(std::int64_t, const ExchangeMethod& method) {
  const double distance = method.parts == 4 ? 0 : 1 + static_cast<double>(method.parts);
  return 1 + distance + (method.all_to_all == AllToAll::linear ? 0.0625 : 0);
}

}  // namespace

TEST_CASE("each method is measured in turn, the slow ones twice, and the fastest is kept") {
  ExchangeTuner tuner(two_buckets());
  CHECK((tuner.choose(50) == eight_methods.front()));
  train_steps(tuner, 0, 8, 50, by_parts);
  // A trial is the mean over passes and ranks.
  REQUIRE(tuner.trials().size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const ExchangeTrial expected{static_cast<std::int64_t>(i), 0, eight_methods[i], by_parts(0, eight_methods[i])};
    CHECK((tuner.trials()[i] == expected));
  }
  train_steps(tuner, 8, 100, 50, by_parts);
  CHECK((tuner.choose(50) == ExchangeMethod{4, AllToAll::hierarchical}));
  CHECK(tuner.current()[0].is_final);
  // Two turns of all eight, then eight turns of two.
  CHECK(tuner.trials().size() == 2 * 8 + 8 * 2);
  // A step that is repeated goes as it went, and so do those after it.
  tuner.start_step(3);
  CHECK((tuner.choose(50) == eight_methods[3]));
  CHECK_FALSE(tuner.current()[0].is_final);
  tuner.start_step(100);
  CHECK((tuner.choose(50) == ExchangeMethod{4, AllToAll::hierarchical}));
}

TEST_CASE("neither the first time of a method nor a slow or a fast one among many decides") {
  ExchangeTuner tuner(two_buckets());
  const auto close = [](const ExchangeMethod& method) {
    return method == ExchangeMethod{1, AllToAll::linear} ? 1.0 : 1.05;
  };
  train_steps(tuner, 0, 100, 50, [&](std::int64_t step, const ExchangeMethod& method) {
    if (step < 8) return method.parts == 8 ? 0.1 : 9.0;
    if (step == 20) return 0.9 * close(method);
    return step >= 24 && step < 32 ? 5 * close(method) : close(method);
  });
  CHECK(tuner.current()[0].is_final);
  CHECK((tuner.choose(50) == ExchangeMethod{1, AllToAll::linear}));
}

TEST_CASE("of equally fast methods the one with the lower price is kept") {
  ExchangeTuner tuner(two_buckets());
  train_steps(tuner, 0, 100, 50, [](std::int64_t, const ExchangeMethod&) { return 1.0; });
  CHECK(tuner.current()[0].is_final);
  CHECK((tuner.choose(50) == eight_methods.front()));
}

TEST_CASE("buckets are tried on their own, and the last one has all larger micro-batches") {
  ExchangeTuner tuner(two_buckets());
  train_steps(tuner, 0, 100, 50, by_parts);
  CHECK((tuner.choose(99) == ExchangeMethod{4, AllToAll::hierarchical}));
  CHECK((tuner.choose(100) == eight_methods.front()));
  CHECK(tuner.may_relay());
  train_steps(tuner, 100, 200, 1000, [](std::int64_t, const ExchangeMethod& method) {
    return method == ExchangeMethod{1, AllToAll::linear} ? 1.0 : 2.0;
  });
  CHECK((tuner.choose(100) == ExchangeMethod{1, AllToAll::linear}));
  CHECK((tuner.choose(99) == ExchangeMethod{4, AllToAll::hierarchical}));
}

TEST_CASE("numbers of rows go directly where no bucket's rows are relayed") {
  ExchangeTuner tuner(two_buckets());
  train_steps(tuner, 0, 100, 50, [](std::int64_t, const ExchangeMethod& method) {
    return method == ExchangeMethod{1, AllToAll::linear} ? 1.0 : 2.0;
  });
  CHECK_FALSE(tuner.may_relay());
}

TEST_CASE("with its trials a run repeats its exchanges, however long they take now") {
  ExchangeTuner tuner(two_buckets());
  std::vector<ExchangeMethod> chosen;
  const auto record = [&](std::int64_t step, const ExchangeMethod& method) {
    if (chosen.empty() || step == static_cast<std::int64_t>(chosen.size())) chosen.push_back(method);
    return by_parts(step, method);
  };
  train_steps(tuner, 0, 100, 50, record);
  REQUIRE(chosen.size() == 100);
  // Another profile may order the methods in another way.
  ExchangeMethods reordered = two_buckets();
  for (auto& methods : reordered.of_buckets) std::reverse(methods.begin(), methods.end());
  for (const std::int64_t first : {0, 5, 17, 30}) {
    ExchangeTuner resumed(first % 2 == 0 ? two_buckets() : reordered);
    resumed.set_trials(tuner.trials());
    train_steps(resumed, first, 100, 50, [&](std::int64_t step, const ExchangeMethod& method) {
      CHECK((method == chosen[static_cast<std::size_t>(step)]));
      return 1.0 / by_parts(step, method);
    });
    CHECK((resumed.trials() == tuner.trials()));
  }
}

}  // namespace llmtrain::test
