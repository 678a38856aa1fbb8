// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/base/error.h"
#include "core/json/json_text.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

// Bytes and counts as JSON integers; values beyond the exact range of a double stay floating-point.
Json whole(double value) {
  constexpr double largest_exact = 9007199254740992;  // 2^53
  if (!(std::abs(value) <= largest_exact)) return value;
  return static_cast<std::int64_t>(std::llround(value));
}

Json mesh_json(const Mesh& mesh) {
  return {{"world", mesh.world()},
          {"data", mesh.data},
          {"tensor", mesh.tensor},
          {"pipeline", mesh.pipeline},
          {"context", mesh.context},
          {"expert", mesh.expert},
          {"expert_tensor", mesh.expert_tensor},
          {"expert_slices", mesh.expert_slices()},
          {"zero_shard_ranks", mesh.zero_shard},
          {"devices_per_node", mesh.devices_per_node}};
}

Json step_json(const PlannedStep& step) {
  return {{"seconds", step.seconds},
          {"compute_seconds", step.compute_seconds},
          {"recompute_seconds", step.recompute_seconds},
          {"tensor_communication_seconds", step.tensor_communication_seconds},
          {"optimizer_seconds", step.optimizer_seconds},
          {"overhead_seconds", step.overhead_seconds},
          {"bubble_fraction", step.bubble_fraction},
          {"exposed_communication_seconds", step.exposed_communication_seconds}};
}

Json throughput_json(const PlannedThroughput& throughput) {
  return {{"tokens_per_second", throughput.tokens_per_second},
          {"tokens_per_second_per_device", throughput.tokens_per_second_per_device},
          {"samples_per_second", throughput.samples_per_second},
          {"model_tflops_per_device", throughput.model_tflops_per_device},
          {"hardware_tflops_per_device", throughput.hardware_tflops_per_device},
          {"mfu", throughput.mfu},
          {"hfu", throughput.hfu}};
}

Json rank_json(const PlannedRank& rank) {
  Json bytes = Json::object();
  for (const MemoryName& name : memory_names) bytes[std::string(name.key)] = whole(rank.bytes[name.category]);
  Json json = {{"rank", rank.rank},
               {"count", rank.count},
               {"pipeline_rank", rank.pipeline_rank},
               {"peak_bytes", whole(rank.peak_bytes)},
               {"allocated_bytes", whole(std::max(0.0, rank.allocated_bytes()))},
               {"bytes", bytes},
               {"host_bytes", whole(rank.host_bytes)},
               {"disk_bytes", whole(rank.disk_bytes)},
               {"peak_instruction", rank.peak_instruction}};
  if (rank.disk_bytes > 0) {
    json["disk_bytes_per_step"] = whole(rank.disk_traffic);
    json["disk_seconds"] = rank.disk_seconds;
  }
  if (rank.evicted_bytes > 0) json["evicted_bytes_per_step"] = whole(rank.evicted_bytes);
  if (rank.swapped_bytes > 0) json["swapped_bytes_per_step"] = whole(rank.swapped_bytes);
  if (rank.fallback_peak_bytes) json["fallback_peak_bytes"] = whole(*rank.fallback_peak_bytes);
  return json;
}

Json communication_json(const CommunicationEntry& line) {
  return {{"collective", planned_name(line.collective)},
          {"purpose", purpose_name(line.purpose)},
          {"group", line.tensors},
          {"ranks", line.ranks},
          {"bytes_per_rank_per_step", whole(line.bytes_per_rank_per_step)},
          {"seconds", line.seconds},
          {"exposed_seconds", line.exposed_seconds}};
}

Json suggestion_json(const PlanSuggestion& suggestion) {
  return {{"change", suggestion.change},
          {"step_seconds", suggestion.step_seconds},
          {"peak_bytes", whole(suggestion.peak_bytes)},
          {"fits", suggestion.fits},
          {"tight", suggestion.is_tight}};
}

