// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/fault_point.h"

namespace llmtrain {
namespace {

// Misuse is an internal error: recipes cannot cause it.
[[noreturn]] void refuse(const Request& request, const std::string& reason) {
  throw Error(ExitCode::internal_error, request.description() + ": " + reason);
}

// Checked here once, so that backends can rely on it.
void check_same_kind(const Request& request, const ConstArray& input, const ConstArray& output) {
  if (input.type != output.type) {
    refuse(request, "the output has type " + std::string(element_name(output.type)) +
                        "; input and output must have the same type");
  }
  if (input.memory != output.memory)
    refuse(request, "input and output must both be in host memory or both in device memory");
}

void check_count(const Request& request, std::int64_t actual, std::int64_t expected, const char* what) {
  if (actual == expected) return;
  refuse(request,
         std::string(what) + " has " + std::to_string(actual) + " elements; it must have " + std::to_string(expected));
}

void set_peer(Request& request, int position) {
  request.peer = position;
  if (position < 0 || position >= request.group.size())
    refuse(request, "there is no position " + std::to_string(position) + "; the group has 0 to " +
                        std::to_string(request.group.size() - 1));
}

Request make_request(Collective collective, const Group& group, Purpose purpose, const ConstArray& array,
                     void* output = nullptr) {
  if (!group.is_valid()) throw Error(ExitCode::internal_error, "an operation needs a group: call make_group first");
  Request request;
  request.collective = collective;
  request.purpose = purpose;
  request.group = group;
  request.type = array.type;
  request.memory = array.memory;
  request.input = array.data;
  request.output = output;
  request.count = array.count;
  return request;
}

void check_counts(const Request& request, std::span<const std::int64_t> counts, const ConstArray& array,
                  const char* what) {
  if (counts.size() != static_cast<std::size_t>(request.group.size()))
    throw Error(ExitCode::internal_error,
                std::string("all_to_all_v: ") + what + " counts: there must be one per position");
  if (std::ranges::any_of(counts, [](std::int64_t count) { return count < 0; }))
    throw Error(ExitCode::internal_error, std::string("all_to_all_v: ") + what + " counts must not be negative");
  check_count(request, array.count, std::reduce(counts.begin(), counts.end()), what);
}

}  // namespace

std::shared_ptr<PendingOperation> Communicator::start_on(Communicator& other, Request request) {
  return other.start(std::move(request));
}

Group Communicator::make_group(const std::string& name, std::vector<int> ranks, GroupUse use) {
  const auto place = std::ranges::find(ranks, rank_);
  const bool is_distinct = std::set<int>(ranks.begin(), ranks.end()).size() == ranks.size();
  const bool is_in_world = std::ranges::all_of(ranks, [&](int rank) { return rank >= 0 && rank < size_; });
  if (place == ranks.end() || !is_distinct || !is_in_world) {
    throw Error(ExitCode::internal_error, "group " + name + ": its ranks must be distinct, below " +
                                              std::to_string(size_) + ", with rank " + std::to_string(rank_) +
                                              " among them");
  }
  const int position = static_cast<int>(place - ranks.begin());
  return Group(join_group(name, std::move(ranks), position, use));
}

// A collective of one rank completes immediately, without a backend, unless it copies between two places of a GPU's
// memory.
Handle Communicator::begin(Request request) {
  fault_point(FaultPlace::collective, rank_, log_->step());
  // Messages need a backend even in a group of one, where they are an error.
  const bool is_in_place = request.output == nullptr || request.output == request.input;
  const bool is_here = is_in_place || request.memory == Memory::host;
  // After a failure even a group of one asks the backend, which throws it, so that no rank trains on alone.
  if (request.group.size() > 1 || request.is_message() || !is_here || failure())
    return Handle(start(std::move(request)));
  const OperationLog::Entry entry = log_->start(request);
  const std::int64_t bytes = is_in_place ? 0 : request.bytes();
  if (bytes > 0) std::memmove(request.output, request.input, static_cast<std::size_t>(bytes));
  // Logged like any other operation, so that the log has every call.
  log_->finish(entry, Clock::now());
  return {};
}

Handle Communicator::all_reduce(const Group& group, Purpose purpose, Array data, Reduction reduction) {
  Request request = make_request(Collective::all_reduce, group, purpose, data, data.data);
  request.reduction = reduction;
  return begin(std::move(request));
}

Handle Communicator::all_gather(const Group& group, Purpose purpose, ConstArray input, Array output) {
  Request request = make_request(Collective::all_gather, group, purpose, input, output.data);
  check_same_kind(request, input, output);
  check_count(request, output.count, input.count * group.size(), "the output");
  return begin(std::move(request));
}

Handle Communicator::reduce_scatter(const Group& group, Purpose purpose, ConstArray input, Array output,
                                    Reduction reduction) {
  Request request = make_request(Collective::reduce_scatter, group, purpose, input, output.data);
  // count is one rank's part, here that of the output.
  request.count = output.count;
  check_same_kind(request, input, output);
  check_count(request, input.count, output.count * group.size(), "the input");
  request.reduction = reduction;
  return begin(std::move(request));
}

Handle Communicator::all_to_all(const Group& group, Purpose purpose, ConstArray input, Array output) {
  if (!group.is_valid()) throw Error(ExitCode::internal_error, "an operation needs a group: call make_group first");
  // A size that the group does not divide fails in check_counts().
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), input.count / group.size());
  return all_to_all_v(group, purpose, input, output, {counts, counts});
}

Handle Communicator::all_to_all_v(const Group& group, Purpose purpose, ConstArray input, Array output,
                                  const AllToAllCounts& counts) {
  Request request = make_request(Collective::all_to_all, group, purpose, input, output.data);
  request.input_counts.assign(counts.input.begin(), counts.input.end());
  request.output_counts.assign(counts.output.begin(), counts.output.end());
  check_same_kind(request, input, output);
  check_counts(request, counts.input, input, "the input");
  check_counts(request, counts.output, output, "the output");
  return begin(std::move(request));
}

Handle Communicator::broadcast(const Group& group, Purpose purpose, Array data, int root) {
  Request request = make_request(Collective::broadcast, group, purpose, data, data.data);
  set_peer(request, root);
  return begin(std::move(request));
}

Handle Communicator::send(const Group& group, Purpose purpose, ConstArray data, int position) {
  Request request = make_request(Collective::send, group, purpose, data);
  set_peer(request, position);
  return begin(std::move(request));
}

Handle Communicator::receive(const Group& group, Purpose purpose, Array data, int position) {
  Request request = make_request(Collective::receive, group, purpose, data, data.data);
  set_peer(request, position);
  return begin(std::move(request));
}

Handle Communicator::barrier(const Group& group, Purpose purpose) {
  return begin(make_request(Collective::barrier, group, purpose, {}));
}

}  // namespace llmtrain
