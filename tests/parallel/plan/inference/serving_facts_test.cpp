// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/plan/inference/inference_case.h"

namespace llmtrain {
namespace {

using namespace inference_case;

const std::vector<Override> cluster = {"cluster.profile=\"h100-sxm-80gb\"", "cluster.devices_per_node=8"};

// On 8 devices with one split, so that factors choose no other.
InferencePlan plan_with(const Program& program, const std::string& further = "") {
  const Recipe recipe = bundled("models/llama3-70b", cluster);
  ClusterProfile profile = profile_of(recipe);
  profile.program = program;
  return InferencePlanner(recipe, profile)
      .plan(request_of("devices=8,batch=32,prompt=1024,generated=256,prefill.weights=1d,decode.weights=1d,"
                       "prefill.attention=heads,decode.attention=heads" +
                       further));
}

Program stated(const std::string& serving) {
  return parse_program(R"({"name": "own", "kernels": {"rates": "measured"}, "serving": )" + serving +
                           R"(, "sources": {"kernels": "", "serving": ""}})",
                       "own.json");
}

const std::string all_facts =
    R"({"products": 1.25, "attention": 0.5, "movement": 2, "exchanges": 0.125, "pass_seconds": 0.003, "prefill": 1.5,
        "interruption": 0.25, "waited_prompts": 0.0625, "waited_tokens": 4, "request_seconds": 0.75})";

TEST_CASE("a program's factors scale the parts of passes", "[serving_facts]") {
  const InferencePlan plain = plan_with(stated("{}")), scaled = plan_with(stated(all_facts));
  const PassPrice &token = plain.decode.price, &prompt = plain.prefill.price;
  REQUIRE(token.exchange_seconds > 0);
  CHECK(scaled.decode.price.product_seconds == 1.25 * token.product_seconds);
  CHECK(scaled.decode.price.attention_seconds == 0.5 * token.attention_seconds);
  CHECK(scaled.decode.price.movement_seconds == 2 * token.movement_seconds);
  CHECK(scaled.decode.price.exchange_seconds == 0.125 * token.exchange_seconds);
  CHECK(scaled.decode.price.host_seconds == 0.003);
  CHECK(scaled.prefill.price.product_seconds == 1.5 * prompt.product_seconds);
  CHECK(scaled.prefill.price.attention_seconds == 1.5 * prompt.attention_seconds);
  CHECK(scaled.prefill.price.movement_seconds == 1.5 * prompt.movement_seconds);
  CHECK(scaled.prefill.price.exchange_seconds == 1.5 * prompt.exchange_seconds);
  CHECK(scaled.prefill.price.host_seconds == 0);
}

TEST_CASE("a program's requests wait for each other's prompts and tokens", "[serving_facts]") {
  const InferencePlan plan = plan_with(stated(all_facts), ",batching=continuous");
  const double prompt = plan.prefill.price.seconds(), token = plan.decode.price.seconds(), others = 31;
  CHECK(plan.per_token_seconds == Approx(token + 0.25 * others * prompt / 256).epsilon(1e-12));
  CHECK(plan.first_token_seconds ==
        Approx(0.75 + prompt + 0.0625 * others * prompt + 4 * plan.per_token_seconds).epsilon(1e-12));
  // Requests of a batch that begins and ends together wait for nothing but their own passes.
  const InferencePlan whole = plan_with(stated(all_facts));
  CHECK(whole.per_token_seconds == whole.decode.price.seconds());
  CHECK(whole.first_token_seconds == Approx(0.75 + whole.prefill.price.seconds()).epsilon(1e-12));
}

TEST_CASE("a prompt's pass takes at least what the host takes to launch its operators", "[serving_facts]") {
  const auto prompt_of = [](const char* serving) { return plan_with(stated(serving)).prefill.price; };
  const PassPrice plain = prompt_of("{}"), bound = prompt_of(R"({"operator_seconds": 0.01})");
  // 80 layers, each of two norms with what they add, four products, a rotation, attention, a gate and four exchanges;
  // and the embedding's lookup, the last norm, the head's product and the choice of a token.
  CHECK(bound.operators == plain.operators);
  CHECK(bound.seconds() == Approx(0.01 * bound.operators).epsilon(1e-12));
  CHECK(bound.product_seconds == plain.product_seconds);
  // A device that takes longer hides it, and so does one that launches them as a graph.
  const double at_once = plain.seconds() / plain.operators;
  CHECK(prompt_of(("{\"operator_seconds\": " + std::to_string(0.99 * at_once) + "}").c_str()).host_seconds == 0);
  CHECK(prompt_of(("{\"operator_seconds\": " + std::to_string(1.5 * at_once) + "}").c_str()).host_seconds ==
        Approx(0.5 * plain.seconds()).epsilon(0.02));
  CHECK(plan_with(stated(R"({"operator_seconds": 0.01})")).decode.price.host_seconds == 0);
}

