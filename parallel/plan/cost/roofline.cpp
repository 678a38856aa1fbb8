// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace llmtrain {
namespace {

// Sizes below those of a table: results are computed in tiles of 128 rows and columns, which smaller ones do not fill,
// and the inner size at which half of a tile's time is its start and end follows from the tables' smallest sizes.
constexpr double tile_half = 128, inner_half = 256;
// No measured FP8 product whose cast takes little of its time is faster.
constexpr double most_of_fp8_peak = 0.75;

// Half of the limit at `size` = `half`.
double saturating(double size, double half) { return size / (size + half); }

// How much a size below all measured ones lowers the efficiency of the smallest of these.
double below(double smallest, double size, double half) {
  return size >= smallest ? 1 : saturating(size, half) / saturating(smallest, half);
}

}  // namespace

double shape_efficiency(const MatrixProfile& curve, const MatrixProduct& product) {
  const double results = product.batch * product.rows * product.columns;
  return saturating(product.inner, curve.inner_half) * saturating(results, curve.outer_half * curve.outer_half);
}

Roofline::Roofline(const ClusterProfile& profile, const PrecisionRecipe& precision)
    : profile_(profile),
      tables_(profile.program.kernels.rates == KernelRates::measured ? profile.operators.get() : nullptr),
      attention_(profile.program.attention_on(profile.name).value_or(profile.attention)),
      element_bytes_(llmtrain::element_bytes(element_type(precision.compute))) {
  // FP8 off: FP8 products have a rate of their own, the others run in the compute type at every level.
  compute_ = {peak_flops(profile, PrecisionRecipe{.compute = precision.compute, .tf32 = precision.tf32}),
              profile.matrix.peak_fraction};
  // The same parts of their peaks are taken for fp32 and TF32, which nobody measured.
  if (tables_ != nullptr) compute_.table = table_of(tables_->products, "bf16");
  if (tables_ != nullptr) grouped_table_ = table_of(tables_->grouped_products, "bf16");
  if (tables_ != nullptr && !profile.program.attention_on(profile.name))
    attention_table_ = table_of(tables_->attention, "bf16");
  fp8_ = compute_;
  const bool is_fp4 = precision.product_format != ProductFormat::fp8;
  const double peak = small_peak_flops(profile, precision);
  has_fp8_ = peak > 0 && profile.matrix.fp8_peak_fraction > 0;
  if (!has_fp8_) return;
  operand_bytes_ = operand_bytes(precision.product_format) + (is_fp4 ? 0 : profile.program.fp8.scale_bytes);
  // No step in FP4 has been fitted: the fraction is that of FP8.
  fp8_ = {peak, profile.matrix.fp8_peak_fraction};
  if (tables_ == nullptr) return;
  // MXFP4's products are NVFP4's with other scales.
  const char* const scaled = profile.program.fp8.scale_bytes > 0 ? "fp8_block" : "fp8";
  fp8_.table = table_of(tables_->products, is_fp4 ? "nvfp4" : scaled);
}

// The startup term dominates small passes, the bandwidth large ones.
double Roofline::memory_seconds(double bytes) const {
  const double bandwidth = profile_.device.memory_bandwidth;
  if (tables_ != nullptr) return tables_->memory_seconds + bytes / (bandwidth * tables_->memory_fraction);
  // bytes ÷ (bandwidth · fraction · bytes ÷ (bytes + half)), simplified: a fixed start-up time plus the transfer.
  return (bytes + profile_.memory.half_bytes) / (bandwidth * profile_.memory.fraction);
}

double Roofline::table_efficiency(const EfficiencyTable::Found& found) const {
  return profile_.program.kernels.speed * tables_->training_speed * found.efficiency;
}

Reached Roofline::product_efficiency(const MatrixProduct& product, MatrixType type) const {
  const ProductRate& rate = this->rate(type);
  if (rate.table == nullptr) return {rate.fraction * shape_efficiency(profile_.matrix, product)};
  // Products of a batch fill a device together, as one of more rows does.
  const std::array<double, 3> sizes{product.batch * product.rows, product.columns, product.inner};
  const EfficiencyTable::Found found = rate.table->find(sizes);
  const auto& axes = rate.table->axes();
  const double outside = below(axes[0].front(), sizes[0], tile_half) * below(axes[1].front(), sizes[1], tile_half) *
                         below(axes[2].front(), sizes[2], inner_half);
  const double efficiency = table_efficiency(found) * outside;
  if (type != MatrixType::fp8 || tables_->fp8_cast_seconds == 0 || rate.table == compute_.table)
    return {efficiency, found.basis};
  // Without the cast of the first operand, which is priced apart; of small products it is all of the measured time.
  const double seconds = product.flops() / (rate.peak * efficiency);
  const double cast = tables_->fp8_cast_seconds * product.batch * product.rows * product.inner;
  const double least = product.flops() / (rate.peak * std::max(efficiency, most_of_fp8_peak * outside));
  return {product.flops() / (rate.peak * std::max(seconds - cast, least)), found.basis};
}

