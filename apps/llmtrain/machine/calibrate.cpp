// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/recipe/enum_words.h"
#include "core/scratch/scratch_bandwidth.h"

namespace llmtrain::app {
namespace {

struct CalibrateOptions {
  std::optional<std::string> output;
  std::string device{word_of(DeviceKind::automatic)};
  std::optional<std::string> disk;
  bool quick = false;
};

// Checked before measuring for minutes: an output that cannot be written would lose the result.
void check_place(const std::string& file) {
  if (std::filesystem::is_directory(file))
    throw Error(ExitCode::cannot_write, file + ": is a folder; give --output a file name in it");
  const FileWriter trial(file);  // removed again at once
}

void make_folder_of(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(ExitCode::cannot_write, folder.string() + ": cannot be created: " + failed.message());
}

bool is_same_file(const std::string& file, const std::string& other) {
  std::error_code failed;
  return std::filesystem::equivalent(file, other, failed);
}

// What offloaded states move, of a folder of the disk that will have them. A gibibyte is more than what drives keep in
// memories of their own.
double disk_bandwidth(const std::string& folder, bool quick) {
  log().info("measuring the disk of {}", folder);
  const std::int64_t bytes = std::int64_t{1} << (quick ? 27 : 30);
  return scratch_bandwidth(folder, bytes, std::chrono::seconds(quick ? 0 : 3), "--disk");
}

int calibrate(const CalibrateOptions& options) {
  const std::string automatic = calibrated_profile().string();
  const std::string file = options.output.value_or(automatic);
  // The user's own folder of settings need not exist yet.
  if (!options.output) make_folder_of(file);
  if (file != "-") check_place(file);
  // First: a folder that cannot be measured is said at once.
  const double disk = options.disk ? disk_bandwidth(*options.disk, options.quick) : 0;
  log().info("measuring matrix products, attention and memory; keep the machine otherwise idle for a few seconds");
  const DeviceKind device = value_of_word<DeviceKind>(device_words, options.device).value();
  const LoadProfile load = [](const std::string& name) { return load_profile(name, profiles_folder()); };
  ClusterProfile profile = load_runtime().calibrate(device, load, options.quick ? Effort::quick : Effort::thorough);
  if (options.disk) {
    profile.host.disk_bandwidth = disk;
    profile.sources["host"] = "measured; the disk of " + std::filesystem::absolute(*options.disk).string();
  }
  const std::string text = to_json(profile).dump(2) + "\n";
  if (file == "-") {
    write_json(text);
    return 0;
  }
  write_file_atomically(file, text);
  if (is_same_file(file, automatic)) {
    log().info("{}: plans with \"cluster\": {{\"profile\": \"auto\"}} use it from now on", file);
  } else {
    log().info("{}: plans with --set cluster.profile={} use it", file, std::filesystem::absolute(file).string());
  }
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& program, Action& action) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = program.add_subcommand("calibrate", "Measures this machine so that plans match it");
  command
      ->add_option("--output", options->output,
                   "Output file of the profile (default: local.json, which \"auto\" plans read)")
      ->type_name("FILE|-");
  choose_from(command->add_option("--device", options->device, "What to measure"), words_of(device_words));
  command
      ->add_option("--disk", options->disk,
                   "Measure what this folder's disk reads and writes, too, for states that are offloaded to it")
      ->type_name("FOLDER");
  command->add_flag("--quick", options->quick, "Measure for two seconds instead of about ten");
  command->footer("Example:\n  llmtrain calibrate && llmtrain plan recipes/quickstart.json");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace llmtrain::app
