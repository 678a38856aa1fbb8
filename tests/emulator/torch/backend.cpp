// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/StorageImpl.h>
#include <torch/library.h>

#include <limits>
#include <mutex>
#include <set>

namespace emulated {
namespace {

constexpr auto key = c10::DispatchKey::CUDA;

// --- memory -------------------------------------------------------------------------------------------------------

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const int device = current_device();
    void* memory = nullptr;
    try {
      memory = emulated::allocate(device, bytes);
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
    if (memory != nullptr) report(memory, static_cast<std::int64_t>(bytes), device);
    return {memory, memory, &remove, {device_type, static_cast<c10::DeviceIndex>(device)}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &remove; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, "copy_data of device memory"); }

 private:
  static void report(void* memory, std::int64_t bytes, int device) {
    const Counters& c = counters(device);
    c10::reportMemoryUsageToProfiler(memory, bytes, static_cast<std::size_t>(c.allocated),
                                     static_cast<std::size_t>(c.reserved),
                                     {device_type, static_cast<c10::DeviceIndex>(device)});
  }
  static void remove(void* memory) { emulated::release(memory); }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const memory = allocate_pinned(bytes);
    return {memory, memory, &release_pinned, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

DeviceAllocator device_allocator;
PinnedAllocator pinned_allocator;

// --- streams, events, devices -------------------------------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream wrap(Stream* s) {
    const c10::Device device(device_type, static_cast<c10::DeviceIndex>(device_of(s)));
    return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(id_of(s)));
  }
  // LibTorch's id 0 is every device's default stream.
  static Stream* unwrap(const c10::Stream& s) { return s.id() == 0 ? default_stream(s.device_index()) : find_stream(s.id()); }

  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device d) const override {
    return {device_type, static_cast<c10::DeviceIndex>(exchange_device(d.index() < 0 ? current_device() : d.index()))};
  }
  c10::Device getDevice() const override { return {device_type, static_cast<c10::DeviceIndex>(current_device())}; }
  void setDevice(c10::Device d) const override { exchangeDevice(d); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { exchangeDevice(d); }
  static int index(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }
  c10::Stream getStream(c10::Device d) const override { return wrap(current_stream(index(d))); }
  c10::Stream getDefaultStream(c10::Device d) const override { return wrap(default_stream(index(d))); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return wrap(new_stream(index(d))); }
  c10::Stream getNewStream(c10::Device d, int) const override { return wrap(new_stream(index(d))); }
  c10::Stream exchangeStream(c10::Stream s) const override { return wrap(exchange_stream(unwrap(s))); }
  void* getStreamNativeHandle(const c10::Stream s) const override { return unwrap(s); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(settings().devices); }
  bool queryStream(const c10::Stream& s) const override { return is_idle(unwrap(s)); }
  void synchronizeStream(const c10::Stream& s) const override { emulated::synchronize(unwrap(s), "a stream"); }
  void synchronizeDevice(const c10::DeviceIndex d) const override { emulated::synchronize_device(d, "the device"); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& s) const override {
    record_use(data.get(), unwrap(s));
  }

  using Event = MarkPointer;
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = emulated::record(unwrap(s));
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event != nullptr) emulated::wait(unwrap(s), *static_cast<Event*>(event));
  }
  bool queryEvent(void* event) const override { return event == nullptr || emulated::query(*static_cast<Event*>(event)); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) emulated::synchronize(*static_cast<Event*>(event), "an event");
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return 1e3 * (seconds_of(*static_cast<Event*>(to)) - seconds_of(*static_cast<Event*>(from)));
  }
};

// What LibTorch's CPU code asks of a device.
template <class Base>
struct HooksOf : Base {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(settings().devices); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  c10::Device getDeviceFromPtr(void* memory) const override {
    return {device_type, static_cast<c10::DeviceIndex>(device_of_memory(memory))};
  }
};

}  // namespace
}  // namespace emulated

namespace at {
// LibTorch looks its hooks up by this name, "CUDAHooks".
struct CUDAHooks final : emulated::HooksOf<at::CUDAHooksInterface> {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  bool hasCUDA() const override { return true; }
  DeviceIndex current_device() const override { return getCurrentDevice(); }
  int getNumGPUs() const override { return deviceCount(); }
  void deviceSynchronize(DeviceIndex d) const override { emulated::synchronize_device(d, "the device"); }
};
}  // namespace at

