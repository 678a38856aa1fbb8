// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_communicator.h"

#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "parallel/comm/nccl/nccl_calls.h"

namespace llmtrain {

struct NcclGroup : LayerGroup {
  using LayerGroup::LayerGroup;

  std::shared_ptr<NcclLink> link;                                     // of all members, for collectives
  std::map<std::pair<int, int>, std::shared_ptr<NcclLink>> messages;  // of neighbours, by sender and receiver
};

namespace {

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
    if (const std::optional<Failure> failure = host_->failure()) raise_failure(*failure, host_->rank());
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

// The link for an operation; null if it does not go over NCCL: host memory, control exchanges, and operations for which
// the group has no connection.
NcclLink* link_of(const Request& request) {
  if (request.memory == Memory::host || request.purpose == Purpose::control) return nullptr;
  const auto& group = static_cast<NcclGroup&>(request.group.state());
  const bool is_send = request.collective == Collective::send;
  if (!is_send && request.collective != Collective::receive) return group.link.get();
  const auto place =
      group.messages.find(is_send ? std::pair{group.position, request.peer} : std::pair{request.peer, group.position});
  return place == group.messages.end() ? nullptr : place->second.get();
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<Communicator> host, const NcclOptions& options)
    : LayeredCommunicator(std::move(host)),
      options_(options),
      watch_(this->host(), shared_log(), options.watchdog_seconds, checked_device(options.device)) {
  set_world(Group(std::make_shared<NcclGroup>(this->host()->world())));
}

std::shared_ptr<Group::State> NcclCommunicator::join_group(const std::string& name, std::vector<int> ranks,
                                                           int position, GroupUse use) {
  auto group = std::make_shared<NcclGroup>(host()->make_group(name, std::move(ranks), use));
  const int size = group->host.size();
  // A group of one needs no connection: its collectives complete immediately.
  if (size == 1) return group;
  if (use == GroupUse::collectives) group->link = connect(share_id(*host(), group->host), size, position);
  if (use == GroupUse::messages) connect_neighbours(*group);
  return group;
}

std::shared_ptr<NcclLink> NcclCommunicator::connect(const ncclUniqueId& id, int size, int position) {
  auto link = std::make_shared<NcclLink>(id, size, position, NcclPatience{host(), options_.watchdog_seconds});
  watch_.add(link);
  return link;
}

void NcclCommunicator::connect_neighbours(NcclGroup& group) {
  for (const auto& [from, to] : neighbour_pairs(group.host.size())) {
    if (from == group.position || to == group.position) group.messages[{from, to}] = connect_pair(group, from, to);
  }
}

std::shared_ptr<NcclLink> NcclCommunicator::connect_pair(const NcclGroup& group, int from, int to) {
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

std::shared_ptr<PendingOperation> NcclCommunicator::start(Request request) {
  NcclLink* const link = link_of(request);
  if (link == nullptr) return start_on(*host(), host_request(std::move(request)));
  raise_if_failed();
  auto work = std::make_shared<NcclWork>();
  // Work pending on the compute stream may still write the input, or read what the output's memory held before.
  work->begin.record(static_cast<cudaStream_t>(options_.compute_stream()));
  check_cuda(cudaStreamWaitEvent(link->stream(), work->begin.get(), 0), "wait for the input");
  work->entry = shared_log()->start(request);
  work->description = request.description();
  enqueue(request, *link);
  // Marks completion on the link's stream: wait() makes the compute stream wait for it.
  work->end.record(link->stream());
  watch_.add(work);
  return std::make_shared<NcclOperation>(shared_log(), std::move(work), host(), options_.compute_stream);
}

std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(host), options);
}

}  // namespace llmtrain
