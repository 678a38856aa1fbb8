// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain::kernels {

// The loops of kernels/vector work on CPU memory in fp32 or bf16; they see bf16 as its bits, std::uint16_t.
inline bool has_vector_type(const at::Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

inline bool is_vector_array(const at::Tensor& x) { return has_vector_type(x) && x.is_contiguous(); }

template <class Element>
const Element* elements(const at::Tensor& x) {
  return static_cast<const Element*>(x.const_data_ptr());
}

template <class Element>
Element* mutable_elements(const at::Tensor& x) {
  return static_cast<Element*>(x.mutable_data_ptr());
}

// Calls `body.template operator()<Element>()` for the element type of x, which has_vector_type().
template <class Body>
decltype(auto) with_element_of(const at::Tensor& x, Body body) {
  if (x.scalar_type() == at::kFloat) return body.template operator()<float>();
  return body.template operator()<std::uint16_t>();
}

}  // namespace llmtrain::kernels
