// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace llmtrain {

// How far plans were from published measurements.
struct PlanError {
  double error = 0;          // root mean square of planned ÷ measured − 1
  std::int64_t rows = 0;     // measured values
  std::string program;       // which they were planned as; empty: all programs together
  std::int64_t devices = 0;  // of the largest of these runs
  // Another profile, where none of these runs was on the plan's device and the plan takes the rates of that one.
  std::string borrowed_from{};
};

// None where nothing is known, as of processors.
struct Accuracy {
  std::optional<PlanError> step;    // of the time of a step
  std::optional<PlanError> memory;  // of the fullest rank's peak
  // Those of all programs together, for plans that are larger than any run of the program.
  std::optional<PlanError> step_of_all, memory_of_all;
  // That of the program with the largest error, among those with enough rows and all together.
  std::optional<PlanError> worst_step{};
};

// The errors of plans for a device that no run was on, with what `profile` reaches of its data sheet as the device's:
// nothing says that steps are planned better than those of the worst program. What is kept does not depend on rates.
Accuracy with_borrowed_rates(const Accuracy& accuracy, const std::string& profile);

// The errors of a plan on so many devices: on more than the runs of its program had, nothing says that it is better
// than plans are on the whole.
Accuracy accuracy_on(const Accuracy& accuracy, std::int64_t devices);

// A program with fewer rows than these is judged by the rows of all programs, or by those of the program with enough
// rows whose error is largest if that is larger.
constexpr std::int64_t fewest_rows = 4;

// The errors of plans for a program, from JSON as `scripts/score_planner --accuracy` writes it: of the "step" and of
// the "memory" the "rows", their "error" and the most "devices", "by_program" and of "all". Throws Error(bad_recipe)
// naming `file` where the text is anything else.
Accuracy parse_accuracy(std::string_view text, const std::string& file, const std::string& program);

// As parse_accuracy(); nothing is known where the file does not exist.
Accuracy load_accuracy(const std::filesystem::path& file, const std::string& program);

// "from 12 published runs planned as nemo", "from 33 published runs of all programs", and for borrowed rates ", none on
// this device, for which the rates of b200 are taken".
std::string origin_text(const PlanError& error);

// "± 6 %".
std::string margin_text(const PlanError& error);

}  // namespace llmtrain
