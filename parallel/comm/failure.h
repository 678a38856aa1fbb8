// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace llmtrain {

// Why ranks go down together: what the first of them said.
struct Failure {
  int rank = 0;
  ExitCode code = ExitCode::internal_error;
  std::string message;
};

// Throws Error with the failure's code and message, as `rank` should see it.
[[noreturn]] void raise_failure(const Failure& failure, int rank);

// Keeps the first failure, for all threads. Reading that there is none costs one load.
class FailureNote {
 public:
  // Whether this was the first.
  bool set(Failure failure);
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  std::optional<Failure> get() const;
  // Throws it as raise_failure(); it must be set.
  [[noreturn]] void raise(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  std::optional<Failure> failure_;
};

}  // namespace llmtrain
