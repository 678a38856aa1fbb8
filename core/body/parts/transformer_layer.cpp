// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/transformer_layer.h"

#include "core/body/parts/linear.h"

namespace llmtrain::body {

TensorId write_attention(BodyWriter& writer, const std::string& name, const AttentionPart& part, const Heads& axes,
                         TensorId x, TensorId memory, std::optional<TensorId> score_bias) {
  const AxisId hidden = writer.axes_of(x).back();
  const std::vector<AxisId> from{hidden}, to{axes.heads, axes.features};
  const auto project = [&](const char* role, TensorId read) {
    return write_linear(writer, {name + "." + role, from, to, part.has_biases}, read);
  };
  const TensorId query = project("query", x);
  const TensorId key = project("key", memory);
  const TensorId value = project("value", memory);
  const Attention attention{.is_causal = part.is_causal, .dropout = part.dropout, .scale = part.scale};
  const TensorId mixed = writer.named(writer.attention(attention, query, key, value, score_bias), name + ".mixed");
  return write_linear(writer, {name + ".output", to, from, part.has_biases}, mixed);
}

TensorId write_feed_forward(BodyWriter& writer, const std::string& name, const FeedForwardPart& part, TensorId x) {
  const AxisId hidden = writer.axes_of(x).back(), width = writer.axis(name + ".width", part.width);
  const auto widen = [&](const char* role) {
    return write_linear(writer, {name + "." + role, {hidden}, {width}, part.has_biases}, x);
  };
  TensorId active = 0;
  if (!part.is_gated) {
    active = writer.elementwise(part.activation, {widen("up")});
  } else {
    const TensorId gate = widen("gate");
    const TensorId up = widen("up");
    active = part.activation == ElementwiseKind::silu
                 ? writer.elementwise(ElementwiseKind::swiglu, {gate, up})
                 : writer.elementwise(ElementwiseKind::multiply, {writer.elementwise(part.activation, {gate}), up});
  }
  active = write_dropout(writer, name + ".active", part.dropout, writer.named(active, name + ".active"));
  return write_linear(writer, {name + ".down", {width}, {hidden}, part.has_biases}, active);
}

TensorId write_residual(BodyWriter& writer, const std::string& name, const ResidualPart& part, TensorId x,
                        const std::function<TensorId(TensorId normed)>& write) {
  const TensorId read = part.norms_before ? write_norm(writer, name + "_norm", part.norm, x) : x;
  const TensorId made = write_dropout(writer, name + ".output", part.dropout, write(read));
  const TensorId sum = writer.named(writer.elementwise(ElementwiseKind::add, {x, made}), name + "_sum");
  return part.norms_before ? sum : write_norm(writer, name + "_norm", part.norm, sum);
}

TensorId write_layer(BodyWriter& writer, const TransformerLayer& layer, TensorId x, const LayerReads& reads) {
  const AttentionPart& part = layer.attention;
  const Heads axes{reads.heads ? *reads.heads : writer.axis("heads", part.heads),
                   writer.axis("head_features", part.head_dim)};
  TensorId y = write_residual(writer, "attention", layer.residual, x, [&](TensorId read) {
    return write_attention(writer, "attention", part, axes, read, read, reads.score_bias);
  });
  if (reads.memory) {
    AttentionPart cross = part;
    cross.is_causal = false;
    y = write_residual(writer, "cross_attention", layer.residual, y, [&](TensorId read) {
      return write_attention(writer, "cross_attention", cross, axes, read, *reads.memory);
    });
  }
  return write_residual(writer, "ffn", layer.residual, y,
                        [&](TensorId read) { return write_feed_forward(writer, "ffn", layer.feed_forward, read); });
}

}  // namespace llmtrain::body
