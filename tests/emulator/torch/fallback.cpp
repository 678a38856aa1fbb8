// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/fallback.h"

#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "tests/emulator/torch/generator.h"
#include "tests/emulator/torch/result_shapes.h"
#include "tests/emulator/torch/seen_tensor.h"

namespace emulated {
namespace {

using c10::IValue;

// One call of an operator, from its arguments to its results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Values arguments)
      : op_(op), schema_(op.schema()), name_(schema_.name()), arguments_(std::move(arguments)) {}

  Values run() {
    find_device();
    check_devices();
    take_generator();
    read_scalars();
    const bool waits = depends_on_data(name_, arguments_);
    make_results(waits);
    if (is_measurement()) return results_;
    if (waits)
      run_and_wait();
    else
      run_later();
    return results_;
  }

 private:
  using Function = std::function<Values()>;

  bool is_write(std::size_t argument) const {
    const auto* alias = schema_.arguments()[argument].alias_info();
    return alias != nullptr && alias->isWrite();
  }
  bool is_empty_output(std::size_t argument) const {
    return schema_.arguments()[argument].kwarg_only() && arguments_[argument].isTensor() &&
           arguments_[argument].toTensor().numel() == 0;
  }
  const ResultShapes& shapes() {
    if (!shapes_) shapes_ = shapes_of(op_, seen_);
    return *shapes_;
  }

  void find_device();
  void check_devices();
  void take_generator();
  void read_scalars();
  at::Tensor empty_like(const at::Tensor& shape) const;
  void make_results(bool waits);
  std::optional<IValue> written_result(std::size_t result);
  bool is_measurement() const;
  Function function() const;
  void run_and_wait();
  void run_later();
  void note(const std::string& way) const { count("operators", c10::toString(op_.operator_name()) + " (" + way + ")"); }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  const std::string& name_;
  Values arguments_;
  Values seen_;  // the same with copies of tensors of the host
  std::optional<c10::Device> device_;
  std::vector<Access> accesses_;
  std::optional<ResultShapes> shapes_;
  Values results_;
  Values fresh_;  // those of them that are new: the stream copies there what the CPU's kernel returns
};

void Call::find_device() {
  for (const IValue& value : arguments_)
    each_tensor(value, [&](const at::Tensor& t) {
      if (is_on_device(t) && !device_) device_ = t.device();
    });
  TORCH_CHECK(device_, name_, " has no tensor on the device: it needs a kernel of its own");
}

void Call::check_devices() {
  const bool takes_host_indices =
      name_ == "aten::index" || name_ == "aten::index_put_" || name_ == "aten::_index_put_impl_";
  for (IValue& value : arguments_) {
    value = mapped(value, [&](const at::Tensor& t) {
      if (!t.defined() || t.device() == *device_ || (t.is_cpu() && t.dim() == 0)) return t;
      if (t.is_cpu() && takes_host_indices) return t.to(*device_);  // a hidden, blocking copy, as on CUDA
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device_,
                  " and ", t.device(), "! (", name_, ")");
    });
  }
}

void Call::take_generator() {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (schema_.arguments()[i].name() != "generator") continue;
    at::Generator generator = default_generator(device_->index());
    if (arguments_[i].isGenerator() && arguments_[i].toGenerator().defined()) generator = arguments_[i].toGenerator();
    TORCH_CHECK(generator.device().type() == device_type, "Expected a 'cuda' device type for generator but found '",
                generator.device().type(), "' (", name_, ")");
    arguments_[i] = take_for_launch(generator);
  }
}

// A launch takes the values that scalars on the host have now.
void Call::read_scalars() {
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    seen_.push_back(mapped(arguments_[i], [&](const at::Tensor& t) {
      if (is_on_device(t)) {
        if (!(is_write(i) && is_empty_output(i))) accesses_.push_back(access_of(t, is_write(i)));
        return t;
      }
      if (!t.defined()) return t;
      at::Tensor copy = uncounted_copy(t);
      copy.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
      return copy;
    }));
}

at::Tensor Call::empty_like(const at::Tensor& shape) const {
  if (!shape.defined() || is_on_device(shape)) return shape;
  return at::empty_strided(shape.sizes(), shape.strides(), at::TensorOptions(shape.scalar_type()).device(*device_));
}

