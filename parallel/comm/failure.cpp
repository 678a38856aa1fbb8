// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/failure.h"

#include <utility>

namespace llmtrain {

bool FailureNote::set(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = std::move(failure);
  // Published after failure_ is written: whoever sees the flag finds the failure.
  is_set_.store(true, std::memory_order_release);
  return true;
}

std::optional<Failure> FailureNote::get() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void FailureNote::raise(int rank) const { raise_failure(get().value(), rank); }

void raise_failure(const Failure& failure, int rank) {
  const std::string name = "rank " + std::to_string(failure.rank);
  // The own rank needs no prefix, and a message that already starts with the rank's name does not get a second one.
  const bool is_reported = failure.rank == rank || failure.message.starts_with(name + " ");
  throw Error(failure.code, is_reported ? failure.message : name + ": " + failure.message);
}

}  // namespace llmtrain