// TensorRT-LLM served Llama 3 70B in FP8 on one and two H200 and on one and four B200 with batch_wait_timeout_iters 20
// for 1,024 generated tokens and without for 8,192 (SemiAnalysisAI/InferenceX, benchmarks/70b_fp8_h200_trt_slurm.sh and
// 70b_fp8_b200_trt_slurm.sh up to October 2025): how much later first tokens came, in times per token.
TEST_CASE("prompts that are held back wait as long as measured", "[serving_facts]") {
  const auto first = [](const std::string& request) {
    return plan_with(stated("{}"), ",batching=continuous,prompt=1024,generated=1024" + request);
  };
  struct Wait {
    int batch;
    double measured[4];
  };
  for (const Wait& wait : {Wait{4, {19.2, 19.1, 19.1, 20.3}}, Wait{8, {19.6, 19.6, 17.8, 18.8}},
                           Wait{16, {17.6, 17.6, 16.1, 16.4}}, Wait{32, {18.4, 18.9, 16.7, 18.0}}}) {
    const std::string batch = ",batch=" + std::to_string(wait.batch);
    const InferencePlan plain = first(batch), held = first(batch + ",wait_passes=20");
    CHECK(held.per_token_seconds == plain.per_token_seconds);
    const double passes = (held.first_token_seconds - plain.first_token_seconds) / plain.per_token_seconds;
    INFO(wait.batch << " sequences: " << passes);
    // The spread of the four is 12 % of their mean.
    for (const double measured : wait.measured) CHECK(passes == Approx(measured).epsilon(0.15));
  }
  CHECK_THROWS_WITH(plan_with(stated("{}"), ",wait_passes=20"), Catch::Contains("wait_passes 20: with batching"));
}

// Weights of 9 GB and a cache of 32 GB of 1,200 sequences on each device, 2,048 tokens of each.
const std::string many = ",batching=continuous,weights=fp8,batch=1200,prompt=1024,generated=1024";

// How many sequences run by the bytes that a device has for the cache, and what the others wait.
void check_queue(const InferencePlan& plan, double cache_bytes, double tokens) {
  const InferencePlan one =
      plan_with(stated("{}"), ",batching=continuous,weights=fp8,batch=1,prompt=1024,generated=1024");
  const auto running = static_cast<std::int64_t>(cache_bytes / (one.memory.cache * tokens / 2048));
  REQUIRE(running < 1200);
  CHECK(plan.running == running);
  CHECK(plan.decode.pass.sequences == running);
  const InferencePlan alone = plan_with(
      stated("{}"), ",batching=continuous,weights=fp8,prompt=1024,generated=1024,batch=" + std::to_string(running));
  CHECK(alone.running == running);
  CHECK(plan.per_token_seconds == Approx(alone.per_token_seconds).epsilon(1e-12));
  // As many answers leave in a second, so that all requests are in the queue or among those that run.
  CHECK(plan.tokens_per_second == Approx(alone.tokens_per_second).epsilon(1e-12));
  CHECK(plan.first_token_seconds + alone.request_seconds - alone.first_token_seconds ==
        Approx(1200.0 / static_cast<double>(running) * alone.request_seconds).epsilon(1e-12));
}

TEST_CASE("requests wait that the cache has no room for", "[serving_facts]") {
  const InferencePlan whole = plan_with(stated("{}"), many);
  const double others = whole.memory.weights + whole.memory.working, device = whole.device_memory_bytes;
  CHECK_FALSE(whole.fits);
  check_queue(whole, device - others, 2048);
  check_queue(plan_with(stated(R"({"memory": 0.5})"), many), 0.5 * device - others, 2048);
  check_queue(plan_with(stated(R"({"free_memory": 0.25})"), many), 0.25 * (device - others), 2048);
  check_queue(plan_with(stated(R"({"memory": 0.5, "reserves_answers": false})"), many), 0.5 * device - others, 1536);
  // A batch that begins and ends together does not fit, and none of it waits.
  CHECK(plan_with(stated("{}"), many + ",batching=whole").running == 1200);
  // Nothing waits for a place that there is not.
  CHECK(plan_with(stated(R"({"memory": 0.01})"), many).running == 1200);
}

TEST_CASE("weights of 4 bits are widened where the device does not multiply them", "[serving_facts]") {
  const auto products = [](const char* profile, const char* weights, const std::string& serving) {
    Recipe recipe = bundled("models/llama3-70b", {std::string("cluster.profile=\"") + profile + '"', cluster[1]});
    ClusterProfile device = profile_of(recipe);
    device.program = stated(serving);
    const InferencePlan plan = InferencePlanner(recipe, device)
                                   .plan(request_of("devices=8,batch=32,prefill.weights=1d,decode.weights=1d,"
                                                    "prefill.attention=heads,decode.attention=heads,weights=" +
                                                    std::string(weights)));
    return std::pair(plan.prefill.price.product_seconds, plan.decode.price.product_seconds);
  };
  const std::string facts = R"({"widened_products": 1.5})";
  const auto [prompt, token] = products("h100-sxm-80gb", "fp4", "{}");
  CHECK(products("h100-sxm-80gb", "fp4", facts) == std::pair(1.5 * prompt, 1.5 * token));
  CHECK(products("h100-sxm-80gb", "fp8", facts) == products("h100-sxm-80gb", "fp8", "{}"));
  CHECK(products("b200", "fp4", facts) == products("b200", "fp4", "{}"));
}

TEST_CASE("what a program's passes lose is stated by its file, whatever its name", "[serving_facts]") {
  for (const char* name : {"vllm", "tensorrt-llm", "sglang"}) {
    Program program = load_program(name, recipes() / "programs");
    const InferencePlan plan = plan_with(program, ",batching=continuous");
    program.name = "another";
    CHECK(plan_with(program, ",batching=continuous").request_seconds == plan.request_seconds);
    program.serving = {};
    program.name = name;
    CHECK(plan_with(program, ",batching=continuous").request_seconds != plan.request_seconds);
  }
}

}  // namespace
}  // namespace llmtrain
