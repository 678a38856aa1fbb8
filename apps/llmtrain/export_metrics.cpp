// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/run/report/metrics_table.h"
#include "parallel/run/report/mlflow_store.h"
#include "parallel/run/report/run_metrics.h"

namespace llmtrain::app {
namespace {

struct ExportOptions {
  std::string run, output, format;
  std::string experiment = "llmtrain";
};

int export_csv(const ExportOptions& options) {
  require_trained_run(options.run);
  const std::string text = csv_text(read_metrics_table(metrics_file(options.run)));
  if (options.output == "-") {
    write_result(text);
  } else {
    write_file_atomically(options.output, text);
    write_result(options.output + ": written from " + options.run + "\n");
  }
  return static_cast<int>(ExitCode::done);
}

int export_mlflow(const ExportOptions& options) {
  const std::filesystem::path folder = export_to_mlflow(options.run, options.output, options.experiment);
  write_result(folder.string() + ": written from " + options.run + "\n");
  return static_cast<int>(ExitCode::done);
}

int export_metrics(const ExportOptions& options) {
  return options.format == "csv" ? export_csv(options) : export_mlflow(options);
}

}  // namespace

void add_export_metrics(CLI::App& program, Action& action) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* command = program.add_subcommand("export-metrics", "Writes a run's metrics for other programs");
  command->add_option("RUN", options->run, "The run's directory")->required()->type_name("");
  command->add_option("OUTPUT", options->output, "The CSV file, \"-\" for standard output, or MLflow's folder")
      ->required()
      ->type_name("");
  CLI::Option* to = command->add_option(
      "--to", options->format, "csv; mlflow: a run in a folder of MLflow's file store, beside those that it has");
  choose_from(to, {"csv", "mlflow"})->required();
  command->add_option("--experiment", options->experiment, "MLflow's experiment, made where there is none")
      ->type_name("NAME")
      ->capture_default_str();
  command->footer("Example:\n  llmtrain export-metrics runs/quickstart metrics.csv --to csv");
  command->callback([options, &action] { action = [options] { return export_metrics(*options); }; });
}

}  // namespace llmtrain::app
