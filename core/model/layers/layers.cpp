// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/model/layers/fp8_statistics.h"
#include "kernels/gemm.h"

namespace llmtrain {
namespace {

using kernels::Fp8Format;
using kernels::Fp8Matrix;

bool multiplies_payloads(const LinearInput& input) {
  return input.x.is_scaled() && kernels::multiplies_fp8_on(input.x.values.device());
}

// What is not finite would saturate, and must show: in all of the weight, of which `largest` is the largest magnitude.
void show_infinity(const at::Tensor& weight, const at::Tensor& largest) {
  if (!largest.is_cpu()) {
    weight.add_(largest.sub(largest));
  } else if (!std::isfinite(*largest.const_data_ptr<float>())) {
    weight.fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

// Where a norm's parameter has its gradient: of a frozen one in memory that is forgotten.
ParameterStore::GradientTarget target_of(const BoundParameter& parameter) {
  if (!parameter.is_frozen()) return parameter.gradient();
  return {at::empty_like(parameter.weight()), kernels::Accumulation::overwrite};
}

// Undefined without magnitudes.
at::Tensor factors_of(const LinearInput& input, std::size_t adapter) {
  return input.factors.empty() ? at::Tensor() : input.factors[adapter];
}

void add_to_zeros(ParameterStore::GradientTarget& target) {
  if (target.accumulation == kernels::Accumulation::overwrite) target.tensor.zero_();
  target.accumulation = kernels::Accumulation::add;
}

Fp8Matrix matrix_of(const ScaledTensor& x) { return {x.values, x.scale, x.turned}; }

// Consecutive matrices that are stored in FP8 are multiplied as one, which has one scale: the least of them. Numbers of
// a matrix with a larger one lose what is below E4M3's least number then, 2⁻¹⁷ of the largest of all.
at::Tensor common_scale(const kernels::StoredMatrix& stored) { return at::amin(stored.scales, 0, true); }

}  // namespace

NormLayer::NormLayer(NormKind kind, double eps, BoundParameter weight, std::optional<BoundParameter> bias)
    : mode_(kind == NormKind::layernorm ? kernels::NormMode::layer : kernels::NormMode::root_mean_square),
      eps_(eps),
      weight_(weight),
      bias_(bias) {}

kernels::NormParameters NormLayer::parameters() const {
  kernels::NormParameters parameters{mode_, weight_.weight(), std::nullopt, eps_};
  if (bias_) parameters.bias = bias_->weight();
  return parameters;
}

at::Tensor NormLayer::forward(const at::Tensor& x, Statistics& statistics) const {
  kernels::NormOutput output = kernels::norm_forward(x, parameters());
  statistics = {output.mean, output.rstd};
  return output.y;
}

at::Tensor NormLayer::add_forward(at::Tensor& residual, const at::Tensor& x, Statistics& statistics) const {
  kernels::NormOutput output = kernels::add_norm_forward(residual, x, parameters());
  statistics = {output.mean, output.rstd};
  return output.y;
}

at::Tensor NormLayer::recompute(const at::Tensor& x, const Statistics& statistics) const {
  return kernels::norm_recompute(x, statistics.mean, statistics.rstd, parameters());
}

void NormLayer::backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics,
                         at::Tensor& dx) const {
  auto weight = target_of(weight_);
  auto bias = bias_ ? std::optional(target_of(*bias_)) : std::nullopt;
  std::optional<at::Tensor> dbias;
  if (bias) {
    // They differ where one is frozen, whose memory is new each time.
    if (bias->accumulation != weight.accumulation) {
      add_to_zeros(weight);
      add_to_zeros(*bias);
    }
    dbias = bias->tensor;
  }
  kernels::norm_backward(dy, x, statistics.mean, statistics.rstd, parameters(), dx, weight.tensor, dbias,
                         weight.accumulation);
}

LinearInput LinearLayer::keep(const at::Tensor& x, const PassContext& pass) const {
  LinearInput input = keep_values(x, pass);
  if (!has_magnitudes()) return input;
  const at::Tensor weight = weight_.weight();
  for (const LowRankAdapter& adapter : adapters_) input.factors.push_back(adapter.factors(weight));
  return input;
}

LinearInput LinearLayer::keep_values(const at::Tensor& x, const PassContext& pass) const {
  if (!scaling_ || !scaling_->applies()) return {{x, {}}, {}};
  // Weights that are stored in E4M3 are so with scales of their own.
  const LinearInput input = weight_.is_fp8() ? keep_input(x, pass) : keep_both(x, pass);
  if (Fp8Statistics* statistics = pass.recorders.fp8_statistics) {
    statistics->add(Fp8Tensors::inputs, x, input.x.scale, Fp8Format::e4m3);
    if (input.weight_scale.defined())
      statistics->add(Fp8Tensors::weights, weight_.weight(), input.weight_scale, Fp8Format::e4m3);
  }
  return input;
}

LinearInput LinearLayer::keep_input(const at::Tensor& x, const PassContext& pass) const {
  if (const auto scale = scaling_->delayed({Fp8Operand::input}, pass, x.device()))
    return {scaling_->cast({Fp8Operand::input, x}, *scale, pass), {}};
  const bool rows_apart = scaling_->separates_rows_of(x, pass);
  LinearInput input{{{}, rows_apart ? Fp8Scaling::row_scales(x) : scaling_->current({{Fp8Operand::input, x}}, pass)},
                    {}};
  restore(input, x);
  return input;
}

LinearInput LinearLayer::keep_both(const at::Tensor& x, const PassContext& pass) const {
  // The forward finds the weight's magnitude when it rounds it.
  if (const auto scales = scaling_->delayed({Fp8Operand::input, Fp8Operand::weight}, pass, x.device()))
    return {scaling_->cast({Fp8Operand::input, x}, scales->narrow(0, 0, 1), pass), scales->narrow(0, 1, 1)};
  if (scaling_->separates_rows_of(x, pass)) {
    LinearInput input{{{}, Fp8Scaling::row_scales(x)},
                      scaling_->current({{Fp8Operand::weight, weight_.weight()}}, pass)};
    restore(input, x);
    return input;
  }
  // Two maxima in one exchange.
  const at::Tensor scales = scaling_->current({{Fp8Operand::input, x}, {Fp8Operand::weight, weight_.weight()}}, pass);
  LinearInput input{{{}, scales.narrow(0, 0, 1)}, scales.narrow(0, 1, 1)};
  restore(input, x);
  return input;
}

void LinearLayer::restore(LinearInput& input, const at::Tensor& x) {
  input.x.values = input.x.is_scaled() ? kernels::cast_to_fp8(x, input.x.scale, Fp8Format::e4m3) : x;
}

ScaledTensor LinearLayer::scaled_gradient(const at::Tensor& dy, const PassContext& pass, GradientRows rows) const {
  if (!scaling_ || !scaling_->applies()) return {dy, {}};
  // The weight's gradient needs all rows, the other way round.
  const bool is_turned = rows == GradientRows::all && !weight_.is_frozen() && kernels::multiplies_fp8_on(dy.device());
  ScaledTensor gradient;
  if (const auto scale = scaling_->delayed({Fp8Operand::output_gradient}, pass, dy.device())) {
    gradient =
        scaling_->cast({Fp8Operand::output_gradient, dy}, *scale, pass, is_turned ? CastWays::both : CastWays::one);
  } else {
    gradient.scale = scaling_->current({{Fp8Operand::output_gradient, dy}}, pass);
    if (is_turned) {
      const auto [values, turned] = kernels::cast_to_fp8_both_ways(dy, gradient.scale, Fp8Format::e5m2);
      gradient.values = values;
      gradient.turned = turned;
    } else {
      gradient.values = kernels::cast_to_fp8(dy, gradient.scale, Fp8Format::e5m2);
    }
  }
  if (pass.recorders.fp8_statistics != nullptr)
    pass.recorders.fp8_statistics->add(Fp8Tensors::output_gradients, dy, gradient.scale, Fp8Format::e5m2);
  return gradient;
}

kernels::MeasuredFp8 LinearLayer::weight_for(const LinearInput& input) const {
  at::Tensor weight = weight_.weight();
  if (!input.weight_scale.defined()) return {weight, {}};
  if (!weight_.is_scaled()) return kernels::round_and_measure(weight, input.weight_scale, Fp8Format::e4m3);
  // It is a copy already: another one would double the memory beside the product.
  at::Tensor largest = kernels::round_and_measure_(weight, input.weight_scale, Fp8Format::e4m3);
  return {std::move(weight), std::move(largest)};
}

at::Tensor LinearLayer::widened_forward(const LinearInput& input, const std::optional<at::Tensor>& bias,
                                        const Sequences& rows, const PassContext& pass) const {
  const auto [weight, largest] = weight_for(input);
  if (pass.recorders.fp8_history != nullptr && largest.defined()) {
    scaling_->note(Fp8Operand::weight, largest, pass);
    show_infinity(weight, largest);
  }
  const at::Tensor x = input.x.widened(weight.scalar_type());
  // Magnitudes scale what is made without the bias.
  at::Tensor y = kernels::linear(x, weight, has_magnitudes() ? std::nullopt : bias);
  for (std::size_t i = 0; i < adapters_.size(); ++i)
    adapters_[i].forward({x, weight, factors_of(input, i)}, y, rows, pass);
  if (has_magnitudes() && bias) y.add_(*bias);
  return y;
}

Fp8Matrix LinearLayer::weight_payload(const LinearInput& input, const PassContext& pass) const {
  const kernels::StoredMatrix weight = weight_.stored();
  if (!input.weight_scale.defined()) {
    if (weight.scales.numel() == 1) return {weight.payload, weight.scales};
    const at::Tensor scale = common_scale(weight);
    return {kernels::cast_to_fp8(weight, scale), scale};
  }
  if (pass.recorders.fp8_history != nullptr) {
    const ScaledTensor cast = scaling_->cast(weight, input.weight_scale, pass);
    return {cast.values, cast.scale};
  }
  return {kernels::cast_to_fp8(weight, input.weight_scale), input.weight_scale};
}

Fp8Matrix LinearLayer::transposed_payload(const LinearInput& input) const {
  const kernels::StoredMatrix weight = weight_.stored();
  if (!input.weight_scale.defined() && weight.scales.numel() == 1)
    return {weight.payload.view(at::kByte).t().contiguous().view(weight.payload.scalar_type()), weight.scales};
  const at::Tensor scale = input.weight_scale.defined() ? input.weight_scale : common_scale(weight);
  return {kernels::cast_to_fp8_transposed(weight, scale), scale};
}

at::Tensor LinearLayer::fp8_forward(const LinearInput& input, const std::optional<at::Tensor>& bias,
                                    const PassContext& pass) const {
  return kernels::fp8_linear(matrix_of(input.x), weight_payload(input, pass), bias, weight_.weight_type());
}

at::Tensor LinearLayer::forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const {
  std::optional<at::Tensor> bias;
  if (bias_) bias = bias_->weight();
  return multiplies_payloads(input) ? fp8_forward(input, bias, pass) : widened_forward(input, bias, rows, pass);
}

void LinearLayer::add_bias_gradient(const at::Tensor& dy) const {
  if (bias_) bias_->add_bias_gradient(dy);
}

std::optional<ParameterStore::GradientTarget> LinearLayer::bias_gradient() const {
  if (!bias_ || bias_->is_frozen()) return std::nullopt;
  return bias_->gradient();
}

at::Tensor LinearLayer::widened_backward(const ScaledTensor& dy, const LinearInput& input, const Sequences& rows,
                                         const PassContext& pass) const {
  const at::ScalarType compute = weight_.weight_type();
  const at::Tensor gradient = dy.widened(compute);
  // Only where it is read, since widening is a copy.
  const at::Tensor x = weight_.is_frozen() && adapters_.empty() ? at::Tensor() : input.x.widened(compute);
  if (!weight_.is_frozen()) weight_.add_weight_gradient(gradient, x);
  const at::Tensor weight = weight_for(input).values;
  at::Tensor through_weight = gradient;
  if (has_magnitudes() && adapters_.front().scales_gradient(pass)) {
    through_weight = gradient.clone();
    for (std::size_t i = 0; i < adapters_.size(); ++i) adapters_[i].scale_gradient(through_weight, input.factors[i]);
  }
  at::Tensor dx = kernels::linear_backward_input(through_weight, weight);
  through_weight.reset();
  for (std::size_t i = 0; i < adapters_.size(); ++i)
    adapters_[i].backward(gradient, {x, weight, factors_of(input, i)}, dx, rows, pass);
  return dx;
}

at::Tensor LinearLayer::fp8_backward(ScaledTensor& dy, const LinearInput& input) const {
  if (!weight_.is_frozen()) {
    auto target = weight_.gradient();
    kernels::fp8_backward_weight(matrix_of(dy), matrix_of(input.x), target.tensor, target.accumulation);
  }
  // It would lie beside the next product.
  dy.turned.reset();
  return kernels::fp8_backward_input(matrix_of(dy), transposed_payload(input), weight_.weight_type());
}

at::Tensor LinearLayer::backward(ScaledTensor dy, const LinearInput& input, const Sequences& rows,
                                 const PassContext& pass) const {
  return multiplies_payloads(input) ? fp8_backward(dy, input) : widened_backward(dy, input, rows, pass);
}

// Gathering rows and summing them are each other's gradient, hence the pairs in these functions. FP8 is gathered as
// FP8: a byte per element.
at::Tensor ColumnLinear::forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const {
  return linear_.forward(whole_rows(input), rows, pass);
}

at::Tensor ColumnLinear::backward(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                                  const PassContext& pass) const {
  linear_.add_bias_gradient(dy);
  return backward_without_bias(dy, input, rows, pass);
}

at::Tensor ColumnLinear::backward_without_bias(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                                               const PassContext& pass) const {
  // Apart, since both meet the other ranks, which must do so in the same order.
  ScaledTensor gradient = linear_.scaled_gradient(dy, pass, LinearLayer::GradientRows::all);
  return split_.own_sum(linear_.backward(std::move(gradient), whole_rows(input), rows, pass));
}

LinearInput ColumnLinear::whole_rows(const LinearInput& input) const {
  return {{split_.whole_rows(input.x.values), input.x.scale}, input.weight_scale, input.factors};
}

RowLinear::RowLinear(BoundParameter weight, std::optional<BoundParameter> bias, std::optional<Fp8Scaling> scaling,
                     std::vector<LowRankAdapter> adapters, const TensorSplit& split)
    // With several ranks the bias must be added after the sum, or it would be added once per rank.
    : split_(split), linear_(weight, split.ranks() > 1 ? std::nullopt : bias, scaling, std::move(adapters)) {
  if (split.ranks() > 1) late_bias_ = bias;
}

at::Tensor RowLinear::forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const {
  at::Tensor y = split_.own_sum(linear_.forward(input, rows, pass));
  if (late_bias_) y.add_(late_bias_->weight());
  return y;
}

at::Tensor RowLinear::backward(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                               const PassContext& pass) const {
  // From this rank's rows. Where rows are split, the ranks' gradients are summed once per step (gradient_sum()).
  if (late_bias_) late_bias_->add_bias_gradient(dy);
  linear_.add_bias_gradient(dy);
  const auto of_rows = split_.splits_rows() ? LinearLayer::GradientRows::some : LinearLayer::GradientRows::all;
  ScaledTensor gradient = linear_.scaled_gradient(dy, pass, of_rows);
  gradient.values = split_.whole_rows(gradient.values);
  return linear_.backward(std::move(gradient), input, rows, pass);
}

}  // namespace llmtrain
