// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

TEST_CASE("fused attention skips the half that a causal mask hides, and nothing where there is none") {
  Operator item;
  item.kind = OperatorKind::fused_attention;
  item.flops = 64;
  CHECK(fused_attention_flops(item).forward == 32);
  CHECK(fused_attention_flops(item).backward == 80);
  item.is_causal = false;
  CHECK(fused_attention_flops(item).forward == 64);
  CHECK(fused_attention_flops(item).backward == 160);
}

}  // namespace llmtrain
