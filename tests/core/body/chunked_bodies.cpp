// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/chunked_bodies.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <variant>

#include "core/body/body_writer.h"
#include "core/body/families/bart.h"
#include "core/body/families/bert.h"
#include "core/body/families/gaussian_process.h"
#include "core/body/families/nearest_neighbours.h"
#include "core/body/families/resnet.h"
#include "core/body/families/t5.h"
#include "core/body/families/vit.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

constexpr std::int64_t samples = 3, tokens = 11, source = 5;

// How many numbers there are of what the field's reader looks up.
std::int64_t numbers_of(const Body& body, TensorId field) {
  for (const Step& step : body.steps) {
    if (step.inputs.size() < 2 || step.inputs[1] != field) continue;
    const BodyTensor& read = body.tensors[step.inputs[0]];
    if (std::holds_alternative<Gather>(step.primitive)) return body.axes[read.axes.front()].extent;
    if (std::holds_alternative<CrossEntropy>(step.primitive)) return body.axes[read.axes.back()].extent;
  }
  return 0;
}

}  // namespace

Body feed_forward_body(std::int64_t rows, std::int64_t hidden, std::int64_t width) {
  BodyWriter w;
  const AxisId t = w.axis("t", rows), h = w.axis("h", hidden), f = w.axis("f", width);
  const TensorId x = w.input("x", {t, h});
  const TensorId gate_weight = w.parameter("gate", {f, h}), up_weight = w.parameter("up", {f, h});
  const TensorId down_weight = w.parameter("down", {h, f});
  const TensorId gate = w.product(x, gate_weight, {t, f});
  const TensorId up = w.product(x, up_weight, {t, f});
  const TensorId y = w.product(w.elementwise(ElementwiseKind::swiglu, {gate, up}), down_weight, {t, h});
  return finished(w, w.elementwise(ElementwiseKind::add, {x, y}));
}

Body head_body(std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary) {
  BodyWriter w;
  const AxisId t = w.axis("t", rows), h = w.axis("h", hidden), v = w.axis("v", vocabulary);
  const TensorId x = w.input("x", {t, h}), weight = w.parameter("weight", {v, h}), targets = w.field("targets", {t});
  return finished(w, w.cross_entropy(w.named(w.product(x, weight, {t, v}), "logits"), targets));
}

Body query_body(std::int64_t queries, std::int64_t keys, std::int64_t heads, std::int64_t features) {
  BodyWriter w;
  const AxisId t = w.axis("t", queries), s = w.axis("s", keys), n = w.axis("n", heads), d = w.axis("d", features);
  const TensorId query = w.input("query", {n, t, d}), key = w.input("key", {n, s, d}),
                 value = w.input("value", {n, d, s});
  const TensorId scores = w.scale(w.product(query, key, {n, t, s}), 0.4);
  const TensorId probabilities = w.named(w.softmax(scores, s), "probabilities");
  return finished(w, w.product(probabilities, value, {n, t, d}));
}

Body convolutions_body(std::int64_t channels) {
  BodyWriter w;
  const AxisId b = w.axis("b", 2), c = w.axis("c", 3), m = w.axis("m", channels), o = w.axis("o", 4);
  const AxisId height = w.axis("height", 6), width = w.axis("width", 5);
  const AxisId kh = w.axis("kh", 3), kw = w.axis("kw", 3), ph = w.axis("ph", 1), pw = w.axis("pw", 1);
  const TensorId x = w.input("x", {b, c, height, width});
  const TensorId wide = w.parameter("wide", {m, c, kh, kw}), narrow = w.parameter("narrow", {o, m, ph, pw});
  const TensorId made = w.convolution({.padding = {1, 1}}, x, wide);
  const TensorId active = w.elementwise(ElementwiseKind::silu, {made});
  return finished(w, w.convolution({}, active, narrow));
}

std::vector<NamedBody> family_bodies() {
  const BertModel bert{.hidden = 12,
                       .heads = 2,
                       .width = 14,
                       .vocabulary = 17,
                       .positions = 13,
                       .token_types = 2,
                       .dropout = 0,
                       .attention_dropout = 0};
  const BartModel bart{.hidden = 12, .heads = 2, .width = 14, .vocabulary = 17, .positions = 13, .dropout = 0};
  const T5Model t5{
      .hidden = 12, .heads = 2, .head_dim = 6, .width = 14, .is_gated = true, .dropout = 0, .attention_dropout = 0};
  const VitModel vit{.hidden = 12, .heads = 2, .width = 14, .image = 8, .patch = 4};
  const Norm norm{.kind = NormKind::group, .epsilon = 1e-5, .groups = 2};
  return {
      {"bert.embedding", bert_embedding(bert, samples, tokens)},
      {"bert.layer", bert_layer(bert, samples, tokens)},
      {"bert.masked_language_head", bert_masked_language_head(bert, samples, tokens)},
      {"bert.classifier", bert_classifier(bert, 5, samples, tokens)},
      {"bart.embedding", bart_embedding(bart, samples, tokens)},
      {"bart.encoder_layer", bart_encoder_layer(bart, samples, tokens)},
      {"bart.decoder_layer", bart_decoder_layer(bart, samples, tokens, source)},
      {"t5.relative_bias", t5_relative_bias(t5, false, tokens)},
      {"t5.encoder_layer", t5_encoder_layer(t5, samples, tokens, ScoreBias::table)},
      {"t5.decoder_layer", t5_decoder_layer(t5, samples, tokens, source)},
      {"vit.embedding", vit_embedding(vit, samples)},
      {"vit.layer", vit_layer(vit, samples)},
      {"vit.classifier", vit_classifier_loss(vit, 5, samples)},
      {"resnet.stem", resnet_stem({3, 16, 16}, 4, norm, samples)},
      {"resnet.block",
       resnet_block({.is_bottleneck = true, .width = 4, .channels = 6, .stride = 2, .norm = norm}, {4, 6, 6}, samples)},
      {"resnet.classifier", resnet_classifier({4, 6, 6}, 5, samples)},
      {"nearest_neighbours", nearest_neighbours({.points = 13, .features = 3, .classes = 5, .neighbours = 4}, tokens)},
      {"sparse_gaussian_process", sparse_gaussian_process({.inducing = 5, .features = 3, .jitter = 0.01}, 23)}};
}

std::vector<at::Tensor> fields_of(const Body& body) {
  static at::Generator generator = at::detail::createCPUGenerator(99);
  std::vector<at::Tensor> fields;
  for (const TensorId id : body.tensors_of(BodyTensor::Role::field)) {
    const std::int64_t numbers = numbers_of(body, id);
    fields.push_back(numbers == 0 ? random_tensor(body.shape_of(id))
                                  : at::randint(numbers, body.shape_of(id), generator, at::kLong));
  }
  return fields;
}

NamedPasses passes_of_cut(const Body& body, const Body& cut, const GivenTensors& given,
                          const std::vector<at::Tensor>& output_gradients, const BodyPass& pass) {
  GivenTensors named = given;
  named.tensors.clear();
  for (const auto& [id, tensor] : given.tensors) named.tensors.emplace(cut.tensor_named(body.tensors[id].name), tensor);
  Passes passes = passes_of(run_of(cut), named, output_gradients, pass);
  NamedPasses result{std::move(passes.values), {}};
  for (auto& [id, gradient] : passes.gradients) result.gradients.emplace(cut.tensors[id].name, gradient);
  return result;
}

}  // namespace llmtrain::body::test
