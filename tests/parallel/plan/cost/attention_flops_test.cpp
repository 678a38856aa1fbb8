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

// FlashAttention's blocks of 128 queries see their window and as many keys more in the mean: 256 for 128.
TEST_CASE("fused attention of a window computes whole blocks, at the rate of a sequence with as many keys per query") {
  Operator item;
  item.kind = OperatorKind::fused_attention;
  item.product = {4096, 4096, 64, 1};
  item.window = 128;
  item.flops = 4.0 * 4096 * 4096 * 64 * window_share(4096, 128);
  CHECK(fused_attention_flops(item).forward == Approx(2.0 * 4096 * 4096 * 64 * window_share(4096, 256)));
  CHECK(fused_attention_flops(item).backward == Approx(5.0 * 4096 * 4096 * 64 * window_share(4096, 256)));
  CHECK(attention_sizes(item).sequence == 512);
  // No more than all keys.
  item.window = 4000;
  item.flops = 4.0 * 4096 * 4096 * 64 * window_share(4096, 4000);
  CHECK(fused_attention_flops(item).forward == Approx(2.0 * 4096 * 4096 * 64));
  CHECK(attention_sizes(item).sequence == 4096);
}

}  // namespace llmtrain