namespace emulated {
namespace {

struct PrivateHooks final : HooksOf<at::PrivateUse1HooksInterface> {};

// Before anything asks for hooks, which LibTorch then keeps.
const bool is_registered = [] {
  c10::SetAllocator(device_type, &device_allocator, 100);
  c10::impl::registerDeviceGuard(device_type, new Guard);
  if constexpr (device_type == c10::DeviceType::CUDA) {
    at::CUDAHooksRegistry()->Register(
        "CUDAHooks", [](at::CUDAHooksArgs arguments) -> std::unique_ptr<at::CUDAHooksInterface> {
          return std::make_unique<at::CUDAHooks>(arguments);
        });
  } else {
    c10::register_privateuse1_backend("emulated");
    at::RegisterPrivateUse1HooksInterface(new PrivateHooks);
  }
  return true;
}();

// --- tensors on streams -------------------------------------------------------------------------------------------

bool is_on_device(const at::Tensor& t) { return t.defined() && t.device().type() == device_type; }

// A device tensor as the stream's thread sees it. Like a launched kernel it keeps no memory alive.
struct Seen {
  void* data = nullptr;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;

  explicit Seen(const at::Tensor& t)
      : data(t.numel() == 0 ? nullptr : t.data_ptr()), sizes(t.sizes().vec()), strides(t.strides().vec()), type(t.scalar_type()) {}
  at::Tensor on_host() const {
    if (data == nullptr) return at::empty_strided(sizes, strides, type);
    return at::from_blob(reachable(data), sizes, strides, at::TensorOptions(type));
  }
  std::size_t bytes() const {
    std::int64_t last = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    return data == nullptr ? 0 : static_cast<std::size_t>(last) * c10::elementSize(type);
  }
};

Access access_of(const at::Tensor& t, bool is_write) {
  const Seen seen(t);
  return {seen.data, seen.bytes(), is_write};
}

void set_thread_up() {
  thread_local const bool is_set_up = [] {
    at::set_num_threads(1);  // per thread; more would take the processors from the other streams
    return true;
  }();
  (void)is_set_up;
}

std::mutex ways_mutex;
void note_way(const c10::OperatorName& name, const char* way) {
  const std::lock_guard lock(ways_mutex);
  ++operator_ways()[name.overload_name.empty() ? name.name : name.name + "." + name.overload_name][way];
}

// --- every operator without a kernel of its own -------------------------------------------------------------------

using c10::IValue;
using Values = std::vector<IValue>;

template <class Function>
IValue mapped(const IValue& value, const Function& function) {
  if (value.isTensor()) return function(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(function(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorList())
      list.push_back(t ? std::optional(function(*t)) : std::nullopt);
    return list;
  }
  return value;
}
template <class Function>
void each_tensor(const IValue& value, const Function& function) {
  mapped(value, [&](const at::Tensor& t) {
    if (t.defined()) function(t);
    return t;
  });
}

// Results with sizes that only the data tell: CUDA waits for them as well.
bool depends_on_data(const std::string& name, const Values& arguments) {
  static const std::set<std::string> names{"aten::nonzero",  "aten::masked_select", "aten::bincount", "aten::_unique2",
                                           "aten::equal",    "aten::unique_dim",    "aten::unique_consecutive",
                                           "aten::repeat_interleave"};
  if (names.count(name) > 0) return true;
  if (name != "aten::index") return false;
  bool has_mask = false;
  each_tensor(arguments[1], [&](const at::Tensor& t) { has_mask |= t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; });
  return has_mask;
}

Values call(const c10::OperatorHandle& op, Values arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  op.callBoxed(arguments);
  return arguments;
}

at::Tensor meta_of(const at::Tensor& t) {
  if (!is_on_device(t)) return t;
  return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()).device(at::kMeta));
}
at::Tensor zeros_of(const at::Tensor& t) {
  if (!is_on_device(t)) return t;
  return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type())).zero_();
}