Work Roofline::product(const MatrixProduct& product, MatrixType type) const {
  // An empty product launches nothing.
  if (product.rows <= 0 || product.batch <= 0) return {};
  const ProductRate& rate = this->rate(type);
  const double rate_of_shape = rate.table == nullptr
                                   ? rate.peak * rate.fraction * shape_efficiency(profile_.matrix, product)
                                   : rate.peak * product_efficiency(product, type).fraction;
  const double memory = memory_seconds(moved_bytes(product, type));
  return {std::max(product.flops() / rate_of_shape, memory) + profile_.device.kernel_seconds, 1};
}

// Two operands in their type, in FP8 with their scales; results are always in the compute type. On a device without FP8
// products they run in the compute type: FP8 then saves only memory and traffic.
double Roofline::moved_bytes(const MatrixProduct& product, MatrixType type) const {
  const bool fp8 = type == MatrixType::fp8 && multiplies_fp8();
  const double operand_bytes = fp8 ? operand_bytes_ : element_bytes_;
  return product.batch * (operand_bytes * product.inner * (product.rows + product.columns) +
                          element_bytes_ * product.rows * product.columns);
}

Reached Roofline::grouped_efficiency(const MatrixProduct& product, MatrixType type) const {
  const std::array<double, 3> at{product.rows, product.batch, product.columns * product.inner};
  const EfficiencyTable::Found found = grouped_table_->find(at);
  // Smaller matrices than any measured one use a device as less wide products do.
  const double outside = below(std::sqrt(grouped_table_->axes()[2].front()), std::sqrt(at[2]), inner_half);
  const bool is_other_type = type == MatrixType::fp8 && multiplies_fp8();
  return {table_efficiency(found) * outside, is_other_type ? Basis::extrapolated : found.basis};
}

double Roofline::grouped_seconds(const MatrixProduct& product, MatrixType type, double bytes) const {
  double peak = rate(type).peak;
  // Products in FP8 reach less of their peak than those in 16 bits.
  if (rate(type).table != compute_.table)
    peak *= std::min(
        1.0, product_efficiency(product, type).fraction / product_efficiency(product, MatrixType::compute).fraction);
  const double roofline = std::max(product.flops() / peak, bytes / profile_.device.memory_bandwidth);
  return roofline / grouped_efficiency(product, type).fraction;
}

Work Roofline::grouped_product(const MatrixProduct& product, MatrixType type) const {
  if (!measures_grouped(product) || product.batch <= 0) return this->product(product, type);
  return {grouped_seconds(product, type, moved_bytes(product, type)) + profile_.device.kernel_seconds, 1};
}

Work Roofline::weight_gradient(const MatrixProduct& product, MatrixType type, bool is_grouped) const {
  if (is_grouped && measures_grouped(product)) return grouped_product(product, type);
  return this->product({product.columns, product.inner, product.rows, product.batch}, type);
}

Work Roofline::pass(double bytes) const {
  if (bytes <= 0) return {};
  return {memory_seconds(bytes) + profile_.device.kernel_seconds, 1};
}

Reached Roofline::attention_efficiency(const AttentionSizes& sizes) const {
  if (attention_table_ == nullptr) return {attention_.forward_fraction};
  const std::array<double, 4> at{sizes.sequence, sizes.heads, sizes.heads_per_key, sizes.head_size};
  const EfficiencyTable::Found found = attention_table_->find(at);
  // Shorter sequences are bound by what they read and write, which does not grow with the square.
  const double outside = std::min(1.0, sizes.sequence / attention_table_->axes()[0].front());
  return {table_efficiency(found) * outside, found.basis};
}

// Without a term for memory: a fused kernel's scores never leave the chip (Dao et al., arXiv 2205.14135).
Work Roofline::attention_forward(double flops, const AttentionSizes& sizes) const {
  return {flops / (compute_.peak * attention_efficiency(sizes).fraction) + profile_.device.kernel_seconds, 1};
}

Work Roofline::attention_backward(double flops, const AttentionSizes& sizes) const {
  const double fraction = attention_table_ == nullptr
                              ? attention_.backward_fraction
                              : profile_.program.kernels.attention_backward * attention_efficiency(sizes).fraction;
  return {flops / (compute_.peak * fraction) + profile_.device.kernel_seconds, 1};
}

double Roofline::host_seconds(const Work& work) const {
  return work.operators * profile_.program.host.launch * profile_.host.operator_seconds;
}

double Roofline::seconds(const Work& work) const {
  const double host = host_seconds(work);
  // Launches run ahead of the device, so that the slower of the two decides; a host that waits for each operator, as
  // with CUDA_LAUNCH_BLOCKING=1, adds to its time.
  return profile_.program.host.synchronous ? work.seconds + host : std::max(work.seconds, host);
}

}  // namespace llmtrain
