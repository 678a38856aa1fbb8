// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_world.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/nccl/nccl_link.h"

namespace llmtrain {
namespace {

// Short enough for reports of failures, long enough to cost no noticeable processor time.
constexpr auto look_every = std::chrono::milliseconds(20);

// An operation on the device, delimited by two events.
struct NcclWork {
  explicit NcclWork(double watchdog_seconds) : deadline(watchdog_seconds) {}

  OperationLog::Entry entry;
  std::string description;
  CudaEvent begin, end;
  Deadline deadline;
};

// Monitors a rank's operations on a separate thread: logs their times, detects those that hang, and aborts them once a
// rank has failed.
class NcclWatch {
 public:
  NcclWatch(std::shared_ptr<Communicator> host, std::shared_ptr<OperationLog> log, double watchdog_seconds, int device)
      : host_(std::move(host)),
        log_(std::move(log)),
        watchdog_seconds_(watchdog_seconds),
        thread_([this, device] { look_after(device); }) {}
  ~NcclWatch() {
    {
      const std::lock_guard lock(mutex_);
      has_stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(std::shared_ptr<NcclWork> work) {
    const std::lock_guard lock(mutex_);
    open_.push_back(std::move(work));
  }

  // Monitors the link for errors, and aborts it when a rank fails.
  void add(const std::shared_ptr<NcclLink>& link) {
    const std::lock_guard lock(mutex_);
    links_.push_back(link);
  }

 private:
  void look_after(int device) {
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
        abort_links();
        return;
      }
      changed_.wait_for(lock, look_every);
    }
  }

  // The functions below are called under the mutex.

  void note_ends() {
    for (auto place = open_.begin(); place != open_.end();) {
      NcclWork& work = **place;
      if (work.end.has_passed()) {
        // The device's own time: the host may notice the end up to a polling interval late.
        const std::chrono::duration<double> took(CudaEvent::seconds_between(work.begin, work.end));
        log_->finish(work.entry, work.entry.started + std::chrono::duration_cast<Clock::duration>(took));
        place = open_.erase(place);
        // A hanging kernel cannot be interrupted from the host: the exception leads to abort_links(), which ends it.
        // Counted from the call, thus with the computation that the operation waits for on the device: what hangs there
        // is to be found as well.
      } else if (work.deadline.has_passed()) {
        throw Error(ExitCode::rank_lost, timeout_message(host_->rank(), watchdog_seconds_, host_->log().activity(),
                                                         work.description, "another rank of its group"));
      } else {
        ++place;
      }
    }
  }

  void check_links() {
    for (const std::weak_ptr<NcclLink>& entry : links_) {
      if (const std::shared_ptr<NcclLink> link = entry.lock()) link->check();
    }
  }

  void abort_links() {
    for (const std::weak_ptr<NcclLink>& entry : links_) {
      if (const std::shared_ptr<NcclLink> link = entry.lock()) link->abort();
    }
    links_.clear();
  }

  std::shared_ptr<Communicator> host_;
  std::shared_ptr<OperationLog> log_;
  double watchdog_seconds_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_stopped_ = false;
  std::list<std::shared_ptr<NcclWork>> open_;
  std::vector<std::weak_ptr<NcclLink>> links_;
  std::thread thread_;
};

struct NcclGroup : LayerGroup {
  using LayerGroup::LayerGroup;

  std::shared_ptr<NcclLink> link;                                     // of all members, for collectives
  std::map<std::pair<int, int>, std::shared_ptr<NcclLink>> messages;  // of neighbours, by sender and receiver
};

ncclUniqueId share_id(Communicator& host, const Group& group) {
  ncclUniqueId id{};
  if (group.position() == 0) check_nccl(ncclGetUniqueId(&id), "create an id");
  host.broadcast(group, Purpose::control, {&id, sizeof id, ElementType::uint8}, 0).wait();
  return id;
}

// The pairs of neighbours around the group, sender first. The set's order is the same on all members: connecting
// blocks, so any other order could deadlock.
std::set<std::pair<int, int>> neighbour_pairs(int size) {
  std::set<std::pair<int, int>> pairs;
  for (int position = 0; position < size; ++position) {
    const int next = (position + 1) % size;
    pairs.insert({position, next});
    pairs.insert({next, position});
  }
  return pairs;
}

class NcclOperation : public PendingOperation {
 public:
  NcclOperation(std::shared_ptr<OperationLog> log, std::shared_ptr<NcclWork> work, std::shared_ptr<Communicator> host,
                std::function<void*()> compute_stream)
      : PendingOperation(std::move(log), work->entry),
        work_(std::move(work)),
        host_(std::move(host)),
        compute_stream_(std::move(compute_stream)) {}

