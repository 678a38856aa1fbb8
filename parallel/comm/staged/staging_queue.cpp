// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/staged/staging_queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/log.h"

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

// While a rank waits, the thread only yields for this long after the last progress; after that it sleeps between polls.
constexpr auto yielding = 5ms;
constexpr auto between_looks = 50us;
// How long to wait for copies that a failure has left in progress.
constexpr auto copying_time = 1s;

// Bytes that an operation reads and writes on its rank.
struct Extent {
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
};

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Extent extent_of(const Request& request) {
  const std::int64_t size = element_size(request.type), bytes = request.count * size, ranks = request.group.size();
  switch (request.collective) {
    case Collective::all_reduce:
      return {bytes, bytes};
    case Collective::all_gather:
      return {bytes, bytes * ranks};
    case Collective::reduce_scatter:
      return {bytes * ranks, bytes};
    case Collective::all_to_all:
      return {sum_of(request.input_counts) * size, sum_of(request.output_counts) * size};
    case Collective::broadcast:
      return request.peer == request.group.position() ? Extent{bytes, 0} : Extent{0, bytes};
    case Collective::send:
      return {bytes, 0};
    case Collective::receive:
      return {0, bytes};
    case Collective::barrier:
      break;
  }
  return {};
}

}  // namespace

StagedOperation::StagedOperation(std::shared_ptr<StagingQueue> queue, Request request,
                                 std::shared_ptr<OperationLog> log)
    // The host assigns the operation's number; here only purpose and collective matter, for add_wait().
    : PendingOperation(std::move(log), {0, request.purpose, request.collective, Clock::now()}),
      queue_(std::move(queue)),
      request_(std::move(request)) {}

bool StagedOperation::done() { return queue_->is_finished(*this); }

void StagedOperation::wait() { queue_->wait(*this); }

void StagedOperation::withdraw() noexcept { queue_->withdraw(*this); }

StagingQueue::StagingQueue(std::shared_ptr<Communicator> host, std::unique_ptr<StagingDevice> device,
                           StartOnHost start_on_host)
    : host_(std::move(host)),
      device_(std::move(device)),
      start_on_host_(std::move(start_on_host)),
      thread_([this] { look_after(); }) {}

StagingQueue::~StagingQueue() { stop(); }

void StagingQueue::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (has_stopped_) return;
    has_stopped_ = true;
  }
  added_.notify_all();
  finished_.notify_all();
  thread_.join();
  let_go();
}

// Queue and operations refer to each other: clearing the list breaks the cycle. The host gives up what a failure has
// left unfinished.
void StagingQueue::let_go() noexcept {
  for (const std::shared_ptr<StagedOperation>& operation : open_) await_copies(*operation);
  open_.clear();
}

// With a time limit: after a failure the device may never reach the copies.
void StagingQueue::await_copies(const StagedOperation& operation) noexcept {
  const Clock::time_point until = Clock::now() + copying_time;
  while (is_copying(operation) && Clock::now() < until) std::this_thread::sleep_for(between_looks);
}

std::shared_ptr<std::byte> StagingQueue::host_memory(std::int64_t bytes) {
  return bytes > 0 ? device_->host_memory(bytes) : nullptr;
}

void StagingQueue::copy_out(StagedOperation& operation) {
  Request& request = operation.request_;
  const Extent extent = extent_of(request);
  // Everything enqueued so far may write the input, and read the memory that becomes the output.
  operation.begin_ = device_->mark_computation();
  operation.output_ = request.output;
  operation.output_bytes_ = extent.output_bytes;
  // In-place operations stay in place, so that the host sees the same aliasing.
  if (request.input == request.output) {
    operation.host_input_ = host_memory(std::max(extent.input_bytes, extent.output_bytes));
    operation.host_output_ = operation.host_input_;
  } else {
    operation.host_input_ = host_memory(extent.input_bytes);
    operation.host_output_ = host_memory(extent.output_bytes);
  }
  if (extent.input_bytes > 0) {
    operation.copied_out_ =
        device_->copy_out(*operation.begin_, operation.host_input_.get(), request.input, extent.input_bytes);
  }
  request.input = operation.host_input_.get();
  request.output = operation.host_output_.get();
  request.memory = Memory::host;
}

