// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/engine/local_model.h"

namespace llmtrain {

// What a run has found out about the exchanges of its experts, in the file exchange.json of its folder. Does nothing
// where the recipe leaves nothing open.

// Goes on with what the folder's run has found out. Collective; the first rank reads the file, and the others learn
// from it.
void use_exchange_file(const std::filesystem::path& folder, const LocalModel& model);

// The first rank's, which writes it.
class ExchangeFile {
 public:
  ExchangeFile(std::filesystem::path folder, const LocalModel& model);

  // After a step: what has been decided since the last one, in words. Throws Error(cannot_write).
  std::vector<std::string> note();
  // Before a checkpoint, so that a run that resumes from it has all trials before it. Throws Error(cannot_write).
  void write() const;

 private:
  std::filesystem::path folder_;
  const LocalModel& model_;
  bool has_split_ = false;      // whether it stays
  std::vector<bool> is_final_;  // of each bucket, whether its exchange stays
};

}  // namespace llmtrain
