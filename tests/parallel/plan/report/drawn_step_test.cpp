// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/drawn_step.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "parallel/plan/report/html/page_sections.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// Each rank executes `entries` instructions of one second each, one after the other.
Simulation simulation_of(std::int32_t ranks, std::int32_t entries) {
  Simulation simulation;
  simulation.ranks.resize(static_cast<std::size_t>(ranks));
  simulation.step_seconds = entries;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    for (std::int32_t i = 0; i < entries; ++i)
      simulation.timeline.push_back(
          {.rank = rank, .instruction = i, .start_seconds = double(i), .end_seconds = double(i + 1)});
  return simulation;
}

TEST_CASE("a small timeline is shown completely") {
  const auto selection = select_timeline(simulation_of(16, 10), 0);
  CHECK(selection.ranks.size() == 16);
  CHECK_FALSE(selection.cut);
  CHECK(selection.entries.size() == 160);
  CHECK(selection.entries_of_ranks == 160);
}

TEST_CASE("of many ranks the first, the last, the requested ones and others evenly between them are shown") {
  for (std::int32_t ranks : {17, 18, 31, 64, 1000}) {
    for (std::int32_t always = 0; always < ranks; always += std::max(1, ranks / 40)) {
      const auto shown = select_timeline(simulation_of(ranks, 1), always).ranks;
      CAPTURE(ranks, always);
      CHECK(shown.size() == most_drawn_ranks);
      CHECK(std::is_sorted(shown.begin(), shown.end()));
      CHECK(std::adjacent_find(shown.begin(), shown.end()) == shown.end());
      CHECK(shown.front() == 0);
      CHECK(shown.back() == ranks - 1);
      CHECK(std::binary_search(shown.begin(), shown.end(), always));
    }
  }
}

TEST_CASE("a long timeline is shown equally from the start and from the end") {
  const auto selection = select_timeline(simulation_of(2, 100'000), 0);
  REQUIRE(selection.cut);
  CHECK(selection.cut->start == 4000);
  CHECK(selection.cut->end == 96000);
  CHECK(selection.entries.size() == most_drawn_entries);
  CHECK(selection.entries_of_ranks == 200'000);
}

TEST_CASE("an axis without a cut is linear") {
  const TimeAxis axis(2, 100, std::nullopt);
  CHECK(axis.x(0) == 0);
  CHECK(axis.x(0.5) == Approx(25));
  CHECK(axis.x(2) == Approx(100));
  CHECK(axis.x(3) == 100);
}

TEST_CASE("an axis compresses a cut, keeps the scale on both sides and is monotonic") {
  const TimeAxis axis(100, 1036, TimeSpan{10, 60});
  CHECK(axis.x(10) == Approx(200));
  CHECK(axis.x(60) == Approx(236));
  CHECK(axis.x(100) == Approx(1036));
  CHECK(axis.x(20) - axis.x(10) < 10);
  CHECK(axis.x(5) - axis.x(0) == Approx(axis.x(65) - axis.x(60)));
  for (int i = 1; i <= 1000; ++i) CHECK(axis.x(0.1 * i) > axis.x(0.1 * (i - 1)));
}

TEST_CASE("ticks are round times at the right positions") {
  const auto ticks = TimeAxis(0.25, 1000, std::nullopt).ticks();
  REQUIRE(ticks.size() == 5);
  CHECK(ticks[0].label == "0 ms");
  CHECK(ticks[1].label == "50 ms");
  CHECK(ticks[1].x == Approx(200));
  CHECK(ticks[4].label == "200 ms");
  CHECK(TimeAxis(25, 1000, std::nullopt).ticks()[1].label == "5 s");
  CHECK(TimeAxis(3e-3, 1000, std::nullopt).ticks()[1].label == "0.5 ms");
}

MemorySample sample(double seconds, double activations) {
  MemorySample result{.seconds = seconds, .bytes = {}};
  result.bytes[MemoryCategory::activations] = activations;
  return result;
}

TEST_CASE("a column shows its maximum") {
  const TimeAxis axis(10, 100, std::nullopt);
  const auto columns =
      memory_columns({sample(0, 1), sample(2.1, 9), sample(2.2, 2), sample(4, 3), sample(9.99, 5)}, axis, 10);
  // x: 0 → 1, 20 → the short peak of 9, 30 → 2, 40 → 3, 90 → 5
  REQUIRE(columns.size() == 5);
  const double expected[5][2] = {{0, 1}, {20, 9}, {30, 2}, {40, 3}, {90, 5}};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(columns[i].x == Approx(expected[i][0]));
    CHECK(columns[i].bytes[MemoryCategory::activations] == expected[i][1]);
  }
  CHECK(memory_columns({}, axis, 10).empty());
  CHECK(memory_columns({sample(0, 4)}, axis, 10).size() == 1);
}

TEST_CASE("stages of a loop share a colour, and many loops share eight") {
  const ScheduleShape shape{.pipeline = 4, .loops = 3};
  CHECK(colour_class(shape, {.operation = Operation::forward, .stage = 3, .micro = 0}) == "f0");
  CHECK(colour_class(shape, {.operation = Operation::backward, .stage = 11, .micro = 0}) == "b2");
  CHECK(colour_class(shape, {.operation = Operation::optimizer_step}) == "step");
  CHECK_THAT(std::string(timeline_legend(shape).text()), Catch::Contains("stages 8–11"));
  const ScheduleShape many{.pipeline = 1, .loops = 96};
  CHECK(colour_class(many, {.operation = Operation::forward, .stage = 0}) == "f0");
  CHECK(colour_class(many, {.operation = Operation::forward, .stage = 95}) == "f7");
  CHECK_THAT(std::string(timeline_legend(many).text()), Catch::Contains("stages 84–95") && !Catch::Contains("f8"));
}

TEST_CASE("short times keep three digits") {
  CHECK(duration_text(0) == "0µs");
  CHECK(duration_text(5e-4) == "500µs");
  CHECK(duration_text(0.00123456) == "1.23ms");
  CHECK(duration_text(0.0864) == "86.4ms");
  CHECK(duration_text(0.75) == "750ms");
  CHECK(duration_text(0.9996) == "1.00s");
  CHECK(duration_text(1.786) == "1.79s");
  CHECK(duration_text(9.996) == "10.0s");
  CHECK(duration_text(25) == "25.0s");
}

}  // namespace
}  // namespace llmtrain
