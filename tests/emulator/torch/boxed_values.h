// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

namespace emulated {

using Values = std::vector<c10::IValue>;  // an operator's arguments or results

// The value with function(t) in place of each tensor t in it. Tensors may be undefined.
template <class Function>
c10::IValue mapped(const c10::IValue& value, const Function& function) {
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
void each_tensor(const c10::IValue& value, const Function& function) {
  mapped(value, [&](const at::Tensor& t) {
    if (t.defined()) function(t);
    return t;
  });
}

}  // namespace emulated