// Sizes, strides and types of the results, from the meta kernel, else from the CPU's on zeros of the same shapes.
Values shapes_of(const c10::OperatorHandle& op, const Values& arguments, const char** way) {
  const auto all = [&](auto function) {
    Values made;
    for (const IValue& value : arguments) made.push_back(mapped(value, function));
    return made;
  };
  // Exceptions are slow: LibTorch writes a backtrace into each.
  static std::mutex mutex;
  static std::set<std::string> without_meta;
  const auto has_meta = [&] {
    const std::lock_guard lock(mutex);
    return without_meta.count(c10::toString(op.operator_name())) == 0;
  };
  if (has_meta()) {
    try {
      *way = "meta";
      return call(op, all(meta_of));
    } catch (const c10::NotImplementedError&) {
      const std::lock_guard lock(mutex);
      without_meta.insert(c10::toString(op.operator_name()));
    }
  }
  *way = "dry run";
  return call(op, all(zeros_of));
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  Values arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  stack->resize(stack->size() - count);
  const std::string& name = schema.name();

  std::optional<c10::Device> device;
  for (const IValue& value : arguments)
    each_tensor(value, [&](const at::Tensor& t) {
      if (is_on_device(t) && !device) device = t.device();
    });
  TORCH_CHECK(device, name, " has no tensor on the device: it needs a kernel of its own");
  const bool takes_host_indices = name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_";
  for (IValue& value : arguments)
    value = mapped(value, [&](const at::Tensor& t) {
      if (!t.defined() || t.device() == *device || (t.is_cpu() && t.dim() == 0)) return t;
      if (t.is_cpu() && takes_host_indices) return t.to(*device);  // a hidden, blocking copy, as on CUDA
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device,
                  " and ", t.device(), "! (", name, ")");
    });

  // Scalars on the CPU are read now, as they are by a launch.
  Values seen = arguments;
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    const bool is_write = alias != nullptr && alias->isWrite();
    seen[i] = mapped(arguments[i], [&](const at::Tensor& t) {
      if (is_on_device(t)) {
        if (is_write && schema.arguments()[i].kwarg_only() && t.numel() == 0) return t;
        accesses.push_back(access_of(t, is_write));
        return t;
      }
      if (!t.defined()) return t;
      at::Tensor copy = t.clone();
      copy.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
      return copy;
    });
  }
  Stream* const stream = current_stream(device->index());
  const auto to_device = [&](const at::Tensor& t) {
    if (!t.defined() || is_on_device(t)) return t;
    return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()).device(*device));
  };

  // What the call returns; `fresh` of them are new, and the stream copies the CPU's results there.
  Values results, fresh;
  const char* way = "written";
  const bool waits = depends_on_data(name, arguments);
  std::optional<Values> shapes;
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const auto* alias = schema.returns()[i].alias_info();
    if (alias == nullptr) {
      if (waits) continue;
      if (!shapes) shapes = shapes_of(op, seen, &way);
      TORCH_CHECK((*shapes)[i].isTensor() || (*shapes)[i].isTensorList(), name, " returns a value to the host");
      results.push_back(mapped((*shapes)[i], to_device));
      fresh.push_back(results.back());
      each_tensor(results.back(), [&](const at::Tensor& t) { accesses.push_back(access_of(t, true)); });
      continue;
    }
    TORCH_CHECK(alias->isWrite(), name, " makes a view: it needs a kernel of its own");
    for (std::size_t a = 0; a < count; ++a) {
      const auto* of = schema.arguments()[a].alias_info();
      if (of == nullptr || of->beforeSets() != alias->beforeSets()) continue;
      // An output that is still empty gets its size now.
      if (schema.arguments()[a].kwarg_only() && arguments[a].isTensor() && arguments[a].toTensor().numel() == 0) {
        const char* other = nullptr;
        if (!shapes) shapes = shapes_of(op, seen, &other);
        arguments[a].toTensor().resize_((*shapes)[i].toTensor().sizes());
        accesses.push_back(access_of(arguments[a].toTensor(), true));
      }
      results.push_back(arguments[a]);
      break;
    }
  }

  // The program measures its device with a product of 1.1e12 FLOP, which takes a processor half a minute: left out.
  if (name == "aten::mm" && arguments[0].toTensor().numel() >= std::int64_t{1} << 26) {
    for (IValue& value : results) stack->push_back(std::move(value));
    return;
  }

  // Descriptions of device tensors without their memory's ownership.
  struct Argument {
    IValue value;
    std::vector<std::optional<Seen>> tensors;
  };
  std::vector<Argument> sent;
  for (std::size_t i = 0; i < count; ++i) {
    Argument argument;
    const IValue& from = arguments[i].isTensor() && is_on_device(arguments[i].toTensor()) ? arguments[i] : seen[i];
    argument.value = mapped(from, [&](const at::Tensor& t) {
      argument.tensors.push_back(is_on_device(t) ? std::optional(Seen(t)) : std::nullopt);
      return is_on_device(t) ? at::Tensor() : t;
    });
    sent.push_back(std::move(argument));
  }
  const auto run = [op, sent = std::move(sent)] {
    set_thread_up();
    Values own;
    for (const Argument& argument : sent) {
      std::size_t next = 0;
      own.push_back(mapped(argument.value, [&](const at::Tensor& t) {
        const std::optional<Seen>& seen_tensor = argument.tensors[next++];
        return seen_tensor ? seen_tensor->on_host() : t;
      }));
    }
    return call(op, std::move(own));
  };

  if (waits) {
    note_way(op.operator_name(), "host");
    auto kept = std::make_shared<Values>();
    enqueue(stream, {name, accesses, [kept, run] { *kept = run(); }});
    synchronize(stream, name);
    for (const IValue& value : *kept)
      results.push_back(mapped(value, [&](const at::Tensor& t) {
        at::Tensor there = to_device(t);
        on_stream(name + "'s result", {}, {there}, [t](const auto&, const auto& outputs) { outputs[0].copy_(t); });
        return there;
      }));
  } else {
    note_way(op.operator_name(), way);
    std::vector<std::optional<Seen>> to;
    for (const IValue& value : fresh)
      mapped(value, [&](const at::Tensor& t) {
        to.push_back(t.defined() ? std::optional(Seen(t)) : std::nullopt);
        return t;
      });
    enqueue(stream, {name, std::move(accesses), [run, to = std::move(to), name] {
                       const Values own = run();
                       if (to.empty()) return;
                       std::size_t next = 0;
                       for (const IValue& value : own)
                         mapped(value, [&](const at::Tensor& t) {
                           const std::optional<Seen>& place = to[next++];
                           TORCH_CHECK(!place == !t.defined() && (!place || t.sizes().equals(place->sizes)), name,
                                       ": the result's size is not the one foreseen");
                           if (place) place->on_host().copy_(t);
                           return t;
                         });
                     }});
  }
  for (IValue& value : results) stack->push_back(std::move(value));
}

