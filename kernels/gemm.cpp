// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "kernels/accumulation_type.h"
#include "kernels/cuda_operators/bias.h"
#include "kernels/onednn/matmul.h"
#include "kernels/separate_rows.h"
#include "kernels/vector/level.h"
#include "kernels/vector/products/separate_rows.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

bool is_onednn_type(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; }

MatmulElement matmul_element_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? MatmulElement::fp32 : MatmulElement::bf16;
}

// Both operands of one type: the kernels do not mix fp32 and bf16.
bool runs_in_onednn(const at::Tensor& left, const at::Tensor& right) {
  return left.is_cpu() && is_onednn_type(left.scalar_type()) && right.scalar_type() == left.scalar_type() &&
         has_onednn();
}

// Strides describe a transposed matrix without copying it.
MatmulOperand operand(const at::Tensor& matrix) { return {matrix.data_ptr(), matrix.stride(0), matrix.stride(1)}; }

// destination = or += left · right.
void multiply(const at::Tensor& left, const at::Tensor& right, const std::optional<at::Tensor>& bias,
              at::Tensor& destination, Accumulation accumulation, VaryingSize varying = VaryingSize::none) {
  MatmulProblem problem;
  problem.varying = varying;
  problem.m = left.size(0);
  problem.n = right.size(1);
  problem.k = left.size(1);
  problem.operand_element = matmul_element_of(left);
  problem.destination_element = matmul_element_of(destination);
  problem.accumulate = accumulation == Accumulation::add;
  problem.left = operand(left);
  problem.right = operand(right);
  problem.bias = bias ? bias->data_ptr() : nullptr;
  problem.destination = destination.data_ptr();
  problem.destination_row_stride = destination.stride(0);
  onednn_matmul(problem);
}

void store(at::Tensor& destination, const at::Tensor& value, Accumulation accumulation) {
  if (accumulation == Accumulation::add) {
    destination.add_(value);
  } else {
    destination.copy_(value);
  }
}

// The product in fp32 where 16-bit operands are summed into fp32 memory, so that it is not rounded to 16 bits before
// the addition.
at::Tensor reference_product(const at::Tensor& left, const at::Tensor& right, at::ScalarType destination) {
  if (destination != at::kFloat || left.scalar_type() == destination) return at::mm(left, right);
  return at::mm(left.to(destination), right.to(destination));
}

// cuBLAS writes and adds in the operands' type, or 16-bit operands' products in fp32.
bool runs_in_cublas(const at::Tensor& left, const at::Tensor& destination) {
  const at::ScalarType type = left.scalar_type();
  return left.is_cuda() && (destination.scalar_type() == type ||
                            (destination.scalar_type() == at::kFloat && (type == at::kHalf || type == at::kBFloat16)));
}

// LibTorch lets cuBLAS add the parts of a product that was split over its summed axis in 16 bits.
void sum_parts_in_fp32() {
  [[maybe_unused]] static const bool is_set = [] {
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    return true;
  }();
}

at::Tensor library_product(const at::Tensor& left, const at::Tensor& right, const std::optional<at::Tensor>& bias) {
  if (left.is_cuda()) sum_parts_in_fp32();
  return bias ? at::addmm(*bias, left, right) : at::mm(left, right);
}

// destination = or += left · right, with no memory for the product beside it.
void multiply_in_place(const at::Tensor& left, const at::Tensor& right, at::Tensor& destination,
                       Accumulation accumulation) {
  sum_parts_in_fp32();
  const bool same_type = destination.scalar_type() == left.scalar_type(), adds = accumulation == Accumulation::add;
  if (same_type && adds) {
    at::addmm_out(destination, destination, left, right);
  } else if (same_type) {
    at::mm_out(destination, left, right);
  } else if (adds) {
    at::addmm_out(destination, destination, left, right, at::kFloat);
  } else {
    at::mm_out(destination, left, right, at::kFloat);
  }
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dweight, Accumulation accumulation,
                     VaryingSize varying) {
  // oneDNN writes the operands' type or fp32; a gradient in another, narrower type is rounded by store().
  const bool narrowing = dweight.scalar_type() != at::kFloat && dweight.scalar_type() != dy.scalar_type();
  if (runs_in_onednn(dy, x) && is_onednn_type(dweight.scalar_type()) && !narrowing) {
    multiply(dy.t(), x, std::nullopt, dweight, accumulation, varying);
  } else if (runs_in_cublas(dy, dweight)) {
    multiply_in_place(dy.t(), x, dweight, accumulation);
  } else {
    store(dweight, reference_product(dy.t(), x, dweight.scalar_type()), accumulation);
  }
}

std::optional<at::Tensor> widened_bias(const std::optional<at::Tensor>& bias) {
  return bias ? std::optional(widened(*bias)) : std::nullopt;
}