  bool done() override { return host_->failure().has_value() || work_->end.has_passed(); }

  void wait() override {
    raise_if_failed(*host_);
    check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(compute_stream_()), work_->end.get(), 0), "wait");
  }

  // Work on a stream cannot be cancelled: releasing memory in stream order keeps it safe.
  void withdraw() noexcept override {}

 private:
  std::shared_ptr<NcclWork> work_;
  std::shared_ptr<Communicator> host_;
  std::function<void*()> compute_stream_;
};

int checked_device(int device) {
  check_cuda(cudaSetDevice(device), "use the device");
  return device;
}

// NCCL rounds sums of FP8 after every addition, and does not saturate them.
bool sums_fp8(const Request& request) {
  return (request.collective == Collective::all_reduce || request.collective == Collective::reduce_scatter) &&
         (request.type == ElementType::float8_e4m3 || request.type == ElementType::float8_e5m2);
}

// The link for an operation; null if it does not go over NCCL: host memory, control exchanges, sums that it does not
// make as processors do, and operations for which the group has no connection.
NcclLink* link_of(const Request& request) {
  if (request.memory == Memory::host || request.purpose == Purpose::control || sums_fp8(request)) return nullptr;
  const auto& group = static_cast<NcclGroup&>(request.group.state());
  const bool is_send = request.collective == Collective::send;
  if (!is_send && request.collective != Collective::receive) return group.link.get();
  const auto place =
      group.messages.find(is_send ? std::pair{group.position, request.peer} : std::pair{request.peer, group.position});
  return place == group.messages.end() ? nullptr : place->second.get();
}

// One rank with a GPU of its own: see join_nccl_world().
class NcclCommunicator : public LayeredCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<Communicator> host, const NcclOptions& options)
      : LayeredCommunicator(std::move(host)),
        options_(options),
        watch_(this->host(), shared_log(), options.watchdog_seconds, checked_device(options.device)) {
    set_world(Group(std::make_shared<NcclGroup>(this->host()->world())));
  }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse use) override {
    auto group = std::make_shared<NcclGroup>(host()->make_group(name, std::move(ranks), use));
    const int size = group->host.size();
    // A group of one needs no connection: its collectives complete immediately.
    if (size == 1) return group;
    if (use == GroupUse::collectives) group->link = connect(share_id(*host(), group->host), size, position);
    if (use == GroupUse::messages) connect_neighbours(*group);
    return group;
  }

  std::shared_ptr<NcclLink> connect(const ncclUniqueId& id, int size, int position) {
    auto link = std::make_shared<NcclLink>(id, size, position, host(), options_.watchdog_seconds);
    watch_.add(link);
    return link;
  }

  void connect_neighbours(NcclGroup& group) {
    for (const auto& [from, to] : neighbour_pairs(group.host.size())) {
      if (from == group.position || to == group.position) group.messages[{from, to}] = connect_pair(group, from, to);
    }
  }

  std::shared_ptr<NcclLink> connect_pair(const NcclGroup& group, int from, int to) {
    ncclUniqueId id{};
    const Array array{&id, sizeof id, ElementType::uint8};
    const bool is_sender = from == group.position;
    if (is_sender) {
      check_nccl(ncclGetUniqueId(&id), "create an id");
      host()->send(group.host, Purpose::control, array, to).wait();
    } else {
      host()->receive(group.host, Purpose::control, array, from).wait();
    }
    return connect(id, 2, is_sender ? 0 : 1);
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    NcclLink* const link = link_of(request);
    if (link == nullptr) return start_on(*host(), host_request(std::move(request)));
    raise_if_failed(*this);
    auto work = std::make_shared<NcclWork>(options_.watchdog_seconds);
    // Work pending on the compute stream may still write the input, or read what the output's memory held before.
    work->begin.record(static_cast<cudaStream_t>(options_.compute_stream()));
    check_cuda(cudaStreamWaitEvent(link->stream(), work->begin.get(), 0), "wait for the input");
    work->entry = shared_log()->start(request);
    work->description = request.description();
    link->enqueue(request);
    // Marks completion on the link's stream: wait() makes the compute stream wait for it.
    work->end.record(link->stream());
    watch_.add(work);
    return std::make_shared<NcclOperation>(shared_log(), std::move(work), host(), options_.compute_stream);
  }

  NcclOptions options_;
  NcclWatch watch_;
};

}  // namespace

std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(host), options);
}

}  // namespace llmtrain