void Call::make_results(bool waits) {
  for (std::size_t i = 0; i < schema_.returns().size(); ++i) {
    if (schema_.returns()[i].alias_info() != nullptr) {
      if (const auto written = written_result(i)) results_.push_back(*written);
    } else if (!waits) {
      const IValue& shape = shapes().results[i];
      TORCH_CHECK(shape.isTensor() || shape.isTensorList(), name_, " returns a value to the host");
      results_.push_back(mapped(shape, [&](const at::Tensor& t) { return empty_like(t); }));
      fresh_.push_back(results_.back());
      each_tensor(results_.back(), [&](const at::Tensor& t) { accesses_.push_back(access_of(t, true)); });
    }
  }
}

// The argument that the operator writes and returns.
std::optional<IValue> Call::written_result(std::size_t result) {
  const auto* alias = schema_.returns()[result].alias_info();
  TORCH_CHECK(alias->isWrite(), name_, " makes a view: it needs a kernel of its own");
  for (std::size_t a = 0; a < arguments_.size(); ++a) {
    const auto* of = schema_.arguments()[a].alias_info();
    if (of == nullptr || of->beforeSets() != alias->beforeSets()) continue;
    if (is_empty_output(a)) {
      const at::Tensor& output = arguments_[a].toTensor();
      output.resize_(shapes().results[result].toTensor().sizes());
      accesses_.push_back(access_of(output, true));
    }
    return arguments_[a];
  }
  return std::nullopt;
}

// The program measures its device with a product of 1.1e12 FLOP, which takes a processor half a minute: left out.
bool Call::is_measurement() const {
  return name_ == "aten::mm" && arguments_[0].toTensor().numel() >= std::int64_t{1} << 26;
}

// Calls the CPU's kernel; for the stream's thread. Holds descriptions of device tensors without their memory.
Call::Function Call::function() const {
  struct Argument {
    IValue value;
    std::vector<std::optional<SeenTensor>> tensors;  // of the value's, in order; those of the device
  };
  std::vector<Argument> sent;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    Argument argument;
    const bool is_device_tensor = arguments_[i].isTensor() && is_on_device(arguments_[i].toTensor());
    argument.value = mapped(is_device_tensor ? arguments_[i] : seen_[i], [&](const at::Tensor& t) {
      argument.tensors.push_back(is_on_device(t) ? std::optional(SeenTensor(t)) : std::nullopt);
      return is_on_device(t) ? at::Tensor() : t;
    });
    sent.push_back(std::move(argument));
  }
  return [op = op_, sent = std::move(sent)] {
    set_up_stream_thread();
    Values own;
    for (const Argument& argument : sent) {
      std::size_t next = 0;
      own.push_back(mapped(argument.value, [&](const at::Tensor& t) {
        const std::optional<SeenTensor>& seen = argument.tensors[next++];
        return seen ? seen->on_host() : t;
      }));
    }
    return call(op, std::move(own));
  };
}

void Call::run_and_wait() {
  note("host");
  auto kept = std::make_shared<Values>();
  enqueue(current_stream(device_->index()),
          {name_, accesses_, [kept, run = function()] {
             for (const IValue& value : run())
               kept->push_back(mapped(value, [](const at::Tensor& t) { return t.defined() ? uncounted_copy(t) : t; }));
           }});
  synchronize(current_stream(device_->index()), name_);
  for (const IValue& value : *kept)
    results_.push_back(mapped(value, [&](const at::Tensor& t) {
      const at::Tensor there = empty_like(t);
      on_stream(name_ + "'s result", {}, {there}, [t](const auto&, const auto& outputs) { outputs[0].copy_(t); });
      return there;
    }));
}

void Call::run_later() {
  note(fresh_.empty() ? "written" : shapes_->way);
  std::vector<std::optional<SeenTensor>> places;
  for (const IValue& value : fresh_)
    mapped(value, [&](const at::Tensor& t) {
      places.push_back(t.defined() ? std::optional(SeenTensor(t)) : std::nullopt);
      return t;
    });
  const auto keep_results = [places = std::move(places), name = name_](const Values& made) {
    std::size_t next = 0;
    for (std::size_t i = 0; next < places.size(); ++i)
      mapped(made[i], [&](const at::Tensor& t) {
        const std::optional<SeenTensor>& place = places[next++];
        TORCH_CHECK(!place == !t.defined() && (!place || t.sizes().equals(place->sizes())), name,
                    ": the result's size is not the one foreseen");
        if (place) place->on_host().copy_(t);
        return t;
      });
  };
  enqueue(current_stream(device_->index()),
          {name_, std::move(accesses_), [run = function(), keep_results] { keep_results(run()); }});
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  Call call(op, Values(first, stack->end()));
  stack->erase(first, stack->end());
  for (IValue& value : call.run()) stack->push_back(std::move(value));
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace emulated
