// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/state_cost.h"
#include "parallel/plan/cost/state_transfers.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/cost/two_streams.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

const std::filesystem::path clusters = test::source_folder() / "recipes/clusters";

// GPT-2's shapes: 8 layers of width 1024 on 16 ranks of two nodes, unless overridden.
Recipe recipe_of(std::vector<std::string> overrides = {}) {
  const std::string text = R"({"model": {"architecture": "gpt2", "layers": 8, "hidden_size": 1024, "heads": 16,
    "vocab_size": 51200, "max_sequence_length": 1024}, "batch": {"global": 64, "micro": 1}, "training": {"steps": 1},
    "precision": {"compute": "bf16"}, "parallel": {"overlap": false}, "pipeline": {"schedule": "1f1b"},
    "cluster": {"profile": "a100-80gb", "nodes": 2, "devices_per_node": 8}})";
  return parse_recipe(text, "test", ".", overrides);
}

struct Planned {
  explicit Planned(const std::vector<std::string>& overrides, const std::string& profile_name = "a100-80gb")
      : layout(Partition::make(recipe_of(overrides), 8)), profile(load_profile(profile_name, clusters)) {}

  StepCosts costs() const { return make_step_costs({layout.partition(), profile}); }
  double parameters() const { return static_cast<double>(layout.graph().parameter_count()); }
  // Bytes of every group, or of one.
  double bytes(const std::string& collective, const std::string& purpose, const std::string& group = "") const {
    double sum = 0;
    for (const CommunicationEntry& entry : communication_of({layout.partition(), profile}, layout.schedule())) {
      if (planned_name(entry.collective) == collective && purpose_name(entry.purpose) == purpose &&
          (group.empty() || entry.tensors == group))
        sum += entry.bytes_per_rank_per_step;
    }
    return sum;
  }

  Layout layout;
  ClusterProfile profile;
};

TEST_CASE("full recomputation repeats only the layers' forward") {
  const Planned none({"memory.recompute=none"}), full({"memory.recompute=full"});
  const StageCost without = none.costs().stages.front(), with = full.costs().stages.front();
  CHECK(without.backward.recompute_seconds == 0);
  CHECK(with.forward.seconds == Approx(without.forward.seconds));
  CHECK(with.backward.seconds == Approx(without.backward.seconds + with.backward.recompute_seconds));
  CHECK(with.backward.recompute_seconds > 0.5 * without.forward.seconds);
  CHECK(with.backward.recompute_seconds < without.forward.seconds);
}

TEST_CASE("passes that are CUDA graphs take the device's time, however slowly the host launches operators") {
  const auto seconds = [](const std::string& graphs, double of_operator) {
    Planned planned({"kernels.cuda_graphs=" + graphs, "memory.recompute=full"});
    planned.profile.host.operator_seconds = of_operator;
    return planned.costs().stages[0].forward.seconds + planned.costs().stages[0].backward.seconds;
  };
  CHECK(seconds("true", 1e-3) == Approx(seconds("false", 0)));
  CHECK(seconds("false", 1e-3) > 2 * seconds("true", 1e-3));
}

TEST_CASE("selective recomputation repeats less than the layer, and nothing if scores are not stored") {
  const Planned full({"memory.recompute=full", "kernels.attention=math"});
  const Planned selective({"memory.recompute=selective", "kernels.attention=math"});
  const Planned fused({"memory.recompute=selective", "kernels.attention=flash"});
  const auto recomputed = [](const Planned& plan) { return plan.costs().stages.front().backward.recompute_seconds; };
  CHECK(recomputed(selective) > 0);
  CHECK(recomputed(selective) < recomputed(full));
  CHECK(recomputed(fused) == 0);
}

// Eight layers on four stages; 50 ms per layer is far more than an A100 takes.
TEST_CASE("passes of an emulated device take its layers' time, only with the local backend") {
  const auto stage = [](const std::string& backend, const std::string& recompute) {
    return Planned({"parallel.pipeline=4", "launch.layer_delay_microseconds=50000", "launch.backend=" + backend,
                    "memory.recompute=" + recompute})
        .costs()
        .stages[1];
  };
  CHECK(stage("local", "none").forward.seconds == Approx(0.1));
  CHECK(stage("local", "none").backward.seconds == Approx(0.2));
  CHECK(stage("local", "full").backward.seconds == Approx(0.3));
  CHECK(stage("mpi", "none").forward.seconds < 0.05);
}

