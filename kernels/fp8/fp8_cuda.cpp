// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/fp8_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

const Fp8Kernels& fp8_kernels() { return *kernel_table()->fp8; }

at::Tensor number_like(const at::Tensor& x) { return at::empty({1}, x.options().dtype(at::kFloat)); }

// Memory for partial results.
class Partials {
 public:
  Partials(const at::Tensor& x, std::int64_t count) : numbers_(at::empty({count}, x.options().dtype(at::kInt))) {}
  explicit Partials(const at::Tensor& x) : Partials(x, most_fp8_partials) {}
  unsigned* data() const { return static_cast<unsigned*>(numbers_.mutable_data_ptr()); }

 private:
  at::Tensor numbers_;
};

// An array has as many rows as scales.
std::int64_t columns_of(const at::Tensor& x, std::int64_t rows) { return rows == 0 ? 0 : x.numel() / rows; }

using Cast = void (*)(const Fp8CastArguments& arguments, void* stream);

void run_cast(Cast cast, const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& result,
              const Fp8Measure& measure, const Fp8Stored& stored = {}) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor scales = scale.contiguous();
  cast({.element = *element_of(x),
        .format = format,
        .x = x.const_data_ptr(),
        .scales = scales.const_data_ptr<float>(),
        .result = result.mutable_data_ptr(),
        .rows = scales.numel(),
        .columns = columns_of(x, scales.numel()),
        .measure = measure,
        .stored = stored},
       stream_of(x));
}

Fp8Stored stored_of(const StoredMatrix& matrix) {
  Fp8Stored stored{matrix.scales.const_data_ptr<float>(), std::ssize(matrix.parts), {}};
  std::fill(std::begin(stored.ends), std::end(stored.ends), std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 0; i + 1 < matrix.parts.size(); ++i) stored.ends[i] = matrix.parts[i].end;
  return stored;
}

at::Tensor run_measured(Cast cast, const at::Tensor& x, const at::Tensor& scale, Fp8Format format,
                        const at::Tensor& result) {
  const Partials partials(x);
  at::Tensor largest = number_like(x);
  run_cast(cast, x, scale, format, result,
           {.partials = partials.data(), .largest = largest.mutable_data_ptr<float>(), .shown_scale = nullptr});
  return largest;
}

void turn(const at::Tensor& x, std::optional<KernelElement> element, const at::Tensor& scale, Fp8Format format,
          const at::Tensor& turned, const Fp8Stored& stored = {}) {
  const c10::DeviceGuard guard(x.device());
  fp8_kernels().turn({.element = element,
                      .format = format,
                      .x = x.const_data_ptr(),
                      .scale = scale.defined() ? scale.const_data_ptr<float>() : nullptr,
                      .turned = turned.mutable_data_ptr(),
                      .rows = x.size(0),
                      .columns = x.size(1),
                      .stride = turned.size(1),
                      .codes = nullptr,
                      .measure = {},
                      .stored = stored},
                     stream_of(x));
}

void cast_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const TurnedFp8& result,
                    const Fp8Measure& measure) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor scales = scale.contiguous();
  fp8_kernels().turn({.element = element_of(x),
                      .format = format,
                      .x = x.const_data_ptr(),
                      .scale = scales.const_data_ptr<float>(),
                      .turned = result.turned.mutable_data_ptr(),
                      .rows = x.size(0),
                      .columns = x.size(1),
                      .stride = result.turned.size(1),
                      .codes = result.values.mutable_data_ptr(),
                      .measure = measure,
                      .stored = {}},
                     stream_of(x));
}

TurnedFp8 empty_both_ways(const at::Tensor& x, Fp8Format format) {
  const auto options = x.options().dtype(fp8_type(format));
  const std::int64_t stride = (x.size(0) + fp8_turned_rows - 1) / fp8_turned_rows * fp8_turned_rows;
  return {at::empty(x.sizes(), options), at::empty({x.size(1), stride}, options)};
}

ShownFp8 shown_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const Fp8Stored& stored) {
  const Partials partials(x);
  ShownFp8 shown{at::empty(x.sizes(), x.options().dtype(fp8_type(format))), number_like(x), number_like(x)};
  run_cast(fp8_kernels().cast, x, scale, format, shown.values,
           {.partials = partials.data(),
            .largest = shown.largest.mutable_data_ptr<float>(),
            .shown_scale = shown.scale.mutable_data_ptr<float>()},
           stored);
  return shown;
}

at::Tensor transposed_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const Fp8Stored& stored) {
  at::Tensor payload = at::empty({x.size(1), x.size(0)}, x.options().dtype(fp8_type(format)));
  turn(x, element_of(x), scale, format, payload, stored);
  return payload;
}

}  // namespace

bool has_cuda_fp8(const at::Tensor& x) { return has_kernels(x) && x.is_contiguous(); }

bool has_cuda_codes(const at::Tensor& payload) {
  return payload.is_cuda() && has_kernel_table() && payload.is_contiguous();
}

at::Tensor cuda_largest(const at::Tensor& x, std::int64_t rows) {
  const c10::DeviceGuard guard(x.device());
  const std::int64_t columns = columns_of(x, rows), parts = fp8_row_parts(rows, columns);
  at::Tensor largest = at::empty({rows}, x.options().dtype(at::kFloat));
  const Partials partials(x, parts == 1 ? 0 : rows * parts);
  fp8_kernels().largest({.element = *element_of(x),
                         .x = x.const_data_ptr(),
                         .partials = partials.data(),
                         .largest = largest.mutable_data_ptr<float>(),
                         .rows = rows,
                         .columns = columns},
                        stream_of(x));
  return largest;
}

void cuda_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& payload) {
  run_cast(fp8_kernels().cast, x, scale, format, payload, {});
}

at::Tensor cuda_measured_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format,
                              const at::Tensor& payload) {
  return run_measured(fp8_kernels().cast, x, scale, format, payload);
}

ShownFp8 cuda_shown_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  return shown_cast(x, scale, format, {});
}

at::Tensor cuda_cast(const StoredMatrix& matrix, const at::Tensor& scale) {
  at::Tensor payload = at::empty(matrix.payload.sizes(), matrix.payload.options().dtype(at::kFloat8_e4m3fn));
  run_cast(fp8_kernels().cast, matrix.payload, scale, Fp8Format::e4m3, payload, {}, stored_of(matrix));
  return payload;
}

ShownFp8 cuda_shown_cast(const StoredMatrix& matrix, const at::Tensor& scale) {
  return shown_cast(matrix.payload, scale, Fp8Format::e4m3, stored_of(matrix));
}

at::Tensor cuda_cast_transposed(const StoredMatrix& matrix, const at::Tensor& scale) {
  return transposed_cast(matrix.payload, scale, Fp8Format::e4m3, stored_of(matrix));
}

void cuda_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& rounded) {
  run_cast(fp8_kernels().round, x, scale, format, rounded, {});
}

at::Tensor cuda_measured_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format,
                               const at::Tensor& rounded) {
  return run_measured(fp8_kernels().round, x, scale, format, rounded);
}

void cuda_widen(const at::Tensor& payload, const at::Tensor& scale, Fp8Format format, const at::Tensor& x) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor scales = scale.contiguous();
  fp8_kernels().widen({.element = *element_of(x),
                       .format = format,
                       .payload = payload.const_data_ptr(),
                       .scales = scales.const_data_ptr<float>(),
                       .x = x.mutable_data_ptr(),
                       .rows = scales.numel(),
                       .columns = columns_of(x, scales.numel())},
                      stream_of(x));
}

TurnedFp8 cuda_cast_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  TurnedFp8 result = empty_both_ways(x, format);
  cast_both_ways(x, scale, format, result, {});
  return result;
}

ShownFp8 cuda_shown_cast_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  const TurnedFp8 result = empty_both_ways(x, format);
  const Partials partials(x, fp8_turn_tiles(*element_of(x), x.size(1), result.turned.size(1)));
  ShownFp8 shown{result.values, number_like(x), number_like(x), result.turned};
  cast_both_ways(x, scale, format, result,
                 {.partials = partials.data(),
                  .largest = shown.largest.mutable_data_ptr<float>(),
                  .shown_scale = shown.scale.mutable_data_ptr<float>()});
  return shown;
}

at::Tensor cuda_cast_transposed(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  return transposed_cast(x, scale, format, {});
}

at::Tensor cuda_turned(const at::Tensor& payload, std::int64_t stride) {
  at::Tensor codes = at::empty({payload.size(1), stride}, payload.options());
  turn(payload, std::nullopt, {}, Fp8Format::e4m3, codes);
  return codes;
}

at::Tensor cuda_fp8_scale(const at::Tensor& largest, Fp8Format format) {
  const c10::DeviceGuard guard(largest.device());
  const at::Tensor numbers = largest.contiguous();
  at::Tensor scales = at::empty(numbers.sizes(), numbers.options());
  fp8_kernels().scale({.format = format,
                       .largest = numbers.const_data_ptr<float>(),
                       .scales = scales.mutable_data_ptr<float>(),
                       .count = numbers.numel()},
                      stream_of(largest));
  return scales;
}

at::Tensor cuda_saturated_count(const at::Tensor& payload, Fp8Format format) {
  const c10::DeviceGuard guard(payload.device());
  const Partials partials(payload);
  at::Tensor count = number_like(payload);
  fp8_kernels().count_saturated({.format = format,
                                 .payload = payload.const_data_ptr(),
                                 .partials = partials.data(),
                                 .count = count.mutable_data_ptr<float>(),
                                 .elements = payload.numel()},
                                stream_of(payload));
  return count;
}

}  // namespace llmtrain::kernels