// --- operators with kernels of their own --------------------------------------------------------------------------

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device && device->index() >= 0) return *device;
  return {device_type, static_cast<c10::DeviceIndex>(current_device())};
}

// The allocator allocates on the current device.
struct OnDevice {
  explicit OnDevice(c10::Device d) : before(exchange_device(d.index())) {}
  ~OnDevice() { exchange_device(before); }
  int before;
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "only dense CPU tensors can be pinned");
  const OnDevice guard(device_or_current(device));
  return at::detail::empty_generic(size, &device_allocator, c10::DispatchKeySet(key), c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const OnDevice guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, &device_allocator, c10::DispatchKeySet(key), c10::dtype_or_default(type));
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  const OnDevice guard(self.device());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const std::size_t bytes = static_cast<std::size_t>(self.storage_offset() + self.numel()) * self.itemsize();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    TORCH_CHECK(storage->nbytes() == 0, "resize_ of device memory that holds data is not emulated");
    storage->set_data_ptr_noswap(device_allocator.allocate(bytes));
    storage->set_nbytes(bytes);
  }
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  ++counters(self.device().index()).item_reads;
  auto value = std::make_shared<at::Scalar>();
  on_stream("_local_scalar_dense", {self}, {}, [value](const auto& inputs, const auto&) {
    *value = at::_local_scalar_dense(inputs[0]);
  });
  emulated::synchronize(current_stream(self.device().index()), "item()");
  return *value;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::Tensor from = source.expand_as(self);
  if (self.numel() == 0) return self;
  const bool to_device = is_on_device(self), from_device = is_on_device(from);
  const c10::Device device = to_device ? self.device() : from.device();
  Stream* const stream = current_stream(device.index());
  Counters& c = counters(device.index());
  if (to_device && from_device) {
    if (self.device() != from.device()) {
      // As on CUDA: on the source's stream, which waits for the destination's and which that one waits for.
      Stream* const here = current_stream(from.device().index());
      emulated::wait(here, emulated::record(stream));
      enqueue(here, {"copy_ between devices", {access_of(from, false), access_of(self, true)},
                     [to = Seen(self), is = Seen(from)] { to.on_host().copy_(is.on_host()); }});
      emulated::wait(stream, emulated::record(here));
      return self;
    }
    on_stream("copy_", {from}, {self}, [](const auto& in, const auto& out) { out[0].copy_(in[0]); });
    return self;
  }
  const auto bytes = static_cast<std::int64_t>(self.numel() * self.itemsize());
  const at::Tensor& host = to_device ? from : self;
  const bool pinned = is_pinned(host.data_ptr());
  if (!pinned) ++c.pageable_copies;
  if (to_device) {
    c.bytes_to_device += bytes;
    // Pageable memory is staged by the driver before the call returns.
    const at::Tensor held = pinned ? at::Tensor() : from.clone();
    enqueue(stream, {"a copy to the device", {access_of(self, true), access_of(from, false)},
                     [held, to = Seen(self), is = Seen(from)] { to.on_host().copy_(held.defined() ? held : is.on_host()); }});
  } else {
    c.bytes_to_host += bytes;
    enqueue(stream, {"a copy to the host", {access_of(from, false), access_of(self, true)},
                     [to = Seen(self), is = Seen(from)] { to.on_host().copy_(is.on_host()); }});
  }
  if (!non_blocking || (!pinned && from_device))
    emulated::synchronize(stream, to_device ? "a blocking copy to the device" : "a blocking copy to the host");
  return self;
}
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  at::Tensor to = destination;
  return copy_(to, source, non_blocking);
}

