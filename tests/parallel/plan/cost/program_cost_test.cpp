// SPDX-License-Identifier: Apache-2.0
// What facts of a program cost beyond its operators.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/state_transfers.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

const std::filesystem::path profiles_folder = test::source_folder() / "recipes/clusters";

struct PlannedAs {
  PlannedAs(const std::vector<std::string>& overrides, const Program& program)
      : layout(Partition::make(
            parse_recipe(R"({"model": {"architecture": "llama", "layers": 8, "hidden_size": 1024, "heads": 16,
              "vocab_size": 51200, "max_sequence_length": 1024}, "batch": {"global": 64, "micro": 1},
              "training": {"steps": 1}, "precision": {"compute": "bf16"}, "cluster": {"profile": "h100-sxm-80gb",
              "nodes": 2, "devices_per_node": 8}})",
                         "test", ".", overrides),
            8)),
        profile(load_profile("h100-sxm-80gb", profiles_folder)) {
    profile.program = program;
    profile.program.name = "other";
  }

  PricedLayout priced() const { return {layout.partition(), profile}; }
  double forward_seconds() const {
    const PassCost pass = make_step_costs(priced()).stages.back().forward;
    return pass.seconds - pass.communication_seconds - profile.host.micro_batch_seconds;
  }

  Layout layout;
  ClusterProfile profile;
};

// So slow a host that nothing else counts.
double forward_of_host(const std::vector<std::string>& overrides, const Program& program) {
  PlannedAs planned(overrides, program);
  planned.profile.host.operator_seconds = 1;
  return planned.forward_seconds();
}

TEST_CASE("hosts of tensor ranks take turns where pipeline ranks are on several nodes, and nowhere else") {
  Program turns;
  turns.host.takes_turns = true;
  const auto factor = [&](const std::vector<std::string>& overrides) {
    return forward_of_host(overrides, turns) / forward_of_host(overrides, {});
  };
  CHECK(factor({"parallel.tensor=2", "parallel.pipeline=2"}) == Approx(2));
  CHECK(factor({"parallel.tensor=4", "parallel.pipeline=2"}) == Approx(3));
  CHECK(factor({"parallel.tensor=8", "parallel.pipeline=2"}) == Approx(5));
  CHECK(factor({"parallel.pipeline=2"}) == 1);
  CHECK(factor({"parallel.tensor=8"}) == 1);
  CHECK(factor({"parallel.tensor=4", "parallel.pipeline=2", "cluster.nodes=1"}) == 1);
}

TEST_CASE("a device that waits for hosts' turns takes their time beside its own, and no further time of its own host") {
  const std::vector<std::string> ranks = {"parallel.tensor=8", "parallel.pipeline=2"};
  const auto forward = [&](const HostFacts& host) {
    Program program;
    program.host = host;
    PlannedAs planned(ranks, program);
    planned.profile.host.operator_seconds = 1e-7;  // a host that runs ahead of the device
    return planned.forward_seconds();
  };
  const double device = forward({}), host = forward({.synchronous = true}) - device;
  CHECK(host > 0);
  CHECK(forward({.takes_turns = true}) == device);
  // With eight tensor ranks there are five turns, of which a host has one.
  CHECK(forward({.takes_turns = true, .waits_for_turns = true}) - device == Approx(4 * host));
  // A host that waits for each operator has its own time in the open anyway.
  CHECK(forward({.synchronous = true, .takes_turns = true, .waits_for_turns = true}) - device == Approx(5 * host));
  CHECK(forward({.waits_for_turns = true}) == device);
}

TEST_CASE("tensor ranks send whole copies to the next stage where the program does, unless rows are split") {
  Program copies;
  copies.stages.sends_copies = true;
  const auto message = [](const std::vector<std::string>& overrides, const Program& program) {
    const PlannedAs planned(overrides, program);
    const PricedLayout priced = planned.priced();
    return message_of(priced, priced.partition.outgoing(0).front());
  };
  const std::vector<std::string> ranks = {"parallel.tensor=4", "parallel.pipeline=2", "parallel.sequence=false"};
  const double whole = 1024.0 * 1024 * 2;
  CHECK(message(ranks, copies).sent_bytes == whole);
  CHECK(message(ranks, copies).whole_bytes == 0);
  CHECK(message(ranks, {}).sent_bytes == whole / 4);
  CHECK(message(ranks, {}).whole_bytes == whole);
  const std::vector<std::string> split = {"parallel.tensor=4", "parallel.pipeline=2", "parallel.sequence=true"};
  CHECK(message(split, copies).sent_bytes == whole / 4);
  CHECK(message(split, copies).whole_bytes == 0);
}

