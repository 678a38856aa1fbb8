// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {
namespace {

constexpr std::size_t bias_place = 3;

kernels::RowDocuments documents_along(AxisId tokens, const BodyPass& pass) {
  const auto found = std::ranges::find(pass.documents, tokens, &BodyPass::Documents::tokens);
  return found == pass.documents.end() ? kernels::RowDocuments{} : found->documents;
}

// Elements of [sequences, heads, queries, keys] are counted, so that parts of the batch drop what it drops as a whole.
kernels::Dropout probability_dropout(const Attention& attention, const StepContext& context) {
  if (!context.pass.trains || attention.dropout == 0) return {};
  const StepShape& shape = context.shape;
  const std::vector<AxisId>& query = shape.input(0).axes;
  const std::int64_t each = shape.extent(query[1]) * shape.extent(query[2]) * shape.extent(shape.input(1).axes[1]);
  return {attention.dropout, kernels::dropout_key(context.pass.seed, context.pass.step, context.site),
          context.pass.first_sample * each};
}

kernels::AttentionCall call_of(const Attention& attention, const StepTensors& tensors, const StepContext& context) {
  const AxisId queries = context.shape.input(0).axes[1], keys = context.shape.input(1).axes[1];
  kernels::AttentionCall call;
  call.method =
      stores_scores(attention, context.shape) ? kernels::AttentionMethod::math : kernels::AttentionMethod::flash;
  call.dropout = probability_dropout(attention, context);
  call.documents = documents_along(queries, context.pass);
  if (keys != queries && !attention.is_causal) call.key_documents = documents_along(keys, context.pass);
  call.is_causal = attention.is_causal;
  call.scale = attention.scale;
  if (tensors.inputs.size() > bias_place) call.bias = tensors.inputs[bias_place];
  return call;
}

}  // namespace

StepResult forward(const Attention& attention, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor query = tensors.inputs[0].contiguous(), key = tensors.inputs[1].contiguous(),
                   value = tensors.inputs[2].contiguous();
  const bool reads_other_rows = context.shape.input(0).axes[1] != context.shape.input(1).axes[1];
  if (AttentionMemory* memory = context.pass.memory; memory != nullptr && (attention.is_causal || reads_other_rows)) {
    const at::Tensor bias = tensors.inputs.size() > bias_place ? tensors.inputs[bias_place] : at::Tensor();
    return {memory->attend({context.site, attention.is_causal, attention.scale, bias}, query, key, value), {}};
  }
  // Kernels are not asked about no rows, nor about keys of which there are none.
  if (query.numel() == 0) return {at::zeros_like(query), {at::zeros_like(query)}};
  const kernels::AttentionOutput output =
      kernels::attention_forward(query, key, value, call_of(attention, tensors, context));
  return {output.out, {output.statistics}};
}

StepGradients backward(const Attention& attention, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const at::Tensor query = tensors.inputs[0].contiguous(), key = tensors.inputs[1].contiguous(),
                   value = tensors.inputs[2].contiguous();
  StepGradients gradients(tensors.inputs.size());
  kernels::AttentionGradients made;
  if (query.numel() == 0) {
    made = {at::zeros_like(query), at::zeros_like(key), at::zeros_like(value), {}};
    if (gradients.size() > bias_place) made.bias = at::zeros_like(tensors.inputs[bias_place]);
  } else {
    made = kernels::attention_backward(dy.contiguous(), query, key, value, {tensors.output, tensors.statistics[0]},
                                       call_of(attention, tensors, context));
  }
  const at::Tensor all[] = {made.query, made.key, made.value, made.bias};
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (context.shape.has_gradient(i)) gradients[i] = typed_gradient(context, i, dy, all[i]);
  return gradients;
}

}  // namespace llmtrain::body
