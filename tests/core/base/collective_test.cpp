// SPDX-License-Identifier: Apache-2.0
#include "core/base/collective.h"

#include <catch2/catch.hpp>

using namespace llmtrain;

TEST_CASE("bytes follow the ring formula") {
  CHECK(ring_bytes(Collective::all_reduce, 4, 1000) == 1500);
  CHECK(ring_bytes(Collective::all_gather, 4, 1000) == 750);
  CHECK(ring_bytes(Collective::reduce_scatter, 4, 1000) == 750);
  CHECK(ring_bytes(Collective::all_to_all, 4, 1000) == 750);
  CHECK(ring_bytes(Collective::broadcast, 4, 1000) == 1000);
  CHECK(ring_bytes(Collective::send, 2, 1000) == 1000);
  CHECK(ring_bytes(Collective::receive, 2, 1000) == 0);
  CHECK(ring_bytes(Collective::barrier, 4, 1000) == 0);
  CHECK(ring_bytes(Collective::all_reduce, 1, 1000) == 0);
}

TEST_CASE("purposes have the names of the plan") {
  CHECK(purpose_name(Purpose::data_parallel) == "data_parallel");
  CHECK(purpose_name(Purpose::tensor_parallel) == "tensor_parallel");
  CHECK(purpose_name(Purpose::pipeline) == "pipeline");
  CHECK(purpose_name(Purpose::expert) == "expert");
  CHECK(purpose_name(Purpose::context) == "context");
  CHECK(purpose_name(Purpose::control) == "control");
  CHECK(collective_name(Collective::reduce_scatter) == "reduce_scatter");
}
