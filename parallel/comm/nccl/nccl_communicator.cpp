// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_communicator.h"

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "parallel/comm/nccl/nccl_calls.h"

namespace llmtrain {

struct NcclGroup : Group::State {
  NcclGroup(Group given_host, std::shared_ptr<NcclLink> given_link)
      : State(given_host.name(), given_host.ranks(), given_host.position()),
        host(std::move(given_host)),
        link(std::move(given_link)) {}

  Group host;
  std::shared_ptr<NcclLink> link;                                     // of all members
  std::map<std::pair<int, int>, std::shared_ptr<NcclLink>> messages;  // by sender and receiver
};

namespace {

ncclUniqueId share_id(Communicator& host, const Group& group) {
  ncclUniqueId id{};
  if (group.position() == 0) check_nccl(ncclGetUniqueId(&id), "make an id");
  host.broadcast(group, Purpose::control, {&id, sizeof id, ElementType::uint8}, 0).wait();
  return id;
}

// The pairs of neighbours around the group, sender first, in the one order in which all members connect.
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
    if (const std::optional<Failure> failure = host_->failure()) {
      const std::string origin = failure->rank == host_->rank() ? "" : "rank " + std::to_string(failure->rank) + ": ";
      throw Error(failure->code, origin + failure->message);
    }
    check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(compute_stream_()), work_->end.get(), 0), "wait");
  }

  // What is on a stream cannot be taken back: memory of the stream's own order is what keeps it safe.
  void withdraw() noexcept override {}

 private:
  std::shared_ptr<NcclWork> work_;
  std::shared_ptr<Communicator> host_;
  std::function<void*()> compute_stream_;
};

// A barrier of the host.
class HostOperation : public PendingOperation {
 public:
  HostOperation(std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry, Handle handle)
      : PendingOperation(std::move(log), entry), handle_(std::move(handle)) {}

  bool done() override { return handle_.done(); }
  void wait() override {
    handle_.wait();
    log().finish(entry(), Clock::now());
  }
  void withdraw() noexcept override {}

 private:
  Handle handle_;
};

int checked_device(int device) {
  check_cuda(cudaSetDevice(device), "use the device");
  return device;
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<Communicator> host, const NcclOptions& options)
    : Communicator(host->rank(), host->size()),
      host_(std::move(host)),
      options_(options),
      watch_(host_, shared_log(), options.watchdog_seconds, checked_device(options.device)) {
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  set_world(make_group("world", std::move(all)));
}

std::shared_ptr<Group::State> NcclCommunicator::join_group(const std::string& name, std::vector<int> ranks,
                                                           int position) {
  const Group group = host_->make_group(name, std::move(ranks));
  auto link = std::make_shared<NcclLink>(share_id(*host_, group), group.size(), position);
  watch_.add(link);
  return std::make_shared<NcclGroup>(group, std::move(link));
}

void NcclCommunicator::connect_neighbours(NcclGroup& group) {
  for (const auto& [from, to] : neighbour_pairs(group.host.size())) {
    if (from != to && (from == group.position || to == group.position))
      group.messages[{from, to}] = connect_pair(group, from, to);
  }
}

std::shared_ptr<NcclLink> NcclCommunicator::connect_pair(NcclGroup& group, int from, int to) {
  ncclUniqueId id{};
  const Array array{&id, sizeof id, ElementType::uint8};
  const bool is_sender = from == group.position;
  if (is_sender) {
    check_nccl(ncclGetUniqueId(&id), "make an id");
    host_->send(group.host, Purpose::control, array, to).wait();
  } else {
    host_->receive(group.host, Purpose::control, array, from).wait();
  }
  auto link = std::make_shared<NcclLink>(id, 2, is_sender ? 0 : 1);
  watch_.add(link);
  return link;
}

NcclLink& NcclCommunicator::link_of(const Request& request) {
  auto& group = static_cast<NcclGroup&>(request.group.state());
  const bool is_send = request.collective == Collective::send;
  if (!is_send && request.collective != Collective::receive) return *group.link;
  if (group.messages.empty()) connect_neighbours(group);
  const std::pair pair = is_send ? std::pair{group.position, request.peer} : std::pair{request.peer, group.position};
  const auto place = group.messages.find(pair);
  if (place == group.messages.end())
    throw Error(ExitCode::internal_error,
                request.description() + ": with NCCL messages go between neighbours in a group alone; make a group");
  return *place->second;
}

std::shared_ptr<PendingOperation> NcclCommunicator::start(Request request) {
  if (request.collective == Collective::barrier) {
    const Group& host_group = static_cast<NcclGroup&>(request.group.state()).host;
    const OperationLog::Entry entry = shared_log()->start(request);
    return std::make_shared<HostOperation>(shared_log(), entry, host_->barrier(host_group, request.purpose));
  }
  const NcclLink& link = link_of(request);
  auto work = std::make_shared<NcclWork>();
  // What the compute stream has yet to do may write the input.
  work->begin.record(static_cast<cudaStream_t>(options_.compute_stream()));
  check_cuda(cudaStreamWaitEvent(link.stream(), work->begin.get(), 0), "wait for the input");
  work->entry = shared_log()->start(request);
  work->description = request.description();
  enqueue(request, link);
  work->end.record(link.stream());
  watch_.add(work);
  return std::make_shared<NcclOperation>(shared_log(), std::move(work), host_, options_.compute_stream);
}

std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(host), options);
}

}  // namespace llmtrain
