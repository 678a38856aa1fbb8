// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/verify_together.h"

#include <cstddef>
#include <string>

#include "core/base/error.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

CheckpointReader::VerifyShare share_of(const Communicator& communicator) {
  return {static_cast<std::size_t>(communicator.rank()), static_cast<std::size_t>(communicator.size())};
}

}  // namespace

void verify_together(Communicator& communicator, const CheckpointReader& checkpoint) {
  run_together(communicator, [&] { checkpoint.verify(share_of(communicator)); });
}

void VerificationLead::verify(const CheckpointReader& checkpoint) {
  if (whole_.count(checkpoint.folder()) > 0) return;
  // Tells the followers which folder is next; an empty text ends their loop.
  share_text(communicator_, checkpoint.folder().string());
  verify_together(communicator_, checkpoint);
  whole_.insert(checkpoint.folder());
}

void VerificationLead::end() const { share_text(communicator_, ""); }

void follow_verification(Communicator& communicator) {
  while (true) {
    const std::string folder = share_text(communicator, "");
    if (folder.empty()) return;
    try {
      run_together(communicator, [&] { CheckpointReader(folder).verify(share_of(communicator)); });
    } catch (const Error&) {
      // The first rank has the same error: it reports it, and tries another checkpoint or ends the run.
    }
  }
}

}  // namespace llmtrain
