// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/run/report/comparison.h"

namespace llmtrain::app {
namespace {

struct CompareOptions {
  std::vector<std::string> runs;
  bool json = false;
  std::optional<std::string> html;
};

int compare(const CompareOptions& options) {
  const std::vector<std::filesystem::path> directories(options.runs.begin(), options.runs.end());
  const RunComparison comparison = compare_runs(directories);
  if (options.html) write_file_atomically(*options.html, comparison_page(comparison));
  options.json ? write_json(comparison_json(comparison)) : write_result(comparison_text(comparison, style_of_output()));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_compare(CLI::App& program, Action& action) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = program.add_subcommand("compare", "Shows curves and figures of runs side by side");
  command->add_option("RUN", options->runs, "The runs' directories")->required()->type_name("")->expected(2, -1);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--html", options->html, "Also write a page with the curves over each other")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->footer("Example:\n  llmtrain compare runs/first runs/second --html comparison.html");
  command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

}  // namespace llmtrain::app
