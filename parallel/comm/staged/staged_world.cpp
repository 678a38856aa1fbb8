// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/staged/staged_world.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "parallel/comm/backend.h"

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

Extent extent_of(const Request& request) {
  const std::int64_t size = element_size(request.type), bytes = request.bytes(), ranks = request.group.size();
  switch (request.collective) {
    case Collective::all_reduce:
      return {bytes, bytes};
    case Collective::all_gather:
      return {bytes, bytes * ranks};
    case Collective::reduce_scatter:
      return {bytes * ranks, bytes};
    case Collective::all_to_all:
      return {std::reduce(request.input_counts.begin(), request.input_counts.end()) * size,
              std::reduce(request.output_counts.begin(), request.output_counts.end()) * size};
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

class StagingQueue;

// One operation of this rank. For device memory the host's operation uses buffers in its place.
struct StagedOperation : PendingOperation {
  // `given` must have the host's group. The host assigns the operation's number; here only purpose and collective
  // matter, for add_wait().
  StagedOperation(std::shared_ptr<StagingQueue> given_queue, Request given, std::shared_ptr<OperationLog> given_log)
      : PendingOperation(std::move(given_log), {0, given.purpose, given.collective, Clock::now()}),
        queue(std::move(given_queue)),
        request(std::move(given)) {}

  bool done() override;
  void wait() override;
  void withdraw() noexcept override;

  std::shared_ptr<StagingQueue> queue;
  Request request;
  void* output = nullptr;  // in the original memory, on the device
  std::int64_t output_bytes = 0;
  std::shared_ptr<std::byte> host_input, host_output;
  StagingDevice::MarkPointer begin, copied_out, copied_in;
  // Under the queue's mutex.
  Handle host;
  bool has_started = false;  // on the host
  bool is_finished = false;
  bool is_withdrawn = false;
  std::exception_ptr error;
};

// Executes a rank's operations through the host on a separate thread, which alone starts operations there, in the order
// of add().
class StagingQueue {
 public:
  using StartOnHost = std::function<Handle(const Request&)>;
  StagingQueue(std::shared_ptr<Communicator> host, std::unique_ptr<StagingDevice> device, StartOnHost start_on_host)
      : host_(std::move(host)),
        device_(std::move(device)),
        start_on_host_(std::move(start_on_host)),
        thread_([this] { look_after(); }) {}
  ~StagingQueue() { stop(); }
  StagingQueue(const StagingQueue&) = delete;
  StagingQueue& operator=(const StagingQueue&) = delete;

  void add(const std::shared_ptr<StagedOperation>& operation) {
    // On the caller's thread: the computation that the copy follows is that of this thread's current stream.
    if (operation->request.memory == Memory::device) copy_out(*operation);
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(operation);
    }
    added_.notify_one();
  }

  bool is_finished(const StagedOperation& operation) {
    const std::lock_guard lock(mutex_);
    return operation.is_finished;
  }

  void wait(StagedOperation& operation) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    finished_.wait(lock, [&] { return operation.is_finished || has_stopped_; });
    --waiting_;
    // Errors of the queue's thread surface in the thread that waits, which becomes their only owner: otherwise the
    // queue's thread could delete one after the waiting thread has read it, in an order that only libstdc++'s own
    // reference count knows and the thread sanitizer does not see.
    if (operation.error) {
      // The caller may release the memory as it unwinds.
      await_copies(operation);
      std::rethrow_exception(std::exchange(operation.error, nullptr));
    }
    if (!operation.is_finished)
      throw Error(ExitCode::internal_error, operation.request.description() + ": its communicator was destroyed");
    lock.unlock();
    // Only the waiting thread's stream waits for the copy, so that the host can go on enqueueing.
    if (operation.copied_in) device_->hold_computation(*operation.copied_in);
  }

  // The host's operation continues on its own buffers; only copies from and to device memory must have ended.
  void withdraw(StagedOperation& operation) noexcept {
    const std::lock_guard lock(mutex_);
    operation.is_withdrawn = true;
    await_copies(operation);
  }

  // Ends the thread; no operation may be added afterwards.
  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (has_stopped_) return;
      has_stopped_ = true;
    }
    added_.notify_all();
    finished_.notify_all();
    thread_.join();
    // Queue and operations refer to each other: clearing the list breaks the cycle. The host gives up what a failure
    // has left unfinished.
    for (const std::shared_ptr<StagedOperation>& operation : open_) await_copies(*operation);
    open_.clear();
  }

 private:
  std::shared_ptr<std::byte> host_memory(std::int64_t bytes) {
    return bytes > 0 ? device_->host_memory(bytes) : nullptr;
  }

  void copy_out(StagedOperation& operation) {
    Request& request = operation.request;
    const Extent extent = extent_of(request);
    // Everything enqueued so far may write the input, and read the memory that becomes the output.
    operation.begin = device_->mark_computation();
    operation.output = request.output;
    operation.output_bytes = extent.output_bytes;
    // In-place operations stay in place, so that the host sees the same aliasing.
    if (request.input == request.output) {
      operation.host_input = host_memory(std::max(extent.input_bytes, extent.output_bytes));
      operation.host_output = operation.host_input;
    } else {
      operation.host_input = host_memory(extent.input_bytes);
      operation.host_output = host_memory(extent.output_bytes);
    }
    if (extent.input_bytes > 0) {
      operation.copied_out =
          device_->copy_out(*operation.begin, operation.host_input.get(), request.input, extent.input_bytes);
    }
    request.input = operation.host_input.get();
    request.output = operation.host_output.get();
    request.memory = Memory::host;
  }

  void look_after() {
    device_->enter_thread();
    Clock::time_point last_move = Clock::now();
    std::unique_lock lock(mutex_);
    while (!has_stopped_) {
      if (open_.empty()) {
        added_.wait(lock, [this] { return has_stopped_ || !open_.empty(); });
        last_move = Clock::now();
        continue;
      }
      // Polled, because neither a stream of the device nor the host's backend can wake this thread.
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

  // The functions below are called under the mutex or after the thread has ended.

  // An operation must not overtake an earlier one that has not reached the host: all ranks must start them in one
  // order.
  bool advance() {
    bool has_moved = false, may_start = true;
    for (const std::shared_ptr<StagedOperation>& operation : open_) {
      const bool is_its_turn = operation->has_started || may_start;
      if (is_its_turn && !operation->is_finished) has_moved |= advance(*operation);
      may_start = may_start && (operation->has_started || operation->is_finished);
    }
    std::erase_if(open_, [](const auto& operation) { return operation->is_finished && !is_copying(*operation); });
    return has_moved;
  }

  // Returns whether the operation has advanced.
  bool advance(StagedOperation& operation) {
    try {
      if (!operation.has_started) {
        const bool is_ready = operation.copied_out == nullptr || operation.copied_out->has_passed();
        // After a failure the copy may never finish; the host then throws the failure for this operation.
        if (!is_ready && !host_->failure()) return false;
        operation.host = start_on_host_(operation.request);
        operation.has_started = true;
        return true;
      }
      if (!operation.host.done()) return false;
      operation.host.wait();
      if (operation.output_bytes > 0 && !operation.is_withdrawn) {
        // After `begin`: the output's memory may be in use by computation that precedes the operation.
        operation.copied_in =
            device_->copy_in(*operation.begin, operation.output, operation.host_output.get(), operation.output_bytes);
      }
    } catch (...) {
      operation.error = std::current_exception();
    }
    operation.is_finished = true;
    finished_.notify_all();
    return true;
  }

  static bool is_copying(const StagedOperation& operation) noexcept {
    try {
      for (const auto& mark : {operation.copied_out, operation.copied_in}) {
        if (mark != nullptr && !mark->has_passed()) return true;
      }
    } catch (const std::exception& error) {
      // A device that has failed copies nothing any more, so there is nothing to wait for.
      log().debug("a copy between the host and the device failed: {}", error.what());
    }
    return false;
  }

  // With a time limit: after a failure the device may never reach the copies.
  static void await_copies(const StagedOperation& operation) noexcept {
    const Clock::time_point until = Clock::now() + copying_time;
    while (is_copying(operation) && Clock::now() < until) std::this_thread::sleep_for(between_looks);
  }

  std::shared_ptr<Communicator> host_;
  std::unique_ptr<StagingDevice> device_;
  StartOnHost start_on_host_;

  std::mutex mutex_;
  std::condition_variable added_, finished_;
  std::list<std::shared_ptr<StagedOperation>> open_;  // kept until no copy uses their buffers any more
  int waiting_ = 0;                                   // threads in wait()
  bool has_stopped_ = false;
  std::thread thread_;
};

bool StagedOperation::done() { return queue->is_finished(*this); }

void StagedOperation::wait() { queue->wait(*this); }

void StagedOperation::withdraw() noexcept { queue->withdraw(*this); }

// One rank with a device: see stage_through_host().
class StagedCommunicator : public LayeredCommunicator {
 public:
  StagedCommunicator(std::shared_ptr<Communicator> host, std::unique_ptr<StagingDevice> device)
      : LayeredCommunicator(std::move(host)),
        queue_(std::make_shared<StagingQueue>(this->host(), std::move(device), [this](const Request& request) {
          return Handle(start_on(*this->host(), request));
        })) {
    set_world(Group(std::make_shared<LayerGroup>(this->host()->world())));
  }
  // Handles may outlive the communicator and share the queue; stop() ends its thread and fails what is unfinished.
  ~StagedCommunicator() override { queue_->stop(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    return std::make_shared<LayerGroup>(host()->make_group(name, std::move(ranks), use));
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    raise_if_failed(*this);
    auto operation = std::make_shared<StagedOperation>(queue_, host_request(std::move(request)), shared_log());
    queue_->add(operation);
    return operation;
  }

  std::shared_ptr<StagingQueue> queue_;
};

}  // namespace

std::unique_ptr<Communicator> stage_through_host(std::shared_ptr<Communicator> host,
                                                 std::unique_ptr<StagingDevice> device) {
  return std::make_unique<StagedCommunicator>(std::move(host), std::move(device));
}

}  // namespace llmtrain