bool has_rows_in_loop(const at::Tensor& x) { return has_vector_type(x) && x.stride(1) == 1; }

// What single tokens need: a pass over the weight, which is all that the product costs.
bool runs_row_by_row(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return (separates_rows() || x.size(0) == 1) && has_rows_in_loop(x) && is_vector_array(weight) &&
         weight.scalar_type() == x.scalar_type() &&
         (!bias || (is_vector_array(*bias) && bias->scalar_type() == x.scalar_type()));
}

void multiply_row_by_row(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                         const at::Tensor& y) {
  const at::Tensor packed = x.size(0) > 1 ? at::empty(x.sizes(), x.options().dtype(at::kFloat)) : at::Tensor();
  with_element_of(x, [&]<class Element> {
    const auto loop = vector::at_level([]<int level> { return vector::separate_rows_loop_for<level, Element>(); });
    loop({.x = elements<Element>(x),
          .weight = elements<Element>(weight),
          .bias = bias ? elements<Element>(*bias) : nullptr,
          .y = mutable_elements<Element>(y),
          .rows = x.size(0),
          .in = weight.size(1),
          .out = weight.size(0),
          .x_stride = x.stride(0),
          .y_stride = y.stride(0),
          .packed = packed.defined() ? packed.mutable_data_ptr<float>() : nullptr});
  });
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (is_widened(x)) return kernels::linear(widened(x), widened(weight), widened_bias(bias)).to(at::kHalf);
  const bool row_by_row = runs_row_by_row(x, weight, bias);
  if (!row_by_row && !runs_in_onednn(x, weight)) return library_product(x, weight.t(), bias);
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  if (row_by_row) {
    multiply_row_by_row(x, weight, bias, y);
    return y;
  }
  multiply(x, weight.t(), bias, y, Accumulation::overwrite);
  return y;
}

at::Tensor linear_backward_input(const at::Tensor& dy, const at::Tensor& weight) {
  if (is_widened(dy)) return linear_backward_input(widened(dy), widened(weight)).to(at::kHalf);
  if (!runs_in_onednn(dy, weight)) return library_product(dy, weight, std::nullopt);
  at::Tensor dx = at::empty({dy.size(0), weight.size(1)}, dy.options());
  multiply(dy, weight, std::nullopt, dx, Accumulation::overwrite);
  return dx;
}

void linear_backward_weight(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dweight, Accumulation accumulation) {
  if (is_widened(dy)) return weight_gradient(widened(dy), widened(x), dweight, accumulation, VaryingSize::none);
  weight_gradient(dy, x, dweight, accumulation, VaryingSize::none);
}

void group_linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::Tensor y) {
  if (x.size(0) == 0) return;
  if (separates_rows() && runs_row_by_row(x, weight, bias)) {
    multiply_row_by_row(x, weight, bias, y);
  } else if (runs_in_onednn(x, weight)) {
    multiply(x, weight.t(), bias, y, Accumulation::overwrite, VaryingSize::m);
  } else if (is_widened(x)) {
    y.copy_(kernels::linear(widened(x), widened(weight), widened_bias(bias)));
  } else {
    y.copy_(library_product(x, weight.t(), bias));
  }
}

void group_backward_input(const at::Tensor& dy, const at::Tensor& weight, at::Tensor dx, Accumulation accumulation) {
  if (dy.size(0) == 0) return;
  if (runs_in_onednn(dy, weight)) {
    multiply(dy, weight, std::nullopt, dx, accumulation, VaryingSize::m);
  } else if (is_widened(dy)) {
    store(dx, linear_backward_input(widened(dy), widened(weight)), accumulation);
  } else if (runs_in_cublas(dy, dx)) {
    multiply_in_place(dy, weight, dx, accumulation);
  } else {
    store(dx, at::mm(dy, weight), accumulation);
  }
}

void group_backward_weight(const at::Tensor& dy, const at::Tensor& x, at::Tensor dweight, Accumulation accumulation) {
  if (dy.size(0) > 0 && is_widened(dy))
    return weight_gradient(widened(dy), widened(x), dweight, accumulation, VaryingSize::k);
  if (dy.size(0) > 0) return weight_gradient(dy, x, dweight, accumulation, VaryingSize::k);
  if (accumulation == Accumulation::overwrite) dweight.zero_();
}

void linear_backward_bias(const at::Tensor& dy, at::Tensor& dbias, Accumulation accumulation) {
  if (has_cuda_backward_bias(dy, dbias)) return cuda_backward_bias(dy, dbias, accumulation);
  // A bf16 sum over many rows would stop growing once a row is below its last bit.
  store(dbias, at::sum(dy, {0}, false, accumulation_type(dy)), accumulation);
}

}  // namespace llmtrain::kernels
