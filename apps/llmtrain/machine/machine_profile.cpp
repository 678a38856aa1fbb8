// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/machine/machine_profile.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/launch/parent_death.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/runtime.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/machine/processor.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain::app {
namespace {

// Tells this process and those that it starts which profile was measured.
constexpr const char* measured_variable = "LLMTRAIN_MEASURED_PROFILE";

// A folder of the user's, by the XDG Base Directory Specification; empty for a user without a home.
std::filesystem::path user_folder(const char* variable, const char* in_home) {
  // "All paths set in these environment variables must be absolute"; others are to be ignored.
  if (const auto named = path_in_environment(variable); named.is_absolute()) return named / "llmtrain";
  const auto home = path_in_environment("HOME");
  return home.is_absolute() ? home / in_home / "llmtrain" : std::filesystem::path();
}

std::filesystem::path cache_folder() {
  return std::getenv("LLMTRAIN_CACHE") != nullptr ? path_in_environment("LLMTRAIN_CACHE")
                                                  : user_folder("XDG_CACHE_HOME", ".cache");
}

// "amd-epyc-9b14-2-threads-0.9.0.json": homes are shared by machines, and each version computes at its own speed.
std::string name_of_machine() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const std::string given = processor_name() + " " + (threads != nullptr ? threads : std::to_string(usable_cores())) +
                            " threads " + LLMTRAIN_VERSION;
  std::string name;
  for (const char letter : given) {
    const auto code = static_cast<unsigned char>(letter);
    if (std::isalnum(code) != 0 || letter == '.')
      name += static_cast<char>(std::tolower(code));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name + ".json";
}

bool is_profile(const std::filesystem::path& file) {
  try {
    load_profile(file.string(), profiles_folder());
    return true;
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void start_silently(std::vector<std::string>& command, pid_t parent) {
  end_with_parent(parent);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  ::_exit(127);
}

// Whether the process ends well within a time that even a machine under load does not need.
bool ends_well(pid_t process) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(process, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(process, SIGKILL);
      ::waitpid(process, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ended == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A process of its own: what measuring allocates is not memory of a run, and plans load no LibTorch. It writes to a
// file of its own too, because others may measure at the same time.
bool measure_into(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  if (failed) return false;
  const pid_t parent = ::getpid();
  const std::string own = file.string() + "." + std::to_string(parent);
  std::vector<std::string> command{program_file(), "calibrate", "--quick", "--device", "cpu", "--output", own};
  const pid_t process = ::fork();
  if (process == 0) start_silently(command, parent);
  if (process < 0 || !ends_well(process)) return false;
  std::filesystem::rename(own, file, failed);
  return !failed;
}

// Others compute beside it, and all must plan with one profile.
bool is_one_of_several_ranks() {
  const auto launcher = find_launcher();
  return launcher && launcher->ranks > 1;
}

}  // namespace

bool trains_on_processor(DeviceKind device) {
  return device == DeviceKind::cpu || (device == DeviceKind::automatic && !path_exists("/dev/nvidiactl"));
}

std::filesystem::path calibrated_profile() {
  const auto shared = profiles_folder();
  const auto own = user_folder("XDG_CONFIG_HOME", ".config");
  std::error_code failed;
  const bool is_locked = std::filesystem::is_directory(shared, failed) && ::access(shared.c_str(), W_OK) != 0;
  return (is_locked && !own.empty() ? own : shared) / "local.json";
}

std::filesystem::path profile_of_machine() {
  if (auto calibrated = calibrated_profile(); path_exists(calibrated)) return calibrated;
  return path_in_environment(measured_variable);
}

void measure_machine(const Recipe& recipe) {
  const auto folder = cache_folder();
  if (recipe.cluster.profile != "auto" || !trains_on_processor(recipe.cluster.device)) return;
  if (is_one_of_several_ranks() || folder.empty() || !profile_of_machine().empty() || !has_runtime()) return;
  const auto file = std::filesystem::absolute(folder) / name_of_machine();
  if (!is_profile(file)) {
    log().info("measuring this machine's processor for two seconds, once, so that plans match it: {}", file.string());
    if (!measure_into(file)) {
      log().warn(
          "this machine could not be measured, so plans assume an average processor, as --set cluster.profile=cpu "
          "does; llmtrain calibrate says why");
      return;
    }
  }
  ::setenv(measured_variable, file.c_str(), 1);
}

}  // namespace llmtrain::app