TEST_CASE("each expert's products are launched on their own where the program says so") {
  const std::vector<std::string> experts = {R"(model.moe={"experts": 32, "top_k": 2})", "parallel.expert=4"};
  Program each;
  each.experts.launches_each = true;
  // Eight experts on a rank: seven launches more of each product.
  const double more = forward_of_host(experts, each) - forward_of_host(experts, {});
  CHECK(std::remainder(more, 7) == Approx(0).margin(1e-3));
  CHECK(more > 8 * 7);
}

TEST_CASE("the backward of experts' products takes twice their forward, which was measured") {
  Program measured;
  measured.kernels.rates = KernelRates::measured;
  const PlannedAs one({R"(model.moe={"experts": 32, "top_k": 2})"}, measured);
  const Roofline& roofline = one.priced().roofline;
  int grouped = 0;
  for (const Operator& item : block_operators(one.priced().graph(), 1, one.priced().setting())) {
    if (!item.is_grouped) continue;
    ++grouped;
    CHECK(product_seconds(one.priced(), item) ==
          Approx(roofline.seconds(roofline.grouped_product(item.product)) +
                 roofline.seconds(roofline.grouped_product(item.product) +
                                  roofline.grouped_product({item.product.rows, item.product.inner, item.product.columns,
                                                            item.product.batch}))));
    CHECK(roofline.grouped_product(item.product).seconds > 1.1 * roofline.product(item.product).seconds);
  }
  CHECK(grouped == 2);
}

TEST_CASE("products reach the part of their tables' rate that the program states") {
  Program whole, part;
  whole.kernels.rates = part.kernels.rates = KernelRates::measured;
  part.kernels.speed = 0.5;
  const MatrixProduct product{4096, 4096, 4096};
  const PlannedAs one({}, whole), other({}, part);
  CHECK(other.priced().roofline.product_efficiency(product, MatrixType::compute).fraction ==
        Approx(0.5 * one.priced().roofline.product_efficiency(product, MatrixType::compute).fraction));
}

// Bytes that a forward moves beside those of fused kernels, by how much longer it takes on a device whose host takes no
// time.
double further_forward_bytes(const Program& program) {
  const std::vector<std::string> overrides = {"model.ffn_hidden_size=4096", "model.kv_heads=8"};
  PlannedAs apart(overrides, program), fused(overrides, {});
  apart.profile.host.operator_seconds = fused.profile.host.operator_seconds = 0;
  return (apart.forward_seconds() - fused.forward_seconds()) * fused.profile.device.memory_bandwidth *
         fused.profile.memory.fraction;
}

TEST_CASE("norms, rotations and gates move as much as the program says of each, and no other pass does") {
  constexpr double layers = 8, tokens = 1024, width = 1024, inner = 4096, keys = 512, element = 2;
  const double fused = TrafficFacts{}.elementwise;
  Program norms, rotations, gates, all;
  norms.traffic.rms_norm = all.traffic.rms_norm = 12;
  rotations.traffic.rotation = all.traffic.rotation = 6;
  gates.traffic.gate = all.traffic.gate = 2;
  // Read and written: the inputs of two norms per layer and of the one before the head, and queries and keys. A gate
  // reads both halves and writes their product.
  CHECK(further_forward_bytes(norms) == Approx((12 - fused) * element * (2 * layers + 1) * tokens * 2 * width));
  CHECK(further_forward_bytes(rotations) == Approx((6 - fused) * element * layers * tokens * 2 * (width + keys)));
  CHECK(further_forward_bytes(gates) == Approx((2 - fused) * element * layers * tokens * 3 * inner));
  CHECK(further_forward_bytes(all) ==
        Approx(further_forward_bytes(norms) + further_forward_bytes(rotations) + further_forward_bytes(gates)));
}

