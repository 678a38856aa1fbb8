// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/request.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace llmtrain;

TEST_CASE("a group's text lists its ranks, abbreviated for large groups") {
  CHECK(Group(std::make_shared<Group::State>("tensor", std::vector<int>{2, 3}, 1)).description() == "tensor [2 3]");
  std::vector<int> ranks(100);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Group many(std::make_shared<Group::State>("data", ranks, 0));
  CHECK(many.description() == "data [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 …]");
}