TEST_CASE("an emulated network delays messages between stages, only with the local backend") {
  const auto transfer = [](const std::string& backend, const std::string& delay) {
    return Planned({"parallel.pipeline=2", "cluster.nodes=1", "parallel.data=4", "launch.backend=" + backend,
                    "launch.link_delay_microseconds=" + delay})
        .costs()
        .transfer_seconds.front();
  };
  CHECK(transfer("local", "20000") == Approx(transfer("local", "0") + 0.02));
  CHECK(transfer("mpi", "20000") == transfer("mpi", "0"));
}

TEST_CASE("stages add up to the whole model") {
  const Planned whole({}), split({"parallel.pipeline=4"});
  const StepCosts one = whole.costs(), four = split.costs();
  REQUIRE(four.stages.size() == 4);
  double forward = 0, backward = 0;
  for (const StageCost& stage : four.stages) {
    forward += stage.forward.seconds;
    backward += stage.backward.seconds;
  }
  CHECK(forward == Approx(one.stages.front().forward.seconds));
  CHECK(backward == Approx(one.stages.front().backward.seconds));
  CHECK(four.transfer_seconds.size() == 4);
  CHECK(four.optimizer_seconds.size() == 4);
  CHECK(four.transfer_seconds.front() > 0);
  CHECK(one.transfer_seconds == std::vector<double>{0});
  CHECK(four.blocking_transfers);
}

TEST_CASE("a program that waits for its transfers pays their host time more than once") {
  const Planned waits({"parallel.pipeline=4"}), beside({"parallel.pipeline=4", "parallel.overlap=true"});
  const double host = waits.profile.host.transfer_seconds;
  CHECK_FALSE(beside.costs().blocking_transfers);
  CHECK(beside.costs().transfer_seconds.front() > host);
  CHECK(waits.costs().transfer_seconds.front() - beside.costs().transfer_seconds.front() ==
        Approx((HostFacts{}.blocking_transfer - 1) * host));
}

TEST_CASE("passes occupy their wires for all that they exchange, hidden or not") {
  for (const char* program : {"llmtrain", "megatron-core"}) {
    Planned plan({"parallel.tensor=8", "parallel.sequence=true", "batch.micro=2"});
    plan.profile.program = load_program(program, clusters.parent_path() / "programs");
    plan.profile.node.all_reduce.clear();
    plan.profile.node.latency_seconds = 0;
    const StageCost stage = plan.costs().stages.front();
    const double micro_batches = 16;
    const double bytes = plan.bytes("all_gather", "tensor_parallel") + plan.bytes("reduce_scatter", "tensor_parallel") +
                         plan.bytes("all_reduce", "tensor_parallel") -
                         plan.bytes("all_reduce", "tensor_parallel", "norm gradients");
    const double bandwidth = plan.profile.node.link_bandwidth * plan.profile.node.link_efficiency;
    CHECK(micro_batches * (stage.forward.wires.links + stage.backward.wires.links) == Approx(bytes / bandwidth));
    CHECK(stage.forward.wires.adapters == 0);
    // Two data ranks on two nodes.
    CHECK(stage.reduce_wires.links == 0);
    CHECK(stage.reduce_wires.adapters > 0);
    CHECK(stage.reduce_wires.adapters <= stage.reduce_seconds);
  }
}

TEST_CASE("replicated gradients are reduced by a ring over all their bytes") {
  const Planned plan({});
  const auto parameters = plan.parameters();
  CHECK(plan.bytes("all_reduce", "data_parallel") == Approx(2 * 15.0 / 16 * 4 * parameters));
  const Planned low({"precision.gradients=\"bf16\""});
  CHECK(low.bytes("all_reduce", "data_parallel") == Approx(2 * 15.0 / 16 * 2 * parameters));
}

