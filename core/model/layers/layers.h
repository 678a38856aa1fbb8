// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/model/layers/low_rank_adapter.h"
#include "core/model/layers/scaled_tensor.h"
#include "core/model/layers/tensor_split.h"
#include "core/model/pass/kept_tensors.h"
#include "core/model/pass/pass_context.h"
#include "core/model/pass/sequences.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "kernels/fp8/fp8.h"
#include "kernels/fp8/product.h"
#include "kernels/norm.h"

namespace llmtrain {

// Layer or root-mean-square normalisation over the last axis, with parameters that are stored elsewhere.
class NormLayer {
 public:
  struct Statistics {
    at::Tensor mean, rstd;

    void visit(const KeptTensorVisitor& visit) { visit_all(visit, {&mean, &rstd}); }
  };

  NormLayer(NormKind kind, double eps, BoundParameter weight, std::optional<BoundParameter> bias);

  at::Tensor forward(const at::Tensor& x, Statistics& statistics) const;
  // residual += x in place, and its norm: in one pass over both.
  at::Tensor add_forward(at::Tensor& residual, const at::Tensor& x, Statistics& statistics) const;
  at::Tensor recompute(const at::Tensor& x, const Statistics& statistics) const;
  // dx += the gradient at x; adds to the gradients of weight and bias.
  void backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics, at::Tensor& dx) const;

 private:
  kernels::NormParameters parameters() const;

  kernels::NormMode mode_;
  double eps_;
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
};

// What a linear layer keeps of its input between the passes.
struct LinearInput {
  ScaledTensor x;
  at::Tensor weight_scale;            // fp32 [1]; undefined without FP8, and where the weight is stored in FP8
  std::vector<at::Tensor> factors{};  // LowRankAdapter::factors() of each adapter that has magnitudes

  // Where the backward makes the values again: LinearLayer::restore().
  void release() { x.values.reset(); }

  void visit(const KeptTensorVisitor& visit) {
    visit_all(visit, {&x.values, &x.scale, &x.turned, &weight_scale});
    for (at::Tensor& factor : factors) visit(factor);
  }
};

// y = x · weightᵀ + bias. Weight and bias may each be several consecutive parameters used as one matrix. With scaling,
// the three products multiply FP8 numbers: input and weight in E4M3, the output's gradient in E5M2 (Micikevicius et
// al., arXiv 2209.05433); they accumulate in fp32, and bias and results are in the compute type. On a GPU its units
// multiply the payloads themselves; where there are none, operands are widened.
class LinearLayer {
 public:
  // Adapters add to parts of the result's features.
  LinearLayer(BoundParameter weight, std::optional<BoundParameter> bias, std::optional<Fp8Scaling> scaling,
              std::vector<LowRankAdapter> adapters)
      : weight_(weight), bias_(bias), scaling_(scaling), adapters_(std::move(adapters)) {}

  // x [T, in] as the products take it.
  LinearInput keep(const at::Tensor& x, const PassContext& pass) const;
  // The values again where they were released: x is what keep() was given.
  static void restore(LinearInput& input, const at::Tensor& x);
  // The output's gradient as the products take it, of all rows with those of other ranks or of some of them alone.
  enum class GradientRows { all, some };
  ScaledTensor scaled_gradient(const at::Tensor& dy, const PassContext& pass, GradientRows rows) const;

  // [T, in] → [T, out], of the tokens of whole sequences as this rank has them.
  at::Tensor forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const;
  void add_bias_gradient(const at::Tensor& dy) const;
  // Where the caller adds it; none without a bias, and where it is frozen.
  std::optional<ParameterStore::GradientTarget> bias_gradient() const;
  // Adds to the weight's gradient; returns dx.
  at::Tensor backward(ScaledTensor dy, const LinearInput& input, const Sequences& rows, const PassContext& pass) const;

 private:
  LinearInput keep_values(const at::Tensor& x, const PassContext& pass) const;
  // With the scale of the input alone, and with that of the weight.
  LinearInput keep_input(const at::Tensor& x, const PassContext& pass) const;
  LinearInput keep_both(const at::Tensor& x, const PassContext& pass) const;
  // As the products of widened operands take it; its largest magnitude is undefined where it is not cast.
  kernels::MeasuredFp8 weight_for(const LinearInput& input) const;
  at::Tensor widened_forward(const LinearInput& input, const std::optional<at::Tensor>& bias, const Sequences& rows,
                             const PassContext& pass) const;
  at::Tensor widened_backward(const ScaledTensor& dy, const LinearInput& input, const Sequences& rows,
                              const PassContext& pass) const;

  // The same of FP8 numbers on a GPU.
  at::Tensor fp8_forward(const LinearInput& input, const std::optional<at::Tensor>& bias,
                         const PassContext& pass) const;
  at::Tensor fp8_backward(ScaledTensor& dy, const LinearInput& input) const;
  // The weight [out, in] in E4M3, whose magnitude is noted in a pass with a history, and the transposed one.
  kernels::Fp8Matrix weight_payload(const LinearInput& input, const PassContext& pass) const;
  kernels::Fp8Matrix transposed_payload(const LinearInput& input) const;

  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
  std::optional<Fp8Scaling> scaling_;  // none: products in the compute type
  // All have magnitudes or none.
  bool has_magnitudes() const { return !adapters_.empty() && adapters_.front().has_magnitude(); }

  std::vector<LowRankAdapter> adapters_;
};

// The two kinds of linear layer of tensor parallelism (Shoeybi et al., arXiv 1909.08053, section 3), with the rows
// split as in Korthikanti et al. (arXiv 2205.05198). With one rank both are a plain linear layer.

// This rank computes some of the output features from all input features.
class ColumnLinear {
 public:
  ColumnLinear(LinearLayer linear, const TensorSplit& split) : linear_(std::move(linear)), split_(split) {}

  LinearInput keep(const at::Tensor& x, const PassContext& pass) const { return linear_.keep(x, pass); }

  // Own rows [R, in] → all rows [T, out/ranks].
  at::Tensor forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const;
  // `input` is the forward's, whose rows are gathered again rather than kept; returns its gradient.
  at::Tensor backward(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                      const PassContext& pass) const;
  // The same in two parts, for who forms the bias's gradient together with dy.
  std::optional<ParameterStore::GradientTarget> bias_gradient() const { return linear_.bias_gradient(); }
  at::Tensor backward_without_bias(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                                   const PassContext& pass) const;

 private:
  LinearInput whole_rows(const LinearInput& input) const;

  LinearLayer linear_;
  TensorSplit split_;
};

// This rank uses some of the input features; the ranks' products are summed, and the bias is added to the sum.
class RowLinear {
 public:
  RowLinear(BoundParameter weight, std::optional<BoundParameter> bias, std::optional<Fp8Scaling> scaling,
            std::vector<LowRankAdapter> adapters, const TensorSplit& split);

  LinearInput keep(const at::Tensor& x, const PassContext& pass) const { return linear_.keep(x, pass); }

  // All rows [T, in/ranks] → own rows [R, out].
  at::Tensor forward(const LinearInput& input, const Sequences& rows, const PassContext& pass) const;
  at::Tensor backward(const at::Tensor& dy, const LinearInput& input, const Sequences& rows,
                      const PassContext& pass) const;  // returns dx

 private:
  TensorSplit split_;
  LinearLayer linear_;                       // includes the bias where there is one rank
  std::optional<BoundParameter> late_bias_;  // where there are several
};

}  // namespace llmtrain
