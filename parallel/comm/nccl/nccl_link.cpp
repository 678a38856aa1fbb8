// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_link.h"

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain {
namespace {

// The polling interval of a rank that waits for NCCL.
constexpr std::chrono::microseconds between_looks{50};

ncclResult_t connect(ncclComm_t* communicator, const ncclUniqueId& id, int size, int position) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Blocking calls could not be ended if another rank fails meanwhile.
  config.blocking = 0;
  return ncclCommInitRankConfig(communicator, size, id, position, &config);
}

}  // namespace

NcclLink::NcclLink(const ncclUniqueId& id, int size, int position, NcclPatience patience)
    : patience_(std::move(patience)), exceptions_(std::uncaught_exceptions()) {
  try {
    settle(connect(&communicator_, id, size, position), "connect the ranks of a group");
  } catch (const Error&) {
    abort();
    throw;
  }
}

// Completes the operations that all ranks have started. While an exception unwinds it aborts instead, because the other
// ranks may never start theirs.
NcclLink::~NcclLink() {
  if (std::uncaught_exceptions() > exceptions_) abort();
  try {
    if (!is_aborted_) call("complete pending operations", ncclCommFinalize);
    if (!is_aborted_) check_nccl(ncclCommDestroy(communicator_), "disconnect the ranks of a group");
  } catch (const Error& error) {
    log().debug("{}", error.what());
    abort();
  }
}

void NcclLink::call(const char* what, const Call& call) {
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) refuse(what);
    status = call(communicator_);
  }
  settle(status, what);
}

void NcclLink::settle(ncclResult_t status, const char* what) {
  const Clock::time_point start = Clock::now();
  while (status == ncclInProgress) {
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (const auto failure = patience_.host->failure()) raise_failure(*failure, patience_.host->rank());
    if (waited.count() > patience_.seconds) {
      throw Error(ExitCode::rank_lost, timeout_message({patience_.host->rank(), patience_.seconds,
                                                        std::string("NCCL, to ") + what, "other ranks of a group"}));
    }
    // Without the mutex, so that abort() can interrupt the wait.
    std::this_thread::sleep_for(between_looks);
    const std::lock_guard lock(mutex_);
    if (is_aborted_) refuse(what);
    check_nccl(ncclCommGetAsyncError(communicator_, &status), what);
  }
  check_nccl(status, what);
}

// For calls after abort(), which follows the failure of a rank.
void NcclLink::refuse(const char* what) const {
  if (const auto failure = patience_.host->failure()) raise_failure(*failure, patience_.host->rank());
  throw Error(ExitCode::rank_lost, std::string("NCCL cannot ") + what + ": the connection was aborted");
}

void NcclLink::check() {
  const std::lock_guard lock(mutex_);
  if (is_aborted_ || communicator_ == nullptr) return;
  ncclResult_t status = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(communicator_, &status), "report its errors");
  if (status != ncclInProgress) check_nccl(status, "continue an operation");
}

void NcclLink::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_aborted_, true) || communicator_ == nullptr) return;
  ncclCommAbort(communicator_);
}

}  // namespace llmtrain
