// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/shared_folder.h"

#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Between listings, so that waiting does not load the file system.
constexpr std::chrono::milliseconds interval{50};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

// A name that no other run uses, on this host or another one.
std::string unique_name() {
  return "shared-" + std::to_string(::getpid()) + "-" +
         std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
}

// Lists the parent folder instead of looking the name up: network file systems cache for a while that a name does not
// exist.
bool appears(const fs::path& token, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (true) {
    std::error_code error;
    for (fs::directory_iterator entry(token.parent_path(), error), last; !error && entry != last;
         entry.increment(error))
      if (entry->path().filename() == token.filename()) return true;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace

void check_shared_folder(Communicator& communicator, const fs::path& checkpoints, std::chrono::milliseconds patience) {
  const bool is_first = communicator.rank() == 0;
  const std::string host = share_text(communicator, host_name());
  // A name that clear_leftovers() recognises, so that a killed run leaves nothing for ever.
  const fs::path token = checkpoint_aside(checkpoints, 0, share_text(communicator, unique_name()));
  run_together(communicator, [&] {
    if (!is_first) return;
    make_checkpoint_folder(checkpoints);
    clear_leftovers(checkpoints);
    make_checkpoint_folder(token);
  });
  const auto failure = first_failure(
      communicator, error_of([&] {
        if (appears(token, patience)) return;
        throw Error(ExitCode::cannot_write, checkpoints.string() + ": on host " + host_name() +
                                                ", files written by the first rank (on host " + host +
                                                ") do not appear; all ranks write checkpoints into one "
                                                "folder: choose a --run-dir on a file system that all nodes share");
      }));
  // On failure too: the run ends, and the folder should be as before.
  if (is_first) discard_checkpoint(token);
  if (failure) throw Error(*failure);
}

}  // namespace llmtrain
