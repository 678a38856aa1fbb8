// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>

#include "core/checkpoint/checkpoint.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Verifies a checkpoint; each rank takes an equal share of its files. Collective: all ranks call it, and all of them
// throw if verify() throws on any; blocks.
void verify_together(Communicator& communicator, const CheckpointReader& checkpoint);

// The first rank looks through checkpoints until it finds an intact one; the other ranks help to verify each.
class VerificationLead {
 public:
  // The communicator must outlive this.
  explicit VerificationLead(Communicator& communicator) : communicator_(communicator) {}

  // Blocks; throws if verify() throws on any rank. Checkpoints already found intact are not read again.
  void verify(const CheckpointReader& checkpoint);
  // Ends follow_verification() on the other ranks.
  void end() const;

 private:
  Communicator& communicator_;
  std::set<std::filesystem::path> whole_;
};

// Called by the other ranks: helps the first one to verify until it calls end(). Blocks.
void follow_verification(Communicator& communicator);

}  // namespace llmtrain
