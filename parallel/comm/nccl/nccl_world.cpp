// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_world.h"

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/nccl/nccl_link.h"
#include "parallel/comm/nccl/nccl_watch.h"

namespace llmtrain {
namespace {

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

// The sender's and the receiver's position in each connection between neighbours in this direction, in an order that is
// the same on all members: connecting blocks, so any other could deadlock.
std::set<std::pair<int, int>> neighbour_pairs(int size, GroupUse use) {
  std::set<std::pair<int, int>> pairs;
  for (int position = 0; position < size; ++position) {
    const int next = (position + 1) % size;
    pairs.insert(use == GroupUse::messages_on ? std::pair{position, next} : std::pair{next, position});
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

  bool done() override { return host_->failure().has_value() || (work_->is_issued && work_->end.has_passed()); }

  void wait() override {
    raise_if_failed(*host_);
    if (!work_->is_issued)
      throw Error(ExitCode::internal_error, work_->operation.description() + ": is waited for before it is issued");
    work_->end.hold(static_cast<cudaStream_t>(compute_stream_()));
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

// An operation on its way to NCCL.
struct Issue {
  NcclLink* link;
  Request request;
  std::shared_ptr<NcclWork> work;
};

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
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    auto group = std::make_shared<NcclGroup>(host()->make_group(name, std::move(ranks), use));
    // A group of one needs no connection: its collectives complete immediately.
    if (group->host.size() == 1) return group;
    switch (use) {
      case GroupUse::collectives:
      case GroupUse::background:
        group->link = link_of_all(group->host, use);
        break;
      case GroupUse::messages_on:
      case GroupUse::messages_back:
        connect_neighbours(*group, use);
        break;
      case GroupUse::control:
        break;
    }
    return group;
  }

  // The members of a group start its collectives in one order, and what several groups of the same ranks start, these
  // ranks do in the order of the same program: groups can share a link. Kept until the end, so that whether there is
  // one already is the same on all members, whenever they drop their groups.
  std::shared_ptr<NcclLink> link_of_all(const Group& group, GroupUse use) {
    std::shared_ptr<NcclLink>& link = links_[{group.ranks(), use}];
    if (link == nullptr) {
      link = connect(share_id(*host(), group), {group.size(), group.position()}, NcclUse::collectives, stream_for(use));
    }
    return link;
  }

  // Collectives have one stream for each use. Ranks start them in an order in which each would also end if it waited at
  // once, so that operations in one queue never wait for each other.
  std::shared_ptr<CudaStream> stream_for(GroupUse use) {
    std::shared_ptr<CudaStream>& stream = streams_[use];
    if (stream == nullptr) stream = std::make_shared<CudaStream>();
    return stream;
  }

  std::shared_ptr<NcclLink> connect(const ncclUniqueId& id, NcclPlace place, NcclUse use,
                                    std::shared_ptr<CudaStream> stream) {
    auto link = std::make_shared<NcclLink>(id, place, use, std::move(stream), host(), options_.watchdog_seconds);
    watch_.add(link);
    log().add_connection(ConnectionKind::nccl);
    return link;
  }

  void connect_neighbours(NcclGroup& group, GroupUse use) {
    for (const auto& [from, to] : neighbour_pairs(group.host.size(), use)) {
      if (from == group.position || to == group.position) group.messages[{from, to}] = connect_pair(group, from, to);
    }
  }

  // With a stream of its own: sender and receiver order their messages differently.
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
    return connect(id, {2, is_sender ? 0 : 1}, NcclUse::messages, std::make_shared<CudaStream>());
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    NcclLink* const link = link_of(request);
    if (link == nullptr) return start_on(*host(), host_request(std::move(request)));
    raise_if_failed(*this);
    auto work = std::make_shared<NcclWork>(options_.watchdog_seconds);
    work->entry = shared_log()->start(request);
    work->operation = request.summary();
    const Issue one{link, std::move(request), work};
    if (together_ != nullptr) {
      together_->push_back(one);
    } else {
      issue({&one, 1});
    }
    return std::make_shared<NcclOperation>(shared_log(), std::move(work), host(), options_.compute_stream);
  }

  void issue_together(const std::function<void()>& start) override {
    std::vector<Issue> issues;
    together_ = &issues;
    try {
      start();
    } catch (...) {
      together_ = nullptr;
      throw;
    }
    together_ = nullptr;
    if (!issues.empty()) issue(issues);
  }

  void issue(std::span<const Issue> issues) {
    // Work pending on the compute stream may still write the inputs, or read what the outputs' memory held before.
    const auto begin = std::make_shared<CudaEvent>();
    begin->record(static_cast<cudaStream_t>(options_.compute_stream()));
    std::set<cudaStream_t> held;
    for (const Issue& each : issues) {
      each.work->begin = begin;
      if (held.insert(each.link->stream()).second) begin->hold(each.link->stream());
    }
    if (issues.size() == 1) {
      issues.front().link->enqueue(issues.front().request);
    } else {
      NcclTogether together;
      for (const Issue& each : issues) each.link->enqueue(each.request);
      together.end();
    }
    for (const Issue& each : issues) {
      // Marks completion on the link's stream: wait() makes the compute stream wait for it.
      each.work->end.record(each.link->stream());
      each.work->is_issued = true;
      watch_.add(each.work);
    }
  }

  NcclOptions options_;
  NcclWatch watch_;
  std::map<GroupUse, std::shared_ptr<CudaStream>> streams_;                           // of collectives
  std::map<std::pair<std::vector<int>, GroupUse>, std::shared_ptr<NcclLink>> links_;  // of collectives
  std::vector<Issue>* together_ = nullptr;  // what is to be issued as one; null: nothing waits
};

}  // namespace

std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(host), options);
}

}  // namespace llmtrain
