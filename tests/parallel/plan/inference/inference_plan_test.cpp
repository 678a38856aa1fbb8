// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/inference_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "tests/parallel/plan/inference/inference_case.h"

namespace llmtrain {
namespace {

using namespace inference_case;

InferencePlan plan_of(const std::string& name, const std::string& request,
                      const std::vector<Override>& overrides = {}) {
  const Recipe recipe = bundled(name, overrides);
  const ClusterProfile profile = profile_of(recipe);
  return InferencePlanner(recipe, profile).plan(request_of(request));
}

const std::string palm = "models/palm-540b";

TEST_CASE("no pass is faster than arithmetic and memory allow", "[inference_plan]") {
  for (const char* request : {"batch=1,weights=int8", "batch=64,weights=int8", "batch=64", "batch=512"})
    for (const char* devices : {"16", "64", "256"}) {
      const InferencePlan plan = plan_of(palm, std::string(request) + ",prompt=2048,generated=64,devices=" + devices);
      CHECK(plan.prefill.price.seconds() >= plan.prefill.bound_seconds);
      CHECK(plan.decode.price.seconds() >= plan.decode.bound_seconds);
    }
}

TEST_CASE("longer contexts and larger batches take longer", "[inference_plan]") {
  double last = 0;
  for (const int prompt : {16, 128, 1000, 4000}) {
    const InferencePlan plan = plan_of(palm, "batch=64,devices=64,generated=64,prompt=" + std::to_string(prompt));
    CHECK(plan.decode.price.seconds() > last);
    CHECK(plan.prefill.price.seconds() > plan.decode.price.seconds() * 0.5);
    last = plan.decode.price.seconds();
  }
  double first_token = 0, per_token = 0, cost = 1e9;
  for (const int batch : {1, 2, 8, 64, 512}) {
    const InferencePlan plan = plan_of(palm, "devices=64,prompt=128,batch=" + std::to_string(batch));
    CHECK(plan.first_token_seconds >= first_token);
    CHECK(plan.per_token_seconds >= per_token);
    CHECK(plan.decode.device_seconds_per_token < cost);
    first_token = plan.first_token_seconds;
    per_token = plan.per_token_seconds;
    cost = plan.decode.device_seconds_per_token;
  }
}

TEST_CASE("the cache of a device is what the layout leaves it", "[inference_plan]") {
  // Table 1 of arXiv 2211.05102: contexts whose cache takes 30 % of 64 TPU v4, with 64 (padded) heads.
  const auto longest = [](const std::string& model, const char* attention, int batch) {
    const std::vector<Override> heads = {"model.heads=64", model};
    const InferencePlan plan =
        plan_of(palm,
                "devices=64,x=4,prompt=2000,generated=48,batch=" + std::to_string(batch) +
                    ",decode.weights=2d,decode.attention=" + attention,
                {heads[0], heads[1], model == "model.kv_heads=64" ? "model.head_dim=128" : "model.head_dim=256"});
    const double of_token = plan.memory.cache / 2048;
    return 0.3 * 32 * 1024 * 1024 * 1024 / of_token;
  };
  const auto is_near = [](double value, double published) { return std::abs(value / published - 1) < 0.015; };
  CHECK(is_near(longest("model.kv_heads=64", "heads", 128), 1330));
  CHECK(is_near(longest("model.kv_heads=64", "heads", 512), 330));
  CHECK(is_near(longest("model.kv_heads=1", "heads", 128), 660));
  CHECK(is_near(longest("model.kv_heads=1", "heads", 512), 165));
  CHECK(is_near(longest("model.kv_heads=1", "batch", 128), 43000));
  CHECK(is_near(longest("model.kv_heads=1", "batch", 512), 10700));
}

TEST_CASE("weights and cache take their types' bytes", "[inference_plan]") {
  const std::string request = "batch=8,prompt=1000,generated=24,devices=8";
  const InferencePlan whole = plan_of("models/llama3-70b", request);
  const InferencePlan small = plan_of("models/llama3-70b", request + ",weights=fp8,cache=fp8");
  // 80 layers, 8 key heads of 128, keys and values: 8 sequences on 8 devices.
  CHECK(whole.memory.cache == 80.0 * 8 * 128 * 2 * 2 * 1024);
  CHECK(small.memory.cache == whole.memory.cache / 2);
  // Each key and value has four bytes of scale, with latent attention both together.
  const InferencePlan scaled = plan_of("models/llama3-70b", request + ",cache=int8");
  CHECK(scaled.memory.cache == 80.0 * 8 * (128 + 4) * 2 * 1024);
  CHECK(scaled.decode.price.attention_seconds < whole.decode.price.attention_seconds);
  const std::string latent = "models/deepseek-v3";
  CHECK(plan_of(latent, request + ",cache=int8").memory.cache / plan_of(latent, request).memory.cache ==
        Approx((512.0 + 64 + 4) / (2 * (512 + 64))));
  // Both embeddings and norms stay in bf16.
  const double tables = 2.0 * 128256 * 8192 * 2 / 8;
  CHECK(std::abs((whole.memory.weights - tables) / (small.memory.weights - tables) - 2) < 0.001);
}

TEST_CASE("the fastest plan is that of all splits tried one by one", "[inference_plan][exhaustive]") {
  const Recipe recipe = bundled("models/palm-62b");
  const ClusterProfile profile = profile_of(recipe);
  const InferencePlanner planner(recipe, profile);
  for (const char* text : {"batch=1", "batch=32,prompt=512", "batch=512,prompt=2048"}) {
    const ServingRequest request = request_of(std::string(text) + ",devices=16");
    std::optional<InferencePlan> best;
    std::size_t tried = 0;
    for (const std::int64_t x : {1, 2, 4, 8, 16})
      for (const std::int64_t y : {1, 2, 4, 8, 16})
        for (const std::string_view prefill : weight_layout_words)
          for (const std::string_view decode : weight_layout_words) {
            if (16 % (x * y) != 0 || prefill == "auto" || decode == "auto") continue;
            for (const char* attention : {"heads", "batch"}) {
              const std::string all = std::string(text) + ",devices=16,x=" + std::to_string(x) +
                                      ",y=" + std::to_string(y) + ",z=" + std::to_string(16 / (x * y)) +
                                      ",prefill.weights=" + std::string(prefill) +
                                      ",decode.weights=" + std::string(decode) + ",decode.attention=" + attention;
              try {
                InferencePlan plan = planner.plan(request_of(all));
                ++tried;
                if (!best || is_better(plan, *best)) best = std::move(plan);
              } catch (const Error& error) {
                CHECK(error.code() == ExitCode::bad_recipe);
              }
            }
          }
    CHECK(tried > 10);
    CHECK(planner.plan(request).request_seconds == best->request_seconds);
  }
}

TEST_CASE("\"auto\" devices are the fewest on which the model fits", "[inference_plan]") {
  // 140 GB of weights, and half as much in FP8, on devices of 80 GiB.
  const std::vector<Override> cluster = {"cluster.profile=h100-sxm-80gb"};
  CHECK(plan_of("models/llama3-70b", "batch=1", cluster).devices == 2);
  CHECK(plan_of("models/llama3-70b", "batch=1,weights=fp8", cluster).devices == 1);
  CHECK(plan_of("models/llama3-70b", "batch=256,prompt=4000,generated=4000", cluster).devices == 16);
  CHECK_FALSE(plan_of("models/llama3-70b", "batch=1,devices=1", cluster).fits);
}

TEST_CASE("continuous batching puts prompts between tokens", "[inference_plan]") {
  const std::string request = "devices=8,batch=32,prompt=1024,generated=256";
  const InferencePlan whole = plan_of("models/llama3-70b", request);
  const InferencePlan continuous = plan_of("models/llama3-70b", request + ",batching=continuous");
  CHECK(continuous.prefill.pass.sequences == 1);
  CHECK(continuous.first_token_seconds < whole.first_token_seconds);
  CHECK(continuous.per_token_seconds > whole.per_token_seconds);
}

TEST_CASE("what cannot be is refused with the reason", "[inference_plan]") {
  const auto why = [](const std::string& name, const std::string& request) -> std::string {
    try {
      plan_of(name, request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(says(why(palm, "prompt=5000"), "model.max_sequence_length, 4096"));
  CHECK(says(why(palm, "experts=experts"), "has no experts"));
  CHECK(says(why(palm, "devices=64,x=3"), "no divisor of devices, 64"));
  CHECK(says(why(palm, "devices=64,batch=1,decode.attention=batch"), "one sequence has no parts"));
  CHECK(says(why(palm, "devices=64,batch=1,decode.weights=gathered_x"), "do not divide a batch of 1"));
  CHECK(says(why(palm, "devices=7"), "7 devices do not divide model.ffn_hidden_size"));
  CHECK(says(why(palm, "devices=64,x=4,decode.weights=1d"), "it cuts nothing along x"));
  CHECK(says(why("models/llama3-70b", "devices=7"), "devices do not divide"));
  CHECK(says(why("models/mixtral-8x7b", "decode.weights=2d"), "matrices of model.moe"));
  CHECK(says(why("models/mixtral-8x7b", "experts=experts,devices=16"), "model.moe.experts, 8"));
  CHECK(says(why(palm, "batch=0"), "batch must be a whole number from 1"));
  CHECK(says(why(palm, "cache=fp4"), "cache must be one of compute, int8, fp8"));
  CHECK(says(why(palm, "beam=4"), "must be KEY=VALUE, of the keys batch"));
}

}  // namespace
}  // namespace llmtrain
