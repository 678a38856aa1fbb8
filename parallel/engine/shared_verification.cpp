// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/base/error.h"
#include "parallel/comm/agreement.h"
#include "parallel/engine/model_state.h"

namespace llmtrain {
namespace {

CheckpointReader::VerifyShare verify_share(const Communicator& communicator) {
  return {static_cast<std::size_t>(communicator.rank()), static_cast<std::size_t>(communicator.size())};
}

}  // namespace

void verify_together(Communicator& communicator, const CheckpointReader& checkpoint, const WorkMonitor& monitor) {
  run_together(communicator, [&] {
    checkpoint.verify(verify_share(communicator), monitor.begin("verifying " + checkpoint.folder().string()));
  });
}

void SharedVerification::run(const std::function<void(const VerifyCheckpoint&)>& search) {
  if (communicator_.rank() == 0) {
    search([this](const CheckpointReader& checkpoint) {
      if (whole_.count(checkpoint.folder()) > 0) return;
      // Tells the other ranks which folder is next; an empty text ends their loop.
      share_text(communicator_, checkpoint.folder().string());
      verify_together(communicator_, checkpoint, monitor_);
      whole_.insert(checkpoint.folder());
    });
    share_text(communicator_, "");
    return;
  }
  while (true) {
    const std::string folder = share_text(communicator_, "");
    if (folder.empty()) return;
    try {
      run_together(communicator_, [&] {
        CheckpointReader(folder).verify(verify_share(communicator_), monitor_.begin("verifying " + folder));
      });
    } catch (const Error& error) {
      if (error.code() == ExitCode::stopped) throw;
      // The first rank has the same error: it reports it, and tries another checkpoint or ends the run.
    }
  }
}

}  // namespace llmtrain