TEST_CASE("ZeRO's volumes are those of its paper: twice the parameters, three times at stage 3") {
  for (const int stage : {1, 2}) {
    const Planned plan({"parallel.zero_stage=" + std::to_string(stage), "precision.gradients=\"bf16\"",
                        "pipeline.schedule=\"breadth_first\""});
    const auto parameters = plan.parameters();
    CHECK(plan.bytes("reduce_scatter", "data_parallel") == Approx(15.0 / 16 * 2 * parameters));
    CHECK(plan.bytes("all_gather", "data_parallel") == Approx(15.0 / 16 * 2 * parameters));
  }
  const Planned plan({"parallel.zero_stage=3", "precision.gradients=\"bf16\"", "pipeline.loops=8",
                      "pipeline.schedule=\"breadth_first\""});
  const auto parameters = plan.parameters();
  CHECK(plan.bytes("reduce_scatter", "data_parallel") == Approx(15.0 / 16 * 2 * parameters));
  CHECK(plan.bytes("all_gather", "data_parallel") == Approx(2 * 15.0 / 16 * 2 * parameters));
  // Ordinary FSDP gathers and reduces for each of the four micro-batches.
  const Planned ordinary({"parallel.zero_stage=3", "precision.gradients=\"bf16\"", "pipeline.loops=8",
                          "pipeline.schedule=\"interleaved\""});
  CHECK(ordinary.bytes("all_gather", "data_parallel") == Approx(4 * plan.bytes("all_gather", "data_parallel")));
  CHECK(ordinary.bytes("reduce_scatter", "data_parallel") == Approx(4 * plan.bytes("reduce_scatter", "data_parallel")));
}

TEST_CASE("shards inside a node leave an all-reduce of one shard between nodes") {
  const Planned plan({"parallel.zero_stage=1", "parallel.zero_shard_ranks=8"});
  const auto parameters = plan.parameters();
  CHECK(plan.bytes("reduce_scatter", "data_parallel") == Approx(7.0 / 8 * 4 * parameters));
  CHECK(plan.bytes("all_reduce", "data_parallel") == Approx(2 * 0.5 * 4 * parameters / 8));
}

TEST_CASE("states of experts keep their ZeRO stage in a split that gathers nothing") {
  const Planned plan({R"(model.moe={"experts": 16, "top_k": 2, "ffn_hidden_size": 4096})", "parallel.zero_stage=3",
                      "parallel.zero_shard_ranks=8", "parallel.expert_slices=8", "parallel.expert_tensor=auto",
                      "batch.global=64"});
  for (const std::int64_t ranks : {1, 8}) {
    const Partition split = plan.layout.partition().split_by(ranks);
    const StateRanks experts = PricedLayout(split, plan.profile).expert_ranks;
    CHECK(experts.gathering.ranks == 8 / ranks);
    CHECK(experts.replicas.ranks == 2);
    CHECK(experts.zero_stage == 3);
    for (const StateGroup& group : split.groups.front()) CHECK(group.zero_stage == 3);
  }
}

TEST_CASE("FP8 levels speed up only the layers' matrices") {
  const auto sizes = [&](const std::string& level) {
    const Planned plan({"parallel.zero_stage=1", "precision.fp8_level=" + level});
    return std::pair{plan.bytes("reduce_scatter", "data_parallel") * 16 / 15,
                     plan.bytes("all_gather", "data_parallel") * 16 / 15};
  };
  const double all = Planned({}).parameters(), matrices = 8 * 12 * 1024.0 * 1024, others = all - matrices;
  CHECK(sizes("off") == std::pair{4 * all, 2 * all});
  CHECK(sizes("O1") == std::pair{matrices + 4 * others, 2 * all});
  CHECK(sizes("O3") == std::pair{matrices + 4 * others, matrices + 2 * others});
}

