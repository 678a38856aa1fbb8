// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "parallel/plan/inference/report/inference_report.h"

namespace llmtrain {
namespace {

Json json_of(const DeviceSplit& split) {
  return {{"weights", word_of(split.weights)},
          {"attention", word_of(split.attention)},
          {"experts", word_of(split.experts)},
          {"x", split.x},
          {"y", split.y},
          {"z", split.z}};
}

Json json_of(const PlannedPass& planned) {
  const PassPrice& price = planned.price;
  return {{"split", json_of(planned.split)},
          {"sequences", planned.pass.sequences},
          {"tokens", planned.pass.tokens},
          {"context", planned.pass.context},
          {"seconds", price.seconds()},
          {"product_seconds", price.product_seconds},
          {"attention_seconds", price.attention_seconds},
          {"movement_seconds", price.movement_seconds},
          {"exchange_seconds", price.exchange_seconds},
          {"host_seconds", price.host_seconds},
          {"weight_seconds", price.weight_seconds},
          {"exchanged_bytes", std::llround(price.exchanged_bytes)},
          {"bound_seconds", planned.bound_seconds},
          {"mfu", planned.mfu},
          {"device_seconds_per_token", planned.device_seconds_per_token}};
}

}  // namespace

Json inference_json(const InferencePlan& plan) {
  Json json = {{"name", plan.name},
               {"profile", plan.profile},
               {"program", plan.program},
               {"requests",
                {{"batch", plan.request.batch},
                 {"prompt", plan.request.prompt},
                 {"generated", plan.request.generated},
                 {"batching", word_of(plan.request.batching)},
                 {"wait_passes", plan.request.wait_passes},
                 {"weights", word_of(plan.request.weights)},
                 {"cache", word_of(plan.request.cache)}}},
               {"devices", plan.devices},
               {"parameters", {{"total", plan.parameters}, {"active", plan.active_parameters}}},
               {"fits", plan.fits},
               {"running", plan.running},
               {"first_token_seconds", plan.first_token_seconds},
               {"per_token_seconds", plan.per_token_seconds},
               {"request_seconds", plan.request_seconds},
               {"tokens_per_second", plan.tokens_per_second},
               {"device_seconds_per_token", plan.device_seconds_per_token},
               {"prefill", json_of(plan.prefill)},
               {"decode", json_of(plan.decode)},
               {"bytes",
                {{"weights", std::llround(plan.memory.weights)},
                 {"cache", std::llround(plan.memory.cache)},
                 {"working", std::llround(plan.memory.working)},
                 {"sum", std::llround(plan.memory.sum())},
                 {"device", std::llround(plan.device_memory_bytes)}}}};
  if (plan.reads)
    json["weight_reads"] = {{"from", word_of(plan.request.weights_from)},
                            {"bytes_per_pass", plan.reads->weights.bytes_per_pass},
                            {"bytes_per_second", plan.reads->bytes_per_second},
                            {"layers", plan.reads->weights.streamed_stages}};
  return json;
}

Json search_json(const InferenceSearch& search) {
  Json plans = Json::array();
  for (const InferencePlan& plan : search.plans) plans.push_back(inference_json(plan));
  return {{"front", search.front}, {"plans", plans}};
}

Json target_json(const std::vector<InferencePlan>& plans, const InferenceTarget& target) {
  Json list = Json::array(), answer = nullptr;
  for (const InferencePlan& plan : plans) {
    if (answer.is_null() && meets(plan, target)) answer = list.size();
    list.push_back(inference_json(plan));
  }
  return {{"target",
           {{"first_token_seconds", target.first_token_seconds},
            {"per_token_seconds", target.per_token_seconds},
            {"tokens_per_second", target.tokens_per_second}}},
          {"answer", answer},
          {"plans", list}};
}

}  // namespace llmtrain
