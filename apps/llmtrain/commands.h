// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace llmtrain::app {

// The action that the command line requests, set while it is parsed. Returns the exit code; throws Error.
using Action = std::function<int()>;

// Each adds one command with its flags to the program. `action` outlives the parsing.
void add_run(CLI::App& program, Action& action);
void add_validate(CLI::App& program, Action& action);
void add_calibrate(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_plan(CLI::App& program, Action& action);
void add_support(CLI::App& program, Action& action);
void add_schema(CLI::App& program, Action& action);
void add_sample(CLI::App& program, Action& action);
void add_chat(CLI::App& program, Action& action);
void add_serve(CLI::App& program, Action& action);
void add_evaluate(CLI::App& program, Action& action);
void add_checkpoint(CLI::App& program, Action& action);
void add_compare(CLI::App& program, Action& action);
void add_export_metrics(CLI::App& program, Action& action);
void add_sweep(CLI::App& program, Action& action);
void add_slurm(CLI::App& program, Action& action);
void add_data(CLI::App& program, Action& action);
void add_doctor(CLI::App& program, Action& action);
void add_recipes(CLI::App& program, Action& action);
void add_new(CLI::App& program, Action& action);
// These read the program's own table when they act.
void add_completion(CLI::App& program, Action& action);
void add_man(CLI::App& program, Action& action);

}  // namespace llmtrain::app
