// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/stragglers.h"

#include <catch2/catch.hpp>

using namespace llmtrain;

namespace {

// What the watch says of so many windows in which every step takes these seconds.
std::vector<std::optional<Straggler>> said(StragglerWatch& watch, const std::vector<double>& seconds, int windows = 1) {
  std::vector<std::optional<Straggler>> all;
  for (int window = 0; window < windows; ++window) {
    std::optional<Straggler> found;
    for (std::size_t step = 0; step < StragglerWatch::window; ++step) {
      CHECK(!found);  // only at a window's end
      found = watch.add(seconds);
    }
    all.push_back(found);
  }
  return all;
}

}  // namespace

TEST_CASE("a rank that is slower than those with the same work is named once") {
  StragglerWatch watch({{0, 1, 2, 3}});
  const auto all = said(watch, {1.0, 1.1, 1.7, 0.9}, 2);
  REQUIRE(all[0]);
  CHECK(all[0]->rank == 2);
  CHECK(all[0]->seconds == 1.7);
  CHECK(all[0]->typical == 1.0);
  CHECK(!all[1]);
  // Another one is news.
  CHECK(said(watch, {2.0, 1.0, 1.7, 0.9})[0]->rank == 0);
}

TEST_CASE("stages with more work are no stragglers") {
  StragglerWatch watch({{0, 1}, {2, 3}});
  CHECK(!said(watch, {1.0, 1.0, 3.0, 3.1})[0]);
  CHECK(said(watch, {1.0, 1.0, 3.0, 9.0})[0]->rank == 3);
}

TEST_CASE("of two ranks the faster one is typical") {
  StragglerWatch watch({{0, 1}});
  CHECK(said(watch, {1.6, 1.0})[0]->rank == 0);
}

TEST_CASE("ratios and differences below the bounds are no news") {
  StragglerWatch watch({{0, 1, 2}});
  CHECK(!said(watch, {1.0, 1.0, 1.49})[0]);
  CHECK(!said(watch, {0.001, 0.001, 0.0109})[0]);
}

TEST_CASE("single slow steps are no news") {
  StragglerWatch watch({{0, 1, 2}});
  for (std::size_t step = 0; step < StragglerWatch::window; ++step)
    CHECK(!watch.add(std::vector<double>{1.0, 1.0, step % 3 == 0 ? 50.0 : 1.0}));
}

TEST_CASE("ranks alone in their group are never stragglers") {
  StragglerWatch watch({{0}, {1}});
  CHECK(!said(watch, {1.0, 100.0})[0]);
}