void record_stream(at::Tensor& self, c10::Stream s) { record_use(self.storage().data(), Guard::unwrap(s)); }

// CUDA alone has these. Products in fp32, rounded once.
at::Tensor& mm_dtype_out(const at::Tensor& a, const at::Tensor& b, at::ScalarType, at::Tensor& out) {
  on_stream("mm.dtype", {a, b}, {out}, [](const auto& in, const auto& to) {
    to[0].copy_(at::mm(in[0].to(at::kFloat), in[1].to(at::kFloat)));
  });
  return out;
}
at::Tensor mm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return mm_dtype_out(a, b, type, out);
}
at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType,
                            const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  on_stream("addmm.dtype", {self, a, b}, {out}, [beta, alpha](const auto& in, const auto& to) {
    at::Tensor sum = at::mm(in[1].to(at::kFloat), in[2].to(at::kFloat)).mul_(alpha);
    if (beta.toDouble() != 0) sum.add_(in[0].to(at::kFloat), beta);
    to[0].copy_(sum);
  });
  return out;
}

// CUDA's softmax of 16-bit numbers may give fp32 at once, which ATen's CPU code asks of it by itself.
template <bool of_logarithm>
at::Tensor& softmax_out(const at::Tensor& self, std::int64_t dimension, bool to_float, at::Tensor& out) {
  on_stream("_softmax", {self}, {out}, [=](const auto& in, const auto& to) {
    const at::Tensor x = to_float ? in[0].to(at::kFloat) : in[0];
    to[0].copy_(of_logarithm ? at::_log_softmax(x, dimension, false) : at::_softmax(x, dimension, false));
  });
  return out;
}
template <bool of_logarithm>
at::Tensor& softmax_backward_out(const at::Tensor& dy, const at::Tensor& y, std::int64_t dimension, at::ScalarType type,
                                 at::Tensor& out) {
  on_stream("_softmax_backward_data", {dy, y}, {out}, [=](const auto& in, const auto& to) {
    const at::ScalarType own = in[0].scalar_type() == type ? type : at::kFloat;
    to[0].copy_(of_logarithm ? at::_log_softmax_backward_data(in[0], in[1], dimension, own)
                             : at::_softmax_backward_data(in[0], in[1], dimension, own));
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention(
    const at::Tensor& query, const at::Tensor& key_, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    bool, double dropout, bool is_causal, std::optional<double> scale) {
  TORCH_CHECK(!mask && dropout == 0, "not emulated");
  at::Tensor out = at::empty_like(query, query.options(), at::MemoryFormat::Contiguous);
  // CUDA's kernel pads these to whole blocks of 32.
  at::Tensor sums = at::empty({query.size(0), query.size(1), (query.size(2) + 31) / 32 * 32}, query.options().dtype(at::kFloat));
  on_stream("efficient attention", {query, key_, value}, {out, sums}, [=](const auto& in, const auto& to) {
    const auto [y, s] = at::_scaled_dot_product_flash_attention_for_cpu(in[0], in[1], in[2], 0, is_causal, std::nullopt, scale);
    to[0].copy_(y);
    to[1].fill_(std::numeric_limits<double>::infinity()).narrow(2, 0, s.size(2)).copy_(s);
  });
  return {out, sums, at::zeros({}, at::kLong), at::zeros({}, at::kLong)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention_backward(
    const at::Tensor& dy, const at::Tensor& query, const at::Tensor& key_, const at::Tensor& value, const at::Tensor&,
    const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&, double, std::array<bool, 4>,
    bool is_causal, std::optional<double> scale) {
  at::Tensor dq = at::empty_like(query), dk = at::empty_like(key_), dv = at::empty_like(value);
  on_stream("efficient attention's backward", {dy, query, key_, value, out, sums}, {dq, dk, dv},
            [=](const auto& in, const auto& to) {
              const auto [a, b, c] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
                  in[0], in[1], in[2], in[3], in[4], in[5].narrow(2, 0, in[1].size(2)), 0, is_causal, std::nullopt, scale);
              to[0].copy_(a);
              to[1].copy_(b);
              to[2].copy_(c);
            });
  return {dq, dk, dv, at::Tensor()};
}

}  // namespace

void on_stream(const std::string& name, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
               HostFunction function) {
  std::vector<Access> accesses;
  std::vector<Seen> in, out;
  for (const at::Tensor& t : inputs) in.emplace_back(t), accesses.push_back(access_of(t, false));
  for (const at::Tensor& t : outputs) out.emplace_back(t), accesses.push_back(access_of(t, true));
  const c10::Device device = (outputs.empty() ? inputs : outputs).front().device();
  enqueue(current_stream(device.index()), {name, std::move(accesses), [in, out, function = std::move(function)] {
                                             set_thread_up();
                                             const at::AutoDispatchBelowADInplaceOrView below;
                                             std::vector<at::Tensor> from, to;
                                             for (const Seen& s : in) from.push_back(s.on_host());
                                             for (const Seen& s : out) to.push_back(s.on_host());
                                             function(from, to);
                                           }});
}

std::map<std::string, std::map<std::string, int>>& operator_ways() {
  static auto* const instance = new std::map<std::string, std::map<std::string, int>>;
  return *instance;
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("view.dtype", at::native::view_dtype);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", resize_);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("record_stream", record_stream);
  m.impl("mm.dtype", mm_dtype);
  m.impl("mm.dtype_out", mm_dtype_out);
  m.impl("addmm.dtype_out", addmm_dtype_out);
  // Without a kernel of the device's own these would be taken apart into others; CUDA has one kernel for each.
  for (const char* name : {"native_layer_norm", "native_layer_norm_backward", "silu_backward", "_foreach_norm.Scalar",
                           "_foreach_mul_.Scalar", "_foreach_add_.List", "_foreach_sqrt"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  m.impl("_softmax.out", softmax_out<false>);
  m.impl("_log_softmax.out", softmax_out<true>);
  m.impl("_softmax_backward_data.out", softmax_backward_out<false>);
  m.impl("_log_softmax_backward_data.out", softmax_backward_out<true>);
  m.impl("_scaled_dot_product_efficient_attention", efficient_attention);
  m.impl("_scaled_dot_product_efficient_attention_backward", efficient_attention_backward);
}

}  // namespace emulated