TEST_CASE("adapters move what the program says of their inputs and results, in either direction") {
  // Rank 16 on all seven matrices of a layer: of 1,024 wide tokens three projections of queries, keys and values, the
  // output's, the gate and what it multiplies, and of 4,096 the one down.
  const std::vector<std::string> adapted = {"model.ffn_hidden_size=4096", "model.kv_heads=8",
                                            R"(model.lora={"rank": 16, "targets": ["all-linear"]})"};
  constexpr double tokens = 1024, layers = 8, element = 2;
  constexpr double inputs = 6 * 1024 + 4096, results = 1024 + 2 * 512 + 1024 + 2 * 4096 + 1024;
  const auto seconds = [&](const Program& program) {
    PlannedAs planned(adapted, program);
    planned.profile.host.operator_seconds = 0;
    planned.profile.device.kernel_seconds = 0;
    planned.profile.memory.half_bytes = 0;
    const StageCost cost = make_step_costs(planned.priced()).stages[0];
    const double rate = planned.profile.device.memory_bandwidth * planned.profile.memory.fraction;
    return std::pair{cost.forward.seconds * rate, cost.backward.seconds * rate};
  };
  Program casts, sums;
  casts.traffic.adapter_inputs = 8;
  sums.traffic.adapter_outputs = 4;
  const auto [forward, backward] = seconds({});
  for (const auto& [program, bytes] : {std::pair{casts, 8 * inputs}, {sums, 4 * results}}) {
    const auto [with, with_backward] = seconds(program);
    CHECK(with - forward == Approx(layers * tokens * element * bytes));
    CHECK(with_backward - backward == Approx(layers * tokens * element * bytes));
  }
}

TEST_CASE("layer norms and activations without a gate are fused in every program") {
  const std::vector<std::string> gpt = {"model.norm=layernorm", "model.activation=gelu"};
  Program apart;
  apart.traffic.rms_norm = apart.traffic.gate = 12;
  CHECK(PlannedAs(gpt, apart).forward_seconds() == PlannedAs(gpt, {}).forward_seconds());
}

TEST_CASE("what passes lose beside gathers is the program's where it states it, otherwise the device's") {
  Program slow;
  slow.overlap.slowdown = 0.5;
  const PlannedAs stated({}, slow), left_out({}, {});
  CHECK(make_step_costs(stated.priced()).compute_slowdown == 0.5);
  CHECK(make_step_costs(left_out.priced()).compute_slowdown == left_out.profile.compute_slowdown);
}

TEST_CASE("ZeRO-1 that adds up whole gradients on all ranks moves twice what scattering them does") {
  Program whole;
  whole.data.all_reduces = true;
  const auto reduction = [](const std::string& stage, const Program& program) {
    const PlannedAs planned({"parallel.zero_stage=" + stage}, program);
    const PricedLayout priced = planned.priced();
    return state_transfers(priced, 0).front();
  };
  const StateTransfer summed = reduction("1", whole), scattered = reduction("1", {});
  CHECK(summed.collective == Collective::all_reduce);
  CHECK(scattered.collective == Collective::reduce_scatter);
  CHECK(summed.bytes == scattered.bytes);
  CHECK(summed.seconds == Approx(2 * scattered.seconds));
  CHECK(reduction("2", whole).collective == Collective::reduce_scatter);
  // Gradients in 16 bits that are widened for it.
  Program narrow;
  narrow.data.reduced_bytes = 2;
  CHECK(2 * reduction("1", narrow).bytes == scattered.bytes);
}

TEST_CASE("gradients that are added by passes of their own lengthen every backward by these") {
  Program apart;
  apart.traffic.gradient_sums = 3;
  const std::vector<std::string> narrow = {"precision.gradients=bf16"};
  const PlannedAs planned(narrow, apart), other(narrow, {});
  const auto backward = [](const PlannedAs& of) { return make_step_costs(of.priced()).stages[0].backward.seconds; };
  double elements = 0;
  for (const StateGroup& group : planned.layout.partition().groups[0])
    elements += static_cast<double>(group.elements());
  const double bytes =
      (backward(planned) - backward(other)) * planned.profile.device.memory_bandwidth * planned.profile.memory.fraction;
  CHECK(bytes == Approx(3 * 2 * elements).epsilon(1e-2));
}

TEST_CASE("ZeRO-1 that moves tensors one by one waits for the ring of all ranks with each") {
  const std::vector<std::string> sharded = {"parallel.zero_stage=1"};
  Program tensors;
  tensors.data.tensor_messages = 2;
  const PlannedAs at_once(sharded, {}), one_by_one(sharded, tensors);
  const PricedLayout plain = at_once.priced(), waits = one_by_one.priced();
  const std::vector<StateTransfer> before = state_transfers(plain, 0), after = state_transfers(waits, 0);
  REQUIRE(before.size() == after.size());
  const auto count = static_cast<double>(plain.graph().parameters.size());
  // 14 hops over NVLink and one between the nodes.
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(after[i].seconds - before[i].seconds == Approx(2 * count * (14 * 3.4e-6 + 14e-6)));
}

