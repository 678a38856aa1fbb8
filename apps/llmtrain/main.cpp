// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/help_format.h"
#include "apps/llmtrain/serve/model/model_process.h"
#include "apps/llmtrain/serve/model/run_model_process.h"
#include "apps/llmtrain/shell/completion.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/usage.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/machine/host_memory.h"
#include "core/signals/signal_thread.h"

namespace llmtrain::app {
namespace {

int parse_and_act(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == model_word) return run_model_process(arguments);
  Action action;
  CLI::App program("Trains large language models from one recipe.", "llmtrain");
  program.formatter(std::make_shared<HelpFormat>(std::min(style_of_output().width, page_width)));
  program.set_version_flag("--version", "llmtrain " LLMTRAIN_VERSION);
  // 0 is allowed here, so that refuse_without_command() can list the commands.
  program.require_subcommand(0, 1);
  program.footer(
      "Example:\n  llmtrain run recipes/quickstart.json\n\nllmtrain COMMAND --help shows a command's flags.");
  for (const auto add : {add_run,     add_plan,      add_validate,   add_schema,  add_sample,         add_chat,
                         add_serve,   add_evaluate,  add_checkpoint, add_compare, add_export_metrics, add_sweep,
                         add_data,    add_calibrate, add_bench,      add_slurm,   add_support,        add_doctor,
                         add_recipes, add_new,       add_completion, add_man}) {
    add(program, action);
  }
  // What the scripts of `llmtrain completion` ask; its words are no command line to be checked.
  if (!arguments.empty() && arguments.front() == "__complete") {
    write_result(completion_lines(complete(program, {arguments.begin() + 1, arguments.end()})));
    return 0;
  }
  try {
    // CLI11 takes the last one first.
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& stop) {
    return show_help_or_refuse(program, stop, arguments);
  }
  if (!action) refuse_without_command(program);
  return action();
}

int fail(ExitCode code, const std::string& message) {
  log().error(message);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace llmtrain::app

int main(int argument_count, char** arguments) {
  using namespace llmtrain;
  app::prepare_standard_streams();
  try {
    // Before any library starts a thread.
    receive_signals_on_own_thread();
    return app::parse_and_act(app::arguments_meant({arguments + 1, arguments + argument_count}));
  } catch (const Error& error) {
    return app::fail(error.code(), error.what());
  } catch (const std::exception& error) {
    // Not a mistake of the program: models larger than the machine are easily asked for.
    if (const auto text = out_of_memory(error)) return app::fail(ExitCode::internal_error, *text);
    return app::fail(ExitCode::internal_error, std::string("internal error: ") + error.what());
  }
}