Json product_json(const PlannedProduct& product) {
  return {{"name", product.name},         {"rows", product.rows},
          {"columns", product.columns},   {"inner", product.inner},
          {"matrices", product.matrices}, {"layers", product.layers},
          {"seconds", product.seconds},   {"fp8_seconds", product.fp8_seconds},
          {"fp8", product.uses_fp8}};
}

Json goodput_json(const PlannedGoodput& goodput) {
  return {{"failures", goodput.failures},
          {"checkpoint_every", goodput.every},
          {"best_checkpoint_every", goodput.best_every},
          {"checkpoint_seconds", goodput.checkpoint_seconds},
          {"expected_seconds", number_or_null(goodput.expected_seconds)},
          {"fraction", goodput.fraction}};
}

Json error_json(const std::optional<PlanError>& error) {
  if (!error) return nullptr;
  Json json{{"error", error->error},
            {"rows", error->rows},
            {"program", error->program.empty() ? Json(nullptr) : Json(error->program)}};
  if (!error->borrowed_from.empty()) json["borrowed_from"] = error->borrowed_from;
  return json;
}

Json accuracy_json(const Accuracy& accuracy) {
  return {{"step", error_json(accuracy.step)}, {"memory", error_json(accuracy.memory)}};
}

template <class List, class Write>
Json list_json(const List& list, Write write) {
  Json entries = Json::array();
  for (const auto& entry : list) entries.push_back(write(entry));
  return entries;
}

// JSON has no infinity or NaN, and a null in place of a number would go unnoticed by scripts.
void require_finite(const Json& value, const std::string& pointer) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw Error(ExitCode::internal_error,
                "the plan's " + pointer + " is not a finite number; please report this with the recipe");
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) require_finite(inner, append_key(pointer, key));
}

}  // namespace

nlohmann::ordered_json to_json(const PlanReport& report) {
  Json json = {
      {"recipe", to_json(report.recipe)},
      {"profile", report.profile},
      {"device_memory_bytes", whole(report.device_memory_bytes)},
      {"fits", report.fits},
      {"verdict", verdict_word(verdict_of(report))},
      {"accuracy", accuracy_json(report.accuracy)},
      {"warnings", report.warnings},
      {"parameters",
       {{"total", report.total_parameters},
        {"active", report.active_parameters},
        {"embedding", report.embedding_parameters}}},
      {"mesh", mesh_json(report.mesh)},
      {"derives_data", report.derives_data},
      {"step", step_json(report.step)},
      {"throughput", throughput_json(report.throughput)},
      {"run",
       {{"tokens", whole(report.run.tokens)},
        {"seconds", report.run.seconds},
        {"device_hours", report.run.device_hours},
        {"price", number_or_null(report.run.price)},
        {"currency", report.run.currency.empty() ? Json(nullptr) : Json(report.run.currency)},
        {"energy_kilowatt_hours", number_or_null(report.run.energy_kilowatt_hours)},
        {"goodput", report.run.goodput ? goodput_json(*report.run.goodput) : Json(nullptr)}}},
      {"ranks", list_json(report.ranks, rank_json)},
      {"communication", list_json(report.communication, communication_json)},
      {"suggestions", list_json(report.suggestions, suggestion_json)},
  };
  if (report.routing)
    json["routing"] = {{"expert_load", report.routing->expert_load},
                       {"rank_load", report.routing->rank_load},
                       {"dropped_share", report.routing->dropped_share},
                       {"idle_ranks", report.routing->idle_ranks}};
  if (!report.limits.empty())
    json["limits"] = list_json(report.limits, [](const LimitPoint& point) {
      return Json{{"peak_bytes", point.peak_bytes}, {"step_seconds", point.step_seconds}};
    });
  if (!report.fp8_products.empty()) json["fp8_products"] = list_json(report.fp8_products, product_json);
  // A division by zero in a plan is a defect of this program: report it instead of writing an invalid number.
  require_finite(json, "");
  return json;
}

std::string report_json(const PlanReport& report) {
  // A file name may contain malformed UTF-8, which is replaced rather than refused.
  return to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain
