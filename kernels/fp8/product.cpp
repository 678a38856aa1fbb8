// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "kernels/fp8/fp8_cuda.h"

namespace llmtrain::kernels {
namespace {

// What LibTorch asks of sides, in elements, and of addresses, in bytes.
constexpr std::int64_t alignment = 16;
static_assert(fp8_turned_rows == alignment);

std::int64_t aligned(std::int64_t size) { return (size + alignment - 1) / alignment * alignment; }

bool is_aligned(const at::Tensor& x) {
  return x.is_contiguous() && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % alignment == 0;
}

// Copies of payloads move bytes, whatever these mean: LibTorch has all operators for them. The byte 0 is the number 0.
at::Tensor bytes_of(const at::Tensor& payload) { return payload.view(at::kByte); }

// [rows, columns] with zeros up to a multiple of 16 columns, and of rows where these are the product's columns.
enum class Rows { any, aligned };
at::Tensor padded(const at::Tensor& payload, Rows rows) {
  const std::int64_t more_columns = aligned(payload.size(1)) - payload.size(1);
  const std::int64_t more_rows = rows == Rows::aligned ? aligned(payload.size(0)) - payload.size(0) : 0;
  if (more_columns == 0 && more_rows == 0) return is_aligned(payload) ? payload : payload.clone();
  return at::constant_pad_nd(bytes_of(payload), {0, more_columns, 0, more_rows}, 0).view(payload.scalar_type());
}

// [columns, rows], with zeros up to a multiple of 16 rows.
at::Tensor turned(const Fp8Matrix& matrix) {
  if (matrix.turned.defined()) return matrix.turned;
  const at::Tensor& payload = matrix.payload;
  const std::int64_t rows = aligned(payload.size(0));
  if (has_cuda_codes(payload)) return cuda_turned(payload, rows);
  const at::Tensor bytes = bytes_of(payload).t();
  if (rows == payload.size(0)) return bytes.contiguous().view(payload.scalar_type());
  const at::Tensor all = at::zeros({payload.size(1), rows}, bytes.options());
  all.narrow(1, 0, payload.size(0)).copy_(bytes);
  return all.view(payload.scalar_type());
}

// Fast sums keep about 14 bits of each addition in the tensor cores (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
// Activations stand that, as in Transformer Engine; gradients are sums of terms that nearly cancel, over all tokens of
// a micro-batch, which Transformer Engine and DeepSeek accumulate in full fp32.
enum class Sums { fast, exact };

// left [M, K] · rightᵀ, right [N, K], which is what the library calls a right operand that is stored by columns.
class Product {
 public:
  Product(const Fp8Matrix& left, const Fp8Matrix& right)
      : left_(padded(left.payload, Rows::any)),
        right_(padded(right.payload, Rows::aligned).t()),
        left_scale_(left.scale.reciprocal()),
        right_scale_(right.scale.reciprocal()) {
    // Between padded matrices the library would not see it.
    if (left.payload.size(1) != right.payload.size(1))
      throw Error(ExitCode::internal_error, "FP8 product: rows of " + std::to_string(left.payload.size(1)) + " and " +
                                                std::to_string(right.payload.size(1)) + " elements");
  }

  at::Tensor in(at::ScalarType type, Sums sums, const std::optional<at::Tensor>& bias) const {
    // What is wanted in fp32 is wanted exact.
    const bool is_fast = sums == Sums::fast && type != at::kFloat;
    return at::_scaled_mm(left_, right_, left_scale_, right_scale_, bias, std::nullopt, type, is_fast);
  }
  void into(at::Tensor& result) const {
    at::_scaled_mm_out(result, left_, right_, left_scale_, right_scale_, std::nullopt, std::nullopt,
                       result.scalar_type());
  }

 private:
  at::Tensor left_, right_, left_scale_, right_scale_;
};

// Without the columns that the right operand was padded by.
at::Tensor cut(at::Tensor y, std::int64_t columns) {
  return y.size(1) == columns ? y : y.narrow(1, 0, columns).contiguous();
}

// As long as the padded product's rows.
at::Tensor padded_bias(const at::Tensor& bias) {
  const std::int64_t more = aligned(bias.size(0)) - bias.size(0);
  if (more > 0) return at::constant_pad_nd(bias, {0, more}, 0);
  return is_aligned(bias) ? bias : bias.clone();
}

// LibTorch refuses the product on GPUs without units, and says so of no device before.
bool has_fp8_units(const at::Device& device) {
  const at::Tensor zeros = at::zeros({alignment, alignment}, at::dtype(at::kByte).device(device));
  const Fp8Matrix matrix{zeros.view(at::kFloat8_e4m3fn), at::ones({1}, at::dtype(at::kFloat).device(device))};
  try {
    Product(matrix, matrix).in(at::kBFloat16, Sums::fast, std::nullopt);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

}  // namespace

bool multiplies_fp8_on(const at::Device& device) {
  if (!device.is_cuda()) return false;
  static const bool has_units = has_fp8_units(device);
  return has_units;
}

at::Tensor fp8_linear(const Fp8Matrix& x, const Fp8Matrix& weight, const std::optional<at::Tensor>& bias,
                      at::ScalarType type) {
  // The library adds a bias of the product's own 16 bits alone.
  const bool adds_itself = bias && type != at::kFloat && bias->scalar_type() == type;
  const std::optional<at::Tensor> added = adds_itself ? std::optional(padded_bias(*bias)) : std::nullopt;
  at::Tensor y = cut(Product(x, weight).in(type, Sums::fast, added), weight.payload.size(0));
  return bias && !adds_itself ? y.add_(*bias) : y;
}

at::Tensor fp8_backward_input(const Fp8Matrix& dy, const Fp8Matrix& transposed, at::ScalarType type) {
  return cut(Product(dy, transposed).in(type, Sums::exact, std::nullopt), transposed.payload.size(0));
}

void fp8_backward_weight(const Fp8Matrix& dy, const Fp8Matrix& x, at::Tensor& dweight, Accumulation accumulation) {
  const Product product({turned(dy), dy.scale}, {turned(x), x.scale});
  const std::int64_t columns = dweight.size(1);
  if (accumulation == Accumulation::add) {
    // Rounded by the addition alone.
    dweight.add_(cut(product.in(at::kFloat, Sums::exact, std::nullopt), columns));
  } else if (aligned(columns) == columns && is_aligned(dweight)) {
    product.into(dweight);
  } else {
    dweight.copy_(cut(product.in(dweight.scalar_type(), Sums::exact, std::nullopt), columns));
  }
}

}  // namespace llmtrain::kernels