TEST_CASE("tensor parallelism reduces four times per layer and micro-batch, six times with recomputation") {
  const double tensor = 1024.0 * 1024 * 2;
  const Planned none({"parallel.tensor=8", "parallel.sequence=false"});
  const double micro_batches = 32, layers = 8;
  const auto activations = [](const Planned& plan, const std::string& collective) {
    return plan.bytes(collective, "tensor_parallel", "activations");
  };
  CHECK(activations(none, "all_reduce") == Approx(4 * layers * micro_batches * 2 * 7.0 / 8 * tensor));
  const Planned full({"parallel.tensor=8", "parallel.sequence=false", "memory.recompute=full"});
  CHECK(activations(full, "all_reduce") == Approx(1.5 * activations(none, "all_reduce")));
  const Planned sequence({"parallel.tensor=8"});
  CHECK(activations(sequence, "reduce_scatter") == Approx(4 * layers * micro_batches * 7.0 / 8 * tensor));
  CHECK(activations(sequence, "all_gather") == Approx(6 * layers * micro_batches * 7.0 / 8 * tensor));
  CHECK(none.costs().stages.front().forward.communication_seconds > 0);
  CHECK(sequence.costs().stages.front().forward.communication_seconds > 0);
}

TEST_CASE("the embedding and the head exchange with the tensor ranks once in each direction") {
  const double all = 32 * 7.0 / 8 * 1024 * 1024 * 2;  // 32 micro-batches
  const std::string name = "embedding and head";
  const Planned whole({"parallel.tensor=8", "parallel.sequence=false"});
  CHECK(whole.bytes("all_reduce", "tensor_parallel", name) == Approx(2 * 2 * all));
  const Planned split({"parallel.tensor=8"});
  CHECK(split.bytes("all_gather", "tensor_parallel", name) == Approx(2 * all));
  CHECK(split.bytes("reduce_scatter", "tensor_parallel", name) == Approx(2 * all));
  CHECK(split.bytes("all_gather", "tensor_parallel", "cross-entropy") == Approx(32 * 7.0 * 3 * 4 * 1024));
  CHECK(Planned({}).bytes("all_gather", "tensor_parallel") == 0);
}

TEST_CASE("tensor ranks sum the gradients of shared parameters") {
  const double ring = 2 * 7.0 / 8 * 4;
  const auto norms = [](const std::vector<std::string>& overrides) {
    return Planned(overrides).bytes("all_reduce", "tensor_parallel", "norm gradients");
  };
  // Per layer two norms with weight and bias and two biases after sums; the last norm, and the positions.
  const double shared = (8 * 6 + 2) * 1024 + 1024 * 1024;
  CHECK(norms({"parallel.tensor=8"}) == Approx(ring * shared));
  CHECK(norms({"parallel.tensor=8", "parallel.sequence=false"}) == 0);
  CHECK(norms({"parallel.tensor=8", "parallel.sequence=false", "model.qk_norm=true"}) == Approx(ring * 8 * 2 * 64));
  // The positions and half of the layers are in the first of two shards.
  CHECK(norms({"parallel.tensor=8", "parallel.zero_stage=1"}) < ring * shared);
  CHECK(norms({"parallel.tensor=8", "parallel.zero_stage=1"}) > ring * 1024 * 1024);
  // Four heads of keys and values: two ranks hold each, with 64 rows of both matrices and both biases.
  const Planned heads({"parallel.tensor=8", "model.kv_heads=4"});
  CHECK(heads.bytes("all_reduce", "tensor_parallel", "key and value gradients") ==
        Approx(2 * 0.5 * 4 * 8 * 2 * 64 * (1024 + 1)));
}

TEST_CASE("inner pipeline ranks send each boundary in both directions") {
  const Planned plan({"parallel.pipeline=4"});
  CHECK(plan.bytes("send_receive", "pipeline") == Approx(2 * 16 * 1024.0 * 1024 * 2));
  CHECK(plan.bytes("all_reduce", "pipeline") == Approx(51200.0 * 1024 * 4));
}

