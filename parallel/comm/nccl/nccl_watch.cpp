// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_watch.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Short enough for reports of failures, long enough to cost no noticeable processor time.
constexpr auto look_every = std::chrono::milliseconds(20);
// How long NCCL may take to abort all connections.
constexpr auto for_aborting = std::chrono::seconds(10);

// In one group, because aborting a communicator waits for what the device still runs, which may be what another one has
// started (github.com/NVIDIA/nccl/issues/1013).
void abort_all(const std::vector<std::weak_ptr<NcclLink>>& links) {
  ncclGroupStart();
  for (const std::weak_ptr<NcclLink>& entry : links) {
    if (const std::shared_ptr<NcclLink> link = entry.lock()) link->abort();
  }
  ncclGroupEnd();
}

}  // namespace

NcclWatch::NcclWatch(std::shared_ptr<Communicator> host, std::shared_ptr<OperationLog> log, double watchdog_seconds,
                     int device)
    : host_(std::move(host)),
      log_(std::move(log)),
      watchdog_seconds_(watchdog_seconds),
      thread_([this, device] { look_after(device); }) {}

NcclWatch::~NcclWatch() {
  {
    std::unique_lock lock(mutex_);
    has_stopped_ = true;
    changed_.notify_all();
    const bool has_ended = changed_.wait_for(lock, for_aborting, [this] { return has_ended_; });
    // Not exit(): what it would destroy is in use.
    if (const auto failure = host_->failure(); failure && !has_ended) std::_Exit(static_cast<int>(failure->code));
  }
  thread_.join();
}

void NcclWatch::add(std::shared_ptr<NcclWork> work) {
  const std::lock_guard lock(mutex_);
  open_.push_back(std::move(work));
}

void NcclWatch::add(const std::shared_ptr<NcclLink>& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(link);
  // Nobody looks any more.
  if (has_failed_) link->abort();
}

void NcclWatch::look_after(int device) {
  // The current device is per thread, and every thread starts on the first one.
  cudaSetDevice(device);
  std::unique_lock lock(mutex_);
  while (!has_stopped_) {
    try {
      note_ends();
      check_links();
    } catch (const Error& error) {
      host_->abort(error.code(), error.what());
    }
    if (host_->failure()) {
      // Links refuse what comes after, so that nothing is left to watch.
      has_failed_ = true;
      const auto links = std::exchange(links_, {});
      lock.unlock();
      abort_all(links);
      lock.lock();
      break;
    }
    changed_.wait_for(lock, look_every);
  }
  has_ended_ = true;
  changed_.notify_all();
}

void NcclWatch::note_ends() {
  for (auto place = open_.begin(); place != open_.end();) {
    NcclWork& work = **place;
    if (work.end.has_passed()) {
      // The device's own time: the host may notice the end up to a polling interval late.
      const std::chrono::duration<double> took(CudaEvent::seconds_between(*work.begin, work.end));
      log_->finish(work.entry, work.entry.started + std::chrono::duration_cast<Clock::duration>(took));
      place = open_.erase(place);
      // A hanging kernel cannot be interrupted from the host: the exception leads to abort_all(), which ends it.
      // Counted from the call, thus with the computation that the operation waits for on the device: what hangs there
      // is to be found as well.
    } else if (work.deadline.has_passed()) {
      throw Error(ExitCode::rank_lost, timeout_message(host_->rank(), watchdog_seconds_, host_->log().activity(),
                                                       work.operation.description(), "another rank of its group"));
    } else {
      ++place;
    }
  }
}

void NcclWatch::check_links() {
  for (const std::weak_ptr<NcclLink>& entry : links_) {
    if (const std::shared_ptr<NcclLink> link = entry.lock()) link->check();
  }
}

}  // namespace llmtrain
