// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace llmtrain {

// The reason why all ranks end: the error of the rank that failed first.
struct Failure {
  int rank = 0;
  ExitCode code = ExitCode::internal_error;
  std::string message;
};

// Throws Error with the failure's code and message, prefixed with the failed rank's name unless that is `rank`.
[[noreturn]] void raise_failure(const Failure& failure, int rank);

// Stores the first failure. Thread-safe; is_set() costs one atomic load.
class FailureNote {
 public:
  // Returns whether this was the first failure; later ones are dropped.
  bool set(Failure failure);
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  std::optional<Failure> get() const;
  // Throws like raise_failure(); a failure must be set.
  [[noreturn]] void raise(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  std::optional<Failure> failure_;
};

}  // namespace llmtrain