TEST_CASE("experts exchange their tokens twice in each direction") {
  const std::vector<std::string> mixture = {"model.moe={\"experts\": 16, \"top_k\": 2}", "parallel.expert=8"};
  const Planned plan(mixture);
  const double places = 16.0 * 2 * (1024.0 / 16);
  const double micro_batches = 4, layers = 8;
  CHECK(plan.bytes("all_to_all", "expert") == Approx(4 * layers * micro_batches * 7.0 / 8 * places * 1024 * 2));
  const Planned dense({});
  CHECK(plan.costs().stages.front().forward.seconds > dense.costs().stages.front().forward.seconds);
  CHECK(plan.costs().stages.front().forward.communication_seconds > 0);
}

TEST_CASE("parts pass over two streams: the longer of them, and what must come before and after it") {
  for (const int parts : {1, 2, 4, 8}) {
    // All arrives before anything leaves, and the last part's results follow it.
    CHECK(two_stream_seconds({3, 0, 2}, parts) == 5 * parts);
    CHECK(two_stream_seconds({3, 2, 2}, parts) == std::max(5 * parts, 3 * parts + 4));
    CHECK(two_stream_seconds({3, 10, 2}, parts) == 3 + 10 * parts + 2);
  }
  // The first part is there at 4, its results at 7, when the second part still arrives; those leave from 8 on.
  CHECK(two_stream_seconds({4, 3, 5}, 2) == 18);
}

// Between nodes the exchange takes about as long as the experts. Cut into parts it sends as many bytes, in messages of
// their own.
TEST_CASE("experts hide the exchange of other parts behind the computation of one") {
  const auto plan = [](int parts, const std::string& recompute) {
    return Planned({"model.moe={\"experts\": 16, \"top_k\": 2}", "model.hidden_size=2048", "parallel.expert=16",
                    "batch.micro=4", "parallel.expert_overlap=" + std::to_string(parts),
                    "memory.recompute=" + recompute});
  };
  const auto seconds = [](const Planned& planned) {
    const StageCost cost = planned.costs().stages.front();
    return cost.forward.seconds + cost.backward.seconds;
  };
  const auto exposed = [](const Planned& planned) {
    double share = 0;
    for (const CommunicationEntry& entry :
         communication_of({planned.layout.partition(), planned.profile}, planned.layout.schedule()))
      if (entry.tensors == "tokens") share = entry.exposed_seconds / entry.seconds;
    return share;
  };
  for (const std::string recompute : {"none", "full"}) {
    const Planned whole = plan(1, recompute), halves = plan(2, recompute), many = plan(16, recompute);
    CHECK(halves.bytes("all_to_all", "expert", "tokens") == whole.bytes("all_to_all", "expert", "tokens"));
    for (PassCost StageCost::*const pass : {&StageCost::forward, &StageCost::backward}) {
      const PassCost before = whole.costs().stages.front().*pass, after = halves.costs().stages.front().*pass;
      CHECK(after.communication_seconds < before.communication_seconds);
    }
    CHECK(seconds(halves) < seconds(whole));
    CHECK(exposed(whole) == 1);
    CHECK(exposed(halves) < 0.8);
    CHECK(exposed(many) < exposed(halves));
    // Small messages and products cost more than they hide.
    CHECK(seconds(many) > seconds(halves));
  }
}

// Duplicate token dropping (arXiv 2303.06318, section 4): the all-to-all carries what one rank's would ÷ tensor ranks.
TEST_CASE("tensor ranks send each token to the experts once, and gather the rows of those that they split") {
  const auto plan = [](const char* expert_tensor, const char* sequence) {
    return Planned({"model.moe={\"experts\": 16, \"top_k\": 2}", "parallel.expert=8", "parallel.tensor=2",
                    std::string("parallel.expert_tensor=") + expert_tensor,
                    std::string("parallel.sequence=") + sequence});
  };
  // 8 layers, 8 micro-batches, both passes; rows of 1024 tokens for two experts each, of which a rank sends half.
  const double passes = 2 * 8 * 8, rows = 2 * 1024 * 1024 * 2.0;
  for (const char* sequence : {"true", "false"}) {
    const Planned split = plan("2", sequence), whole = plan("1", sequence);
    for (const Planned& planned : {split, whole})
      CHECK(planned.bytes("all_to_all", "expert", "tokens") == Approx(2 * passes * 7 / 8 * rows / 2));
    CHECK(split.bytes("all_gather", "tensor_parallel", "expert rows") == Approx(passes * rows / 2));
    CHECK(split.bytes("reduce_scatter", "tensor_parallel", "expert rows") == Approx(passes * rows / 2));
    CHECK(whole.bytes("all_gather", "tensor_parallel", "expert rows") == 0);
  }
  // Without sequence parallelism every rank needs the results of all tokens.
  CHECK(plan("2", "true").bytes("all_gather", "tensor_parallel", "expert results") == 0);
  CHECK(plan("2", "false").bytes("all_gather", "tensor_parallel", "expert results") ==
        Approx(passes * 1024 * 1024 * 2 / 2));
}

TEST_CASE("context parallelism gathers keys and values and scatters their gradients") {
  // Both have 1024 tokens, width 1024 and 2 bytes per element; 8 layers and 16 micro-batches.
  const double sent = 3.0 / 4 * 2 * 1024 * 1024 * 2 * 8 * 16;
  const Planned plan({"parallel.context=4", "kernels.attention=flash"});
  CHECK(plan.bytes("all_gather", "context") == Approx(2 * sent));
  CHECK(plan.bytes("reduce_scatter", "context") == Approx(sent));
  const Planned repeated({"parallel.context=4", "kernels.attention=flash", "memory.recompute=full"});
  CHECK(repeated.bytes("all_gather", "context") == Approx(3 * sent));
  CHECK(repeated.bytes("reduce_scatter", "context") == Approx(sent));
  const Planned math({"parallel.context=4", "kernels.attention=math"});
  const Planned selective({"parallel.context=4", "kernels.attention=math", "memory.recompute=selective"});
  const auto waiting = [](const Planned& p) { return p.costs().stages.front().backward.communication_seconds; };
  CHECK(waiting(selective) == waiting(math));
  CHECK(waiting(repeated) > waiting(math));
}

TEST_CASE("a step with more work is never faster") {
  const auto forward = [](const std::vector<std::string>& overrides) {
    return Planned(overrides).costs().stages.front().forward.seconds;
  };
  const double base = forward({});
  CHECK(forward({"batch.micro=2"}) > base);
  CHECK(forward({"model.layers=9"}) > base);
  CHECK(forward({"model.ffn_hidden_size=8192"}) >= base);
  CHECK(forward({"model.vocab_size=102400"}) > base);
  CHECK(forward({"model.dropout=0.1"}) > base);
  CHECK(forward({"batch.micro=4"}) < 4 * base);
}

TEST_CASE("the optimizer's memory traffic is divided over ZeRO's shards") {
  const Planned whole({}), sharded({"parallel.zero_stage=1"});
  CHECK(sharded.costs().optimizer_seconds.front() < whole.costs().optimizer_seconds.front() / 4);
  PrecisionRecipe precision{DataType::bf16, DataType::fp32, Fp8Level::off};
  CHECK(optimizer_bytes_per_parameter(precision) == 3 * 4 + 2 * 12 + 2);
  precision.fp8_level = Fp8Level::o1;
  CHECK(optimizer_bytes_per_parameter(precision) == 3 * 1 + 2 * 10);
  precision.fp8_level = Fp8Level::o3;
  CHECK(optimizer_bytes_per_parameter(precision) == 4 * 1 + 3 * 5 + 1);
}

TEST_CASE("large FP8 products are faster, and a device without FP8 uses the compute type") {
  const std::vector<std::string> large = {"model.hidden_size=8192", "model.heads=64", "batch.micro=4"};
  auto with_fp8 = large;
  with_fp8.emplace_back("precision.fp8_level=\"O2\"");
  CHECK(Planned(with_fp8, "h100-sxm-80gb").costs().stages.front().forward.seconds <
        Planned(large, "h100-sxm-80gb").costs().stages.front().forward.seconds);
  CHECK(Planned(with_fp8, "a100-80gb").costs().stages.front().forward.seconds >
        Planned(large, "a100-80gb").costs().stages.front().forward.seconds);
}

}  // namespace
}  // namespace llmtrain
