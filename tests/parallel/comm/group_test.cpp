// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/group.h"

#include <catch2/catch.hpp>

using namespace llmtrain;

TEST_CASE("a strided group holds its rank") {
  CHECK(strided_ranks(5, 2, 1) == std::vector<int>{4, 5});
  CHECK(strided_ranks(5, 2, 2) == std::vector<int>{5, 7});
  CHECK(strided_ranks(7, 2, 2) == std::vector<int>{5, 7});
  CHECK(strided_ranks(6, 4, 2) == std::vector<int>{0, 2, 4, 6});
  CHECK(strided_ranks(3, 1, 1) == std::vector<int>{3});
}

TEST_CASE("a group says who it is, long ones in part") {
  CHECK(Group(std::make_shared<Group::State>("tensor", std::vector<int>{2, 3}, 1)).description() == "tensor [2 3]");
  const Group many(std::make_shared<Group::State>("data", strided_ranks(0, 100, 1), 0));
  CHECK(many.description() == "data [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 …]");
}
