// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/doctor/findings.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

std::string_view word(FindingState state) {
  switch (state) {
    case FindingState::ok:
      return "ok";
    case FindingState::note:
      return "note";
    case FindingState::missing:
      return "missing";
  }
  return "";
}

std::string as_text(const std::vector<Finding>& findings, std::size_t width) {
  constexpr std::size_t text_column = 26;
  std::string text;
  for (const Finding& finding : findings) {
    text += described(fmt::format("{:<8} {}", word(finding.state), finding.name), finding.text, text_column, width);
    if (!finding.fix.empty()) text += described("", "to fix it: " + finding.fix, text_column, width);
  }
  return text;
}

std::string as_json(const std::vector<Finding>& findings, bool can_train) {
  nlohmann::ordered_json json = {{"can_train", can_train}, {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back(
        {{"name", finding.name}, {"state", word(finding.state)}, {"text", finding.text}, {"fix", finding.fix}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

enum class Format { text, json };

int doctor(Format format) {
  std::vector<Finding> findings;
  find_software(findings);
  find_machine(findings);
  find_limits(findings);
  const bool can_train = std::none_of(findings.begin(), findings.end(),
                                      [](const Finding& finding) { return finding.state == FindingState::missing; });
  format == Format::json ? write_json(as_json(findings, can_train))
                         : write_result(as_text(findings, style_of_output().width));
  // The exit code lets a script refuse a machine that cannot train.
  return static_cast<int>(can_train ? ExitCode::done : ExitCode::internal_error);
}

}  // namespace

void add_doctor(CLI::App& program, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("doctor", "Reports what this machine has and what is missing");
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Example:\n  llmtrain doctor");
  command->callback([json, &action] { action = [json] { return doctor(*json ? Format::json : Format::text); }; });
}

}  // namespace llmtrain::app
