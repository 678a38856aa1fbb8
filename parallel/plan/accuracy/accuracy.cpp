// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/accuracy/accuracy.h"

#include <spdlog/fmt/fmt.h>

#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

PlanError read_error(const Json& entry, const std::string& program) {
  return {.error = entry.at("error").get<double>(),
          .rows = entry.at("rows").get<std::int64_t>(),
          .program = program,
          .devices = entry.at("devices").get<std::int64_t>()};
}

PlanError worst_of(const Json& quantity) {
  PlanError worst = read_error(quantity.at("all"), "");
  for (const auto& [name, entry] : quantity.at("by_program").items()) {
    const PlanError error = read_error(entry, name);
    if (error.rows >= fewest_rows && error.error > worst.error) worst = error;
  }
  return worst;
}

PlanError error_of(const Json& quantity, const std::string& program) {
  const Json& own = quantity.at("by_program");
  if (own.contains(program)) {
    PlanError error = read_error(own.at(program), program);
    if (error.rows >= fewest_rows) return error;
  }
  // Nothing says that plans for an unmeasured program are better than those for the worst of the measured ones.
  return worst_of(quantity);
}

[[noreturn]] void throw_bad(const std::string& file, const std::string& why) {
  throw Error(ExitCode::bad_recipe,
              file + ": " + why + "; scripts/score_planner --accuracy writes this file of scored plans");
}

}  // namespace

Accuracy parse_accuracy(std::string_view text, const std::string& file, const std::string& program) {
  const JsonText parsed = parse_json(text);
  if (!parsed.error.empty()) throw_bad(file, parsed.error);
  try {
    const Json &step = parsed.value.at("step"), &memory = parsed.value.at("memory");
    const Accuracy accuracy{.step = error_of(step, program),
                            .memory = error_of(memory, program),
                            .step_of_all = read_error(step.at("all"), ""),
                            .memory_of_all = read_error(memory.at("all"), ""),
                            .worst_step = worst_of(step)};
    // An error of all would make every plan as good as every other.
    for (const auto& each : {accuracy.step, accuracy.memory})
      if (!(each->error >= 0 && each->error < 1)) throw_bad(file, "an error must be at least 0 and below 1");
    return accuracy;
  } catch (const Json::exception& failure) {
    throw_bad(file, failure.what());
  }
}

Accuracy accuracy_on(const Accuracy& accuracy, std::int64_t devices) {
  Accuracy found = accuracy;
  for (const auto& [own, all] :
       {std::pair{&found.step, &accuracy.step_of_all}, std::pair{&found.memory, &accuracy.memory_of_all}})
    if (*own && *all && devices > (*own)->devices && (*all)->error > (*own)->error) *own = *all;
  return found;
}

Accuracy with_borrowed_rates(const Accuracy& accuracy, const std::string& profile) {
  Accuracy found = accuracy;
  found.step = accuracy.worst_step;
  for (std::optional<PlanError>* const error : {&found.step, &found.step_of_all})
    if (*error) (*error)->borrowed_from = profile;
  return found;
}

Accuracy load_accuracy(const std::filesystem::path& file, const std::string& program) {
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) return {};
  return parse_accuracy(read_file(file), file.string(), program);
}

std::string origin_text(const PlanError& error) {
  const std::string whose = error.program.empty() ? "of all programs" : "planned as " + error.program;
  const std::string text = fmt::format("from {} published runs {}", error.rows, whose);
  if (error.borrowed_from.empty()) return text;
  return fmt::format("{}, none on this device, for which the rates of {} are taken", text, error.borrowed_from);
}

std::string margin_text(const PlanError& error) { return fmt::format("± {:.2g} %", 100 * error.error); }

}  // namespace llmtrain