TEST_CASE("an optimizer that walks through tensors takes its time for each") {
  Program walks;
  walks.host.tensor_seconds = 1;
  PlannedAs planned({}, walks), other({}, {});
  const double more =
      make_step_costs(planned.priced()).optimizer_seconds[0] - make_step_costs(other.priced()).optimizer_seconds[0];
  CHECK(more == Approx(static_cast<double>(planned.layout.graph().parameters.size())).epsilon(1e-3));
}

TEST_CASE("collectives between nodes reach the part of the adapters' bandwidth that the program states") {
  Program half;
  PlannedAs plain({}, {});
  half.network.efficiency = plain.profile.network.efficiency / 2;
  const PlannedAs slow({}, half);
  const RankGroup group{2, 8, 1};
  const double bytes = 1e10, latency = 2 * plain.profile.network.latency_seconds;
  CHECK(slow.priced().collectives.all_reduce(bytes, group) - latency ==
        Approx(2 * (plain.priced().collectives.all_reduce(bytes, group) - latency)));
}

TEST_CASE("what is gathered and kept is the rest of two inputs per layer, and is not gathered again") {
  const std::vector<std::string> sequence = {"parallel.tensor=4", "parallel.sequence=true"};
  Program keeps;
  keeps.memory.keeps_gathered = true;
  const PlannedAs kept(sequence, keeps), again(sequence, {});
  const auto saved = [](const PlannedAs& planned) {
    const StepMemory memory = make_step_memory(planned.priced());
    return memory.stages[0].held(MemoryEvent::forward_starts, MemoryEvent::backward_ends);
  };
  // Inputs of queries and of the feed-forward network, of 1,024 tokens and elements in 16 bits.
  CHECK(saved(kept) - saved(again) == Approx(2 * 8 * 1024.0 * 1024 * 2 * 3 / 4));
  CHECK(make_step_costs(kept.priced()).stages[0].backward.communication_seconds <
        make_step_costs(again.priced()).stages[0].backward.communication_seconds);
}

TEST_CASE(
    "whole tensors that are scattered stay where the host runs ahead, in so many blocks, without pipeline ranks") {
  const auto further = [](std::vector<std::string> overrides, double blocks) {
    overrides.insert(overrides.end(), {"parallel.tensor=4", "parallel.sequence=true"});
    Program ahead;
    ahead.memory.blocks_ahead = blocks;
    const auto saved = [&](const Program& program) {
      const PlannedAs planned(overrides, program);
      const StepMemory memory = make_step_memory(planned.priced());
      return memory.stages[0].held(MemoryEvent::forward_starts, MemoryEvent::backward_ends);
    };
    return saved(ahead) - saved({});
  };
  // Results of attention and of the feed-forward network, of 1,024 tokens and elements in 16 bits, and of the
  // embedding.
  const double whole = 1024.0 * 1024 * 2;
  CHECK(further({}, 8) == Approx((2 * 8 + 1) * whole));
  CHECK(further({}, 100) == further({}, 8));
  CHECK(further({}, 2) == Approx(further({}, 8) / 4));
  CHECK(further({"parallel.pipeline=2"}, 8) == 0);
}

TEST_CASE("an activated gate that is kept is a tensor of the inner size per layer, divided by tensor ranks") {
  Program keeps;
  keeps.memory.keeps_activated_gate = true;
  const auto saved = [](const std::vector<std::string>& overrides, const Program& program) {
    const PlannedAs planned(overrides, program);
    const StepMemory memory = make_step_memory(planned.priced());
    return memory.stages[0].held(MemoryEvent::forward_starts, MemoryEvent::backward_ends);
  };
  const auto further = [&](const std::vector<std::string>& overrides) {
    return saved(overrides, keeps) - saved(overrides, {});
  };
  // There are 8 layers, 1,024 tokens and elements in 16 bits.
  CHECK(further({"model.ffn_hidden_size=4096"}) == Approx(8 * 1024.0 * 4096 * 2));
  CHECK(further({"model.ffn_hidden_size=4096", "parallel.tensor=4"}) == Approx(8 * 1024.0 * 1024 * 2));
  // A backward that runs the forward again keeps nothing of it, and without a gate there is none.
  CHECK(further({"model.ffn_hidden_size=4096", "memory.recompute=full"}) == 0);
  CHECK(further({"model.ffn_hidden_size=4096", "model.activation=gelu"}) == 0);
}

}  // namespace
}  // namespace llmtrain
