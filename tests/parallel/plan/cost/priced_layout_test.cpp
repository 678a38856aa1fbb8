// SPDX-License-Identifier: Apache-2.0
// What a layout is priced with follows from recipe, device and program, and is the same for all that read it.
#include "parallel/plan/cost/priced_layout.h"

#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

Partition bf16_partition(const std::vector<std::string>& overrides) {
  const std::string text = R"({"model": {"architecture": "gpt2", "layers": 3, "hidden_size": 64, "heads": 4,
    "vocab_size": 96, "max_sequence_length": 32}, "batch": {"global": 4, "micro": 1}, "training": {"steps": 1},
    "precision": {"compute": "bf16"}, "cluster": {"profile": "cpu", "nodes": 1, "devices_per_node": 4}})";
  return Partition::make(parse_recipe(text, "test", ".", overrides), 4);
}

ClusterProfile profile_of(DeviceKind device, std::string program) {
  ClusterProfile profile;
  profile.device.kind = device;
  profile.program.name = std::move(program);
  return profile;
}

// Working memory of the loss's backward.
double loss_working(const Partition& partition, const ClusterProfile& profile) {
  const PricedLayout priced(partition, profile);
  const OperatorList& head = priced.operators.of(partition.graph->blocks.size() - 1);
  REQUIRE(head.back().kind == OperatorKind::cross_entropy);
  return head.back().backward_working;
}

}  // namespace

TEST_CASE("the program says what is kept between passes, and the device which operators run") {
  const std::string own = Program{}.name;
  for (const auto& [asked, device, program, kept, runs_on] :
       {std::tuple{"auto", DeviceKind::cpu, own, KeptTensors::core_model, ComputeDevice::cpu},
        std::tuple{"auto", DeviceKind::cuda, own, KeptTensors::core_model, ComputeDevice::cuda},
        std::tuple{"auto", DeviceKind::cuda, std::string("nemo"), KeptTensors::megatron, ComputeDevice::cuda},
        std::tuple{"cuda", DeviceKind::cpu, own, KeptTensors::core_model, ComputeDevice::cuda},
        std::tuple{"cuda", DeviceKind::cpu, std::string("nemo"), KeptTensors::megatron, ComputeDevice::cuda},
        std::tuple{"cpu", DeviceKind::cuda, std::string("nemo"), KeptTensors::core_model, ComputeDevice::cpu}}) {
    CAPTURE(asked, program);
    const Partition partition = bf16_partition({std::string("cluster.device=") + asked});
    const ClusterProfile profile = profile_of(device, program);
    const PricedLayout priced(partition, profile);
    CHECK(priced.setting().program.kept_tensors == kept);
    CHECK(priced.setting().program.device == runs_on);
  }
}

TEST_CASE("blocks that are alike have one list") {
  const Partition partition = bf16_partition({});
  const ClusterProfile profile = profile_of(DeviceKind::cpu, Program{}.name);
  const PricedLayout priced(partition, profile);
  CHECK(&priced.operators.of(1) == &priced.operators.of(3));
  CHECK(&priced.operators.of(0) != &priced.operators.of(1));
  CHECK(&priced.operators.of(4) != &priced.operators.of(1));
}

// 32 tokens of 96 logits in fp32; with two tensor ranks 48 of them.
TEST_CASE("another program's loss holds its copies of the logits in the list that time and memory read") {
  ClusterProfile profile = profile_of(DeviceKind::cuda, "another");
  profile.program.memory.loss_copies = 5;
  profile.program.memory.parallel_loss_copies = 7;
  CHECK(loss_working(bf16_partition({}), profile) == 5 * 4 * 32 * 96);
  CHECK(loss_working(bf16_partition({"parallel.tensor=2"}), profile) == 7 * 4 * 32 * 48);
  // Those that do not exist yet while it holds them: in bf16 the gradients of the head's input and of the logits.
  profile.program.memory.loss_copies = 0;
  CHECK(loss_working(bf16_partition({}), profile) == 2 * 32 * (64 + 96));
  profile.program.name = Program{}.name;
  profile.program.memory.loss_copies = 5;
  CHECK(loss_working(bf16_partition({}), profile) == 2 * 32 * 64);
}

// 32 tokens have 96 logits each: what stays of them until the loss's backward, and what is beside it in each direction.
TEST_CASE("another program keeps logits in fp32 or as the product made them, or no more than a chunk") {
  const double wide = 4 * 32 * 96, narrow = 2 * 32 * 96, input_gradient = 2 * 32 * 64;
  const Partition partition = bf16_partition({});
  const auto head_of = [&](KeptLogits kept) {
    ClusterProfile profile = profile_of(DeviceKind::cuda, "another");
    profile.program.memory.logits = kept;
    const PricedLayout priced(partition, profile);
    const OperatorList& head = priced.operators.of(partition.graph->blocks.size() - 1);
    double saved = 0;
    for (const Operator& item : head)
      for (const SavedTensor& tensor : item.saved)
        if (tensor.name == "logits") saved += tensor.bytes;
    return std::tuple{saved, head.back().forward_working, head.back().backward_working};
  };
  CHECK(head_of(KeptLogits::widened) == std::tuple{wide, narrow + wide, input_gradient + narrow});
  CHECK(head_of(KeptLogits::narrow) == std::tuple{narrow, 0.0, input_gradient + narrow});
  CHECK(head_of(KeptLogits::in_place) == std::tuple{narrow, 0.0, input_gradient});
  const auto [saved, forward, backward] = head_of(KeptLogits::chunks);
  CHECK(saved == 0);
  CHECK(forward > 0);
  CHECK(backward == input_gradient);
}

}  // namespace llmtrain