void StagingQueue::add(const std::shared_ptr<StagedOperation>& operation) {
  if (operation->request_.memory == Memory::device) copy_out(*operation);
  {
    const std::lock_guard lock(mutex_);
    open_.push_back(operation);
  }
  added_.notify_one();
}

void StagingQueue::look_after() {
  device_->enter_thread();
  Clock::time_point last_move = Clock::now();
  std::unique_lock lock(mutex_);
  while (!has_stopped_) {
    if (open_.empty()) {
      added_.wait(lock, [this] { return has_stopped_ || !open_.empty(); });
      last_move = Clock::now();
      continue;
    }
    if (advance()) last_move = Clock::now();
    const bool is_hurried = waiting_ > 0 && Clock::now() - last_move < yielding;
    lock.unlock();
    if (is_hurried) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(between_looks);
    }
    lock.lock();
  }
}

// An operation must not overtake an earlier one that has not reached the host: all ranks must start them in one order.
bool StagingQueue::advance() {
  bool has_moved = false, may_start = true;
  for (const std::shared_ptr<StagedOperation>& operation : open_) {
    const bool is_its_turn = operation->has_started_ || may_start;
    if (is_its_turn && !operation->is_finished_) has_moved |= advance(*operation);
    may_start = may_start && (operation->has_started_ || operation->is_finished_);
  }
  std::erase_if(open_, [](const auto& operation) { return operation->is_finished_ && !is_copying(*operation); });
  return has_moved;
}

// Returns whether the operation has advanced.
bool StagingQueue::advance(StagedOperation& operation) {
  try {
    if (!operation.has_started_) {
      const bool is_ready = operation.copied_out_ == nullptr || operation.copied_out_->has_passed();
      // After a failure the copy may never finish; the host then throws the failure for this operation.
      if (!is_ready && !host_->failure()) return false;
      operation.host_ = start_on_host_(operation.request_);
      operation.has_started_ = true;
      return true;
    }
    if (!operation.host_.done()) return false;
    operation.host_.wait();
    if (operation.output_bytes_ > 0 && !operation.is_withdrawn_) {
      // After begin_: the output's memory may be in use by computation that precedes the operation.
      operation.copied_in_ =
          device_->copy_in(*operation.begin_, operation.output_, operation.host_output_.get(), operation.output_bytes_);
    }
  } catch (...) {
    operation.error_ = std::current_exception();
  }
  operation.is_finished_ = true;
  finished_.notify_all();
  return true;
}

bool StagingQueue::is_copying(const StagedOperation& operation) noexcept {
  try {
    for (const auto& mark : {operation.copied_out_, operation.copied_in_}) {
      if (mark != nullptr && !mark->has_passed()) return true;
    }
  } catch (const std::exception& error) {
    log().debug("a copy between the host and the device failed: {}", error.what());
  }
  return false;
}

bool StagingQueue::is_finished(const StagedOperation& operation) {
  const std::lock_guard lock(mutex_);
  return operation.is_finished_;
}

void StagingQueue::wait(const StagedOperation& operation) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  finished_.wait(lock, [&] { return operation.is_finished_ || has_stopped_; });
  --waiting_;
  // Errors of the queue's thread surface in the thread that waits.
  if (operation.error_) std::rethrow_exception(operation.error_);
  if (!operation.is_finished_)
    throw Error(ExitCode::internal_error, operation.request_.description() + ": its communicator was destroyed");
  lock.unlock();
  if (operation.copied_in_) device_->hold_computation(*operation.copied_in_);
}

// The host's operation continues on its own buffers; only copies from and to device memory must have ended.
void StagingQueue::withdraw(StagedOperation& operation) noexcept {
  const std::lock_guard lock(mutex_);
  operation.is_withdrawn_ = true;
  await_copies(operation);
}

}  // namespace llmtrain
