// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>

#include "core/checkpoint/checkpoint.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Verifies a checkpoint, each rank as many of its files as the others. All ranks call it, and all of them throw what
// verify() throws on one; blocks.
void verify_together(Communicator& communicator, const CheckpointReader& checkpoint);

// The first rank looks at checkpoints until it has found a whole one; the others help it to verify each.
class VerificationLead {
 public:
  // The communicator outlives this.
  explicit VerificationLead(Communicator& communicator) : communicator_(communicator) {}

  // Blocks, and throws what verify() throws on any rank. What was whole before is not read again.
  void verify(const CheckpointReader& checkpoint);
  // Lets the others go on.
  void end() const;

 private:
  Communicator& communicator_;
  std::set<std::filesystem::path> whole_;
};

// What the other ranks do until the first one calls end().
void follow_verification(Communicator& communicator);

}  // namespace llmtrain
