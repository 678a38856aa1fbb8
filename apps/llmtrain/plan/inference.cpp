// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/inference.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "parallel/plan/inference/inference_search.h"
#include "parallel/plan/inference/report/inference_report.h"

namespace llmtrain::app {
namespace {

constexpr std::int64_t most_devices = 1024, most_batch = 1024;

[[noreturn]] void refuse_target(std::string_view text) {
  throw Error(ExitCode::bad_recipe,
              fmt::format("--target {}: with --inference it must be first_token=TIME, per_token=TIME or "
                          "tokens_per_second=NUMBER, or several with commas, TIME in ms or s, as in per_token=30ms",
                          text));
}

// A positive number and what follows it.
double number_of(const std::string& text, std::string& unit, std::string_view whole) {
  std::size_t read = 0;
  double number = 0;
  try {
    number = std::stod(text, &read);
  } catch (const std::exception&) {
    refuse_target(whole);
  }
  if (!std::isfinite(number) || number <= 0) refuse_target(whole);
  unit = text.substr(read);
  return number;
}

void set_target(const std::string& part, std::string_view whole, InferenceTarget& target) {
  const std::size_t equals = part.find('=');
  if (equals == std::string::npos) refuse_target(whole);
  const std::string name = part.substr(0, equals);
  std::string unit;
  const double number = number_of(part.substr(equals + 1), unit, whole);
  if (name == "tokens_per_second" && unit.empty()) {
    target.tokens_per_second = number;
    return;
  }
  if ((name != "first_token" && name != "per_token") || (unit != "ms" && unit != "s")) refuse_target(whole);
  (name == "first_token" ? target.first_token_seconds : target.per_token_seconds) =
      unit == "ms" ? number / 1e3 : number;
}

InferenceTarget target_of(const std::string& text) {
  InferenceTarget target;
  for (const std::string_view part : comma_parts(text)) set_target(std::string(part), text, target);
  return target;
}

void write(const Json& json, const std::string& text, bool as_json) {
  as_json ? write_json(json.dump(2) + "\n") : write_result(text);
}

void search(const InferencePlanner& planner, const ServingRequest& request, const PlanOutputs& outputs) {
  const InferenceSearch found = search_inference(planner, request, most_devices, most_batch);
  if (outputs.html) write_file_atomically(*outputs.html, search_html(found));
  write(search_json(found), search_text(found, style_of_output()), outputs.json);
  if (outputs.html) log().info("the plans as a web page: {}", *outputs.html);
}

}  // namespace

int show_inference(const Recipe& recipe, const InferenceQuestion& question, const PlanOutputs& outputs) {
  const ServingRequest request = parse_request("--inference", question.request);
  std::optional<InferenceTarget> target;
  if (question.target) target = target_of(*question.target);
  measure_machine(recipe);
  const ClusterProfile profile = profile_of(recipe);
  const InferencePlanner planner(recipe, profile);
  if (target) {
    const auto plans = plans_by_devices(planner, request, most_devices);
    write(target_json(plans, *target), target_text(plans, *target, style_of_output()), outputs.json);
  } else if (question.search || outputs.html) {
    search(planner, request, outputs);
  } else {
    const InferencePlan plan = planner.plan(request);
    write(inference_json(plan), inference_text(plan, style_of_output()), outputs.json);
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace llmtrain::app
