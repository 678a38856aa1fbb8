// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/profile/named_file.h"
#include "tests/support/source_folder.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

const std::filesystem::path recipe_folder = test::source_folder() / "recipes";
const std::filesystem::path programs = recipe_folder / "programs";

std::string problem_of(const std::string& text) {
  try {
    parse_program(text, "p.json");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "";
}

// Three uneven stages, large enough that the device sets their times: the embedding, layers, and layers with a head of
// a large vocabulary.
StepCosts costs_of(const Program& program) {
  const Recipe recipe = parse_recipe(R"({
    "model": {"architecture": "gpt2", "layers": 6, "hidden_size": 4096, "heads": 32, "vocab_size": 65536,
              "max_sequence_length": 2048},
    "batch": {"global": 8, "micro": 1}, "training": {"steps": 1}, "precision": {"compute": "bf16"},
    "parallel": {"pipeline": 3, "data": 1}, "pipeline": {"schedule": "1f1b"},
    "cluster": {"profile": "h100-sxm-80gb", "devices_per_node": 3}
  })",
                                     "recipe", ".");
  ClusterProfile profile = load_profile("h100-sxm-80gb", recipe_folder / "clusters");
  profile.program = program;
  const Partition partition = Partition::make(recipe, 3);
  return make_step_costs({partition, profile});
}

TEST_CASE("every shipped program is read and states the sources of its facts") {
  const std::vector<std::string> names = names_in(programs);
  for (const char* name : {"llmtrain", "megatron-core", "megatron-core-deepep", "nemo", "torchtitan",
                           "torchtitan-compile", "fsdp-compile", "deepspeed", "megatron-deepspeed", "llm-foundry"})
    CHECK(std::ranges::count(names, name) == 1);
  for (const std::string& name : names) {
    const Program program = load_program(name, programs);
    CHECK(program.name == name);
    CHECK_FALSE(program.description.empty());
  }
}

TEST_CASE("a program states what differs, and keeps the rest") {
  const Program program = parse_program(
      R"({"name": "p", "traffic": {"elementwise": 0.5}, "overlap": {"tensor": "products"},
          "sources": {"traffic": "here", "overlap": "there"}})",
      "p.json");
  CHECK(program.name == "p");
  CHECK(program.traffic.elementwise == 0.5);
  CHECK(program.traffic.cross_entropy == TrafficFacts{}.cross_entropy);
  CHECK(program.overlap.tensor == TensorOverlap::products);
  CHECK(program.overlap.sequence_regather == OverlapFacts{}.sequence_regather);
  CHECK(program.sources.at("overlap") == "there");
}

TEST_CASE("attention is that of the device, which begins the name of its profiles") {
  const Program program = parse_program(
      R"({"attention": {"h100": {"forward_fraction": 0.5, "backward_fraction": 0.25}}, "sources": {"attention": ""}})",
      "p.json");
  REQUIRE(program.attention_on("h100-sxm-80gb").has_value());
  CHECK(program.attention_on("h100-mine")->backward_fraction == 0.25);
  CHECK_FALSE(program.attention_on("a100-80gb").has_value());
  CHECK_FALSE(program.attention_on("h1000").has_value());
}

TEST_CASE("a program that knows attention on H100 knows it on H200, where it is as fast, and on B200") {
  for (const std::string& name : names_in(programs)) {
    const Program program = load_program(name, programs);
    const auto hopper = program.attention_on("h100-sxm-80gb");
    if (!hopper) continue;
    const auto seconds = [&](const std::string& cluster) {
      const ClusterProfile profile = load_profile(cluster, recipe_folder / "clusters");
      const auto attention = program.attention_on(cluster);
      REQUIRE(attention.has_value());
      return std::pair{1 / (profile.device.peak_flops.bf16 * attention->forward_fraction),
                       1 / (profile.device.peak_flops.bf16 * attention->backward_fraction)};
    };
    CHECK(seconds("h200") == seconds("h100-sxm-80gb"));
    CHECK(seconds("b200").first < seconds("h100-sxm-80gb").first);
    CHECK(seconds("b200").second < seconds("h100-sxm-80gb").second);
  }
}

TEST_CASE("a wrong program is reported with pointer and rule") {
  CHECK_THAT(problem_of(R"({"trafic": {}})"),
             Catch::Contains("/trafic: is not a key of a program") && Catch::Contains("did you mean \"traffic\"?"));
  CHECK_THAT(problem_of(R"({"traffic": {}})"), Catch::Contains("/traffic: has no source"));
  CHECK_THAT(problem_of(R"({"overlap": {"tensor": "some"}, "sources": {"overlap": ""}})"),
             Catch::Contains("/overlap/tensor: \"some\": must be \"none\" or \"products\""));
  CHECK_THAT(problem_of(R"({"attention": {"h100": {"forward_fraction": 0.5}}, "sources": {"attention": ""}})"),
             Catch::Contains("/attention/h100/backward_fraction: is missing"));
  CHECK_THAT(problem_of(R"({"kernels": {"rates": "guessed"}, "sources": {"kernels": ""}})"),
             Catch::Contains("/kernels/rates: \"guessed\": must be \"fitted\" or \"measured\""));
  CHECK_THAT(problem_of(R"({"traffic": {"elementwise": -1}, "sources": {"traffic": ""}})"),
             Catch::Contains("/traffic/elementwise: -1"));
  CHECK_THAT(problem_of(R"({"serving": {"atention": 1}, "sources": {"serving": ""}})"),
             Catch::Contains("/serving/atention: is not a key") && Catch::Contains("did you mean \"attention\"?"));
  CHECK_THAT(problem_of(R"({"serving": {"interruption": 1.5}, "sources": {"serving": ""}})"),
             Catch::Contains("/serving/interruption: 1.5"));
  CHECK_THAT(problem_of(R"({"serving": {"pass_seconds": 2}, "sources": {"serving": ""}})"),
             Catch::Contains("/serving/pass_seconds: 2"));
  CHECK_THAT(problem_of(R"({"serving": {"products": 1}})"), Catch::Contains("/serving: has no source"));
  CHECK_THAT(problem_of("[]"), Catch::Contains("must be an object, a program"));
}

TEST_CASE("a program has the facts of those that it is based on, the nearest first") {
  const test::TemporaryDirectory directory;
  const auto folder = directory
                          .write("a.json", R"({"name": "a", "traffic": {"cast": 3, "optimizer": 2},
    "sources": {"traffic": "a's"}})")
                          .parent_path();
  directory.write("b.json", R"({"name": "b", "based_on": "a", "traffic": {"cast": 4}, "sources": {"traffic": "b's"}})");
  directory.write("c.json", R"({"name": "c", "based_on": "b"})");
  const Program program = load_program("b", folder);
  CHECK(program.name == "b");
  CHECK(program.traffic.cast == 4);
  CHECK(program.traffic.optimizer == 2);
  CHECK(program.sources.at("traffic") == "b's");
  const Program grandchild = load_program("c", folder);
  CHECK(grandchild.name == "c");
  CHECK(grandchild.based_on == "b");
  CHECK(grandchild.traffic.cast == 4);
  CHECK(grandchild.traffic.optimizer == 2);
  directory.write("first.json", R"({"name": "first", "based_on": "second"})");
  directory.write("second.json", R"({"name": "second", "based_on": "first"})");
  CHECK_THROWS_WITH(load_program("first", folder),
                    Catch::Contains("second.json: /based_on") && Catch::Contains("\"first\" is based on this one"));
}

TEST_CASE("programs are found in the folders of their folder, and loaded by their names alone") {
  const Program program = load_program("vllm", programs);
  CHECK(program.name == "vllm");
  CHECK(std::filesystem::exists(programs / "served" / "vllm.json"));
  CHECK_THROWS_WITH(load_program("vlm", programs), Catch::Contains("did you mean \"vllm\"?"));
}

TEST_CASE("an unknown program is refused with the nearest name, and llmtrain needs no file") {
  CHECK_THROWS_WITH(load_program("nemmo", programs),
                    Catch::Contains("/cluster/program") && Catch::Contains("did you mean \"nemo\"?"));
  CHECK(load_program("llmtrain", "/nowhere").name == "llmtrain");
}

TEST_CASE("llmtrain's file is of its kernels on GPUs") {
  const Program on_gpu = load_program("llmtrain", programs),
                on_cpu = load_program("llmtrain", programs, DeviceKind::cpu);
  CHECK(on_gpu.kernels.rates == KernelRates::measured);
  CHECK_FALSE(on_gpu.traffic.loss_in_fp32);
  CHECK(on_cpu.kernels.rates == KernelRates::fitted);
  // Its kernels on CPUs are neither those nor Megatron-LM's, in which the header's facts were counted.
  CHECK(on_cpu.traffic.cross_entropy == 4.5);
  CHECK(on_cpu.traffic.elementwise == 0.8);
  CHECK(on_cpu.traffic.loss_in_fp32);
  CHECK(load_program("megatron-lm", programs).traffic.cross_entropy == TrafficFacts{}.cross_entropy);
}

TEST_CASE("blocks of FP8 elements share a scale") {
  // Four bytes (fp32) to 128 elements, and one (E8M0) to 32.
  CHECK(load_program("megatron-core-blockwise", programs).fp8.scale_bytes == 4.0 / 128);
  CHECK(load_program("megatron-core-mxfp8", programs).fp8.scale_bytes == 1.0 / 32);
  CHECK(load_program("megatron-core", programs).fp8.scale_bytes == 0);
}

TEST_CASE("even stages all take the passes of the median stage") {
  Program even;
  even.stages.even = true;
  const StepCosts own = costs_of({}), same = costs_of(even);
  std::vector<double> forward;
  for (const StageCost& stage : own.stages) forward.push_back(stage.forward.seconds);
  std::ranges::sort(forward);
  REQUIRE(forward.front() < forward.back());
  for (const StageCost& stage : same.stages) CHECK(stage.forward.seconds == forward[1]);
}

TEST_CASE("a program with twice the traffic of element-wise operators takes longer") {
  Program heavy;
  heavy.traffic.elementwise *= 2;
  CHECK(costs_of(heavy).stages[1].forward.seconds > costs_of({}).stages[1].forward.seconds);
}

}  // namespace
}  // namespace llmtrain
