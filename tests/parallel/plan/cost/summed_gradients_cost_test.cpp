// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/operator_cost.h"
#include "tests/support/source_folder.h"

namespace llmtrain {

TEST_CASE("a backward that adds gradients to those of other readers takes a pass over memory longer") {
  const Recipe recipe = parse_recipe(R"({"model": {"architecture": "bert", "layers": 1, "hidden_size": 1024,
    "heads": 16, "vocab_size": 512, "max_sequence_length": 512}, "batch": {"global": 8, "micro": 8},
    "training": {"steps": 1}, "precision": {"compute": "bf16"}, "cluster": {"profile": "a100-80gb"}})",
                                     "test", ".", {});
  const Partition partition = Partition::make(recipe, 1);
  const ClusterProfile profile = load_profile("a100-80gb", test::source_folder() / "recipes/clusters");
  const PricedLayout priced(partition, profile);
  const OperatorList with = priced.operators.of(1);
  OperatorList without = with;
  double elements = 0, launches = 0;
  for (Operator& item : without) {
    elements += item.summed_gradients;
    launches += item.summed_gradients > 0 ? 1 : 0;
    item.summed_gradients = 0;
  }
  // A layer makes 4 sums, of query, key, value and both residuals; each reads 2 activations and writes 1, of 2 bytes.
  CHECK(launches == 4);
  CHECK(elements == 4 * 3 * (8.0 * 512 * 1024));
  const Work pass = priced.roofline.pass(priced.program().traffic.elementwise * 2 * elements / launches);
  const StageCost sums = block_cost(priced, with, Recompute::none), none = block_cost(priced, without, Recompute::none);
  // The device takes longer than the host to launch.
  CHECK(sums.backward.seconds - none.backward.seconds == Approx((pass * launches).seconds));
  CHECK(sums.forward.seconds == none.forward.seconds);
}

}  // namespace llmtrain
