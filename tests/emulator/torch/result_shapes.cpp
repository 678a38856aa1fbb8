// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/result_shapes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <mutex>
#include <set>

#include "tests/emulator/torch/seen_tensor.h"

namespace emulated {
namespace {

at::Tensor meta_of(const at::Tensor& t) {
  if (!is_on_device(t)) return t;
  return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()).device(at::kMeta));
}

at::Tensor zeros_of(const at::Tensor& t) {
  if (!is_on_device(t)) return t;
  return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(t.scalar_type())).zero_();
}

template <class Function>
Values all_mapped(const Values& values, const Function& function) {
  Values made;
  for (const c10::IValue& value : values) made.push_back(mapped(value, function));
  return made;
}

// Exceptions are slow, because LibTorch writes a backtrace into each: who threw one is not asked again.
class WithoutMeta {
 public:
  bool contains(const c10::OperatorName& name) {
    const std::lock_guard lock(mutex_);
    return names_.count(c10::toString(name)) > 0;
  }
  void add(const c10::OperatorName& name) {
    const std::lock_guard lock(mutex_);
    names_.insert(c10::toString(name));
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

}  // namespace

bool depends_on_data(const std::string& name, const Values& arguments) {
  static const std::set<std::string> names{
      "aten::nonzero", "aten::masked_select", "aten::bincount",           "aten::_unique2",
      "aten::equal",   "aten::unique_dim",    "aten::unique_consecutive", "aten::repeat_interleave"};
  if (names.count(name) > 0) return true;
  if (name != "aten::index") return false;
  bool has_mask = false;
  each_tensor(arguments[1],
              [&](const at::Tensor& t) { has_mask |= t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; });
  return has_mask;
}

Values call(const c10::OperatorHandle& op, Values arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  // LibTorch drops the arguments of an operator that returns several of them, as sort's out-variants do, before it
  // copies its references to them: they must have another owner until then.
  const Values owned = arguments;
  op.callBoxed(arguments);
  return arguments;
}

ResultShapes shapes_of(const c10::OperatorHandle& op, const Values& arguments) {
  static WithoutMeta without_meta;
  if (!without_meta.contains(op.operator_name())) {
    try {
      return {call(op, all_mapped(arguments, meta_of)), "meta"};
    } catch (const c10::NotImplementedError&) {
      without_meta.add(op.operator_name());
    }
  }
  return {call(op, all_mapped(arguments, zeros_of)), "dry run"};
}

}  // namespace emulated
