// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/comm/device_layer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "parallel/comm/backend.h"
#include "parallel/runtime/torch_staging.h"
#include "tests/emulator/device/runtime.h"
#include "tests/emulator/torch/backend.h"

namespace llmtrain::test {
namespace {

// As many as the largest test has ranks with a device each, before anything asks.
[[maybe_unused]] const int devices = emulated::settings().devices = 4;

// A range of the host's memory that an operation reads or writes.
struct Range {
  std::byte* begin = nullptr;
  std::int64_t bytes = 0;

  std::byte* end() const { return begin + bytes; }
  bool meets(const Range& other) const { return begin < other.end() && other.begin < end(); }
};

Range range_of(const void* memory, std::int64_t elements, ElementType type) {
  return {static_cast<std::byte*>(const_cast<void*>(memory)), elements * element_size(type)};
}

Range input_of(const Request& request) {
  std::int64_t elements = request.count;
  if (request.collective == Collective::reduce_scatter) elements *= request.group.size();
  if (request.collective == Collective::all_to_all)
    elements = std::reduce(request.input_counts.begin(), request.input_counts.end());
  return request.input == nullptr ? Range{} : range_of(request.input, elements, request.type);
}

Range output_of(const Request& request) {
  std::int64_t elements = request.count;
  if (request.collective == Collective::all_gather) elements *= request.group.size();
  if (request.collective == Collective::all_to_all)
    elements = std::reduce(request.output_counts.begin(), request.output_counts.end());
  return request.output == nullptr ? Range{} : range_of(request.output, elements, request.type);
}

// Memory of the device with the contents of a range of the host's.
class Twin {
 public:
  Twin(const Range& host, const c10::Device& device)
      : host_(host), device_(at::empty({host.bytes}, at::TensorOptions(at::kByte).device(device))) {
    if (host.bytes > 0) device_.copy_(on_host(host));
  }

  void* place_of(const void* memory) const {
    return static_cast<std::byte*>(device_.data_ptr()) + (static_cast<const std::byte*>(memory) - host_.begin);
  }
  // Blocks.
  void copy_back(const Range& range) const {
    if (range.bytes > 0) on_host(range).copy_(device_.narrow(0, range.begin - host_.begin, range.bytes));
  }

 private:
  static at::Tensor on_host(const Range& range) { return at::from_blob(range.begin, {range.bytes}, at::kByte); }

  Range host_;
  at::Tensor device_;
};

struct DeviceOperation : PendingOperation {
  using PendingOperation::PendingOperation;

  bool done() override { return inner->done(); }
  void wait() override {
    inner->wait();
    output->copy_back(written);
  }
  void withdraw() noexcept override { inner->withdraw(); }

  std::shared_ptr<PendingOperation> inner;
  std::shared_ptr<Twin> input, output;  // the same where the ranges meet
  Range written;
};

// Its host is the group of collectives.
struct DeviceGroup : LayerGroup {
  using LayerGroup::LayerGroup;
  Group messages_on, messages_back;
};

class DeviceLayer : public LayeredCommunicator {
 public:
  DeviceLayer(std::shared_ptr<Communicator> inner, const c10::Device& device, std::function<bool(const Request&)> asked)
      : LayeredCommunicator(std::move(inner)), device_(device), is_device_(std::move(asked)) {
    set_world(Group(join_group("world", host()->world().ranks(), host()->rank(), GroupUse::collectives)));
  }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    const bool is_for_messages = use == GroupUse::messages_on || use == GroupUse::messages_back;
    auto group =
        std::make_shared<DeviceGroup>(host()->make_group(name, ranks, is_for_messages ? GroupUse::collectives : use));
    group->messages_on = host()->make_group(name, ranks, GroupUse::messages_on);
    group->messages_back = host()->make_group(name, std::move(ranks), GroupUse::messages_back);
    return group;
  }

  // Neighbours' messages go where NCCL has connected them.
  static Group group_for(const Request& request) {
    const auto& group = static_cast<DeviceGroup&>(request.group.state());
    if (!request.is_message()) return group.host;
    const int size = group.host.size();
    const bool is_send = request.collective == Collective::send;
    const int from = is_send ? group.position : request.peer, to = is_send ? request.peer : group.position;
    if ((from + 1) % size == to) return group.messages_on;
    return (to + 1) % size == from ? group.messages_back : group.host;
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    const Group group = group_for(request);
    const bool has_data = request.input != nullptr || request.output != nullptr;
    if (!has_data || !is_device_(request)) {
      request.group = group;
      return start_on(*host(), std::move(request));
    }
    const Range in = input_of(request), out = output_of(request);
    const Range all{std::min(in.begin, out.begin), std::max(in.end(), out.end()) - std::min(in.begin, out.begin)};
    auto input = std::make_shared<Twin>(in.meets(out) ? all : in, device_);
    auto output = in.meets(out) ? input : std::make_shared<Twin>(out, device_);
    if (request.input != nullptr) request.input = input->place_of(request.input);
    if (request.output != nullptr) request.output = output->place_of(request.output);
    request.memory = Memory::device;
    request.group = group;
    auto inner = start_on(*host(), std::move(request));
    auto operation = std::make_shared<DeviceOperation>(shared_log(), inner->entry());
    operation->inner = std::move(inner);
    operation->input = std::move(input);
    operation->output = std::move(output);
    operation->written = out;
    return operation;
  }

  c10::Device device_;
  std::function<bool(const Request&)> is_device_;
};

}  // namespace

std::shared_ptr<Communicator> on_emulated_device(std::shared_ptr<Communicator> host, const ConnectDevice& connect,
                                                 std::function<bool(const Request&)> is_device) {
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(host->rank()));
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  return std::make_shared<DeviceLayer>(connect(std::move(host), device), device, std::move(is_device));
}

std::shared_ptr<Communicator> staged_on_emulated_device(std::shared_ptr<Communicator> host, const c10::Device& device) {
  return stage_through_host(std::move(host), make_torch_staging(device));
}

}  // namespace llmtrain::test
