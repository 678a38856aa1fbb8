// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/log.h"
#include "core/recipe/enum_words.h"

namespace llmtrain::app {
namespace {

struct BenchOptions {
  std::string device{word_of(DeviceKind::automatic)};
  bool quick = false;
  bool is_json = false;
};

double share_of(const KernelTime& kernel, const KernelTimes& all) {
  return kernel.bytes / kernel.seconds / all.bandwidth;
}

std::string table(const KernelTimes& times) {
  std::string text = fmt::format("{}, {}: copies and sums of large arrays move {:.0f} GB/s\n\n", times.device,
                                 times.type, times.bandwidth / 1e9);
  text += "  share    GB/s        time  operator\n";
  for (const KernelTime& kernel : times.kernels)
    text += fmt::format("  {:>4.0f} %  {:>6.0f}  {:>7.1f} µs  {} {}\n", 100 * share_of(kernel, times),
                        kernel.bytes / kernel.seconds / 1e9, kernel.seconds * 1e6, kernel.name, kernel.shape);
  return text;
}

std::string json(const KernelTimes& times) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelTime& kernel : times.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"shape", kernel.shape},
                       {"seconds", kernel.seconds},
                       {"bytes", kernel.bytes},
                       {"share", share_of(kernel, times)}});
  const nlohmann::ordered_json all{
      {"device", times.device}, {"type", times.type}, {"bandwidth", times.bandwidth}, {"kernels", kernels}};
  return all.dump(2) + "\n";
}

int bench_kernels(const BenchOptions& options) {
  log().info("timing operators by themselves; keep the machine otherwise idle for some seconds");
  const DeviceKind device = value_of_word<DeviceKind>(device_words, options.device).value();
  const KernelTimes times = load_runtime().time_kernels(device, options.quick ? Effort::quick : Effort::thorough);
  if (options.is_json) {
    write_json(json(times));
  } else {
    write_result(table(times));
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  CLI::App* parent = program.add_subcommand("bench", "Measures parts of the program on this machine");
  // 0 is allowed here, so that refuse_without_command() can list the commands.
  parent->require_subcommand(0, 1);
  parent->footer("Example:\n  llmtrain bench kernels");
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = parent->add_subcommand(
      "kernels", "Times operators that are bound by memory, as shares of the bandwidth that this device reaches");
  choose_from(command->add_option("--device", options->device, "What to measure"), words_of(device_words));
  command->add_flag("--quick", options->quick, "Measure for a shorter time");
  command->add_flag("--json", options->is_json, "Print JSON");
  command->footer("Example:\n  llmtrain bench kernels --quick");
  command->callback([options, &action] { action = [options] { return bench_kernels(*options); }; });
}

}  // namespace llmtrain::app
