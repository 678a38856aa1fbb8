// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "core/body/body_writer.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

using OfTensors = std::vector<at::Tensor>;

struct AttentionShape {
  std::string name;
  Attention attention;
  std::int64_t queries = 5, keys = 5, heads = 4, groups = 4;
  bool has_bias = false;
  bool has_one_label = false;  // of queries and keys of equal extents, though there is a bias
};

// Queries and keys of the same extents have one label, but with most biases.
Body attention_body(const AttentionShape& of) {
  BodyWriter w;
  const AxisId b = w.axis("b", 3), s = w.axis("s", of.queries), n = w.axis("n", of.heads), d = w.axis("d", 6);
  const bool has_one_label = of.keys == of.queries && (!of.has_bias || of.has_one_label);
  const AxisId of_bias = of.has_bias || !has_one_label ? w.axis("m", of.keys) : s;
  const AxisId m = has_one_label ? s : of_bias;
  const AxisId g = of.groups == of.heads ? n : w.axis("g", of.groups);
  const TensorId query = w.input("query", {b, s, n, d});
  const TensorId key = w.input("key", {b, m, g, d}), value = w.input("value", {b, m, g, d});
  std::optional<TensorId> bias;
  if (of.has_bias) bias = w.parameter("bias", {n, s, of_bias});
  return finished(w, w.attention(of.attention, query, key, value, bias));
}

BodyCase attention_case(const AttentionShape& of) {
  return {of.name, [=] { return attention_body(of); },
          [=](const OfTensors& t) {
            const auto heads = [&](const at::Tensor& x) {
              return x.repeat_interleave(of.heads / x.size(2), 2).transpose(1, 2);
            };
            const double scale = of.attention.scale.value_or(1 / std::sqrt(6.0));
            at::Tensor scores = at::matmul(heads(t[0]), heads(t[1]).transpose(2, 3)) * scale;
            if (of.has_bias) scores = scores + t[3];
            const at::Tensor future = at::ones({of.queries, of.keys}, at::kBool).triu(1);
            if (of.attention.is_causal) scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
            return at::matmul(at::softmax(scores, 3), heads(t[2])).transpose(1, 2);
          }};
}

// A convolution along one to three axes.
BodyCase convolution_case(const std::string& name, const Convolution& convolution,
                          const std::vector<std::int64_t>& image, const std::vector<std::int64_t>& kernel) {
  const std::int64_t groups = convolution.groups, channels = 4;
  const auto make = [=] {
    BodyWriter w;
    std::vector<AxisId> of_image{w.axis("b", 3), w.axis("c", channels)};
    const AxisId read = groups == 1 ? of_image[1] : w.axis("c_of_group", channels / groups);
    std::vector<AxisId> of_kernel{w.axis("o", 6), read};
    for (std::size_t i = 0; i < image.size(); ++i) {
      of_image.push_back(w.axis("x" + std::to_string(i), image[i]));
      of_kernel.push_back(w.axis("k" + std::to_string(i), kernel[i]));
    }
    const TensorId x = w.input("x", of_image);
    return finished(w, w.convolution(convolution, x, w.parameter("kernel", of_kernel)));
  };
  const Convolution along = along_axes(convolution, image.size());
  return {name, make, [=](const OfTensors& t) {
            if (image.size() == 1)
              return at::conv1d(t[0], t[1], {}, along.stride, along.padding, along.dilation, groups);
            if (image.size() == 2)
              return at::conv2d(t[0], t[1], {}, along.stride, along.padding, along.dilation, groups);
            return at::conv3d(t[0], t[1], {}, along.stride, along.padding, along.dilation, groups);
          }};
}

BodyCase pool_case(const std::string& name, const Pool& pool) {
  const auto make = [=] {
    BodyWriter w;
    return finished(
        w, w.pool(pool, w.input("x", {w.axis("b", 3), w.axis("c", 4), w.axis("height", 13), w.axis("width", 11)})));
  };
  return {name, make, [=](const OfTensors& t) {
            return pool.kind == PoolKind::average ? at::avg_pool2d(t[0], pool.window, pool.stride)
                                                  : at::max_pool2d(t[0], pool.window, pool.stride, pool.padding);
          }};
}

BodyCase group_norm_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), c = w.axis("c", 6), y = w.axis("y", 4), x = w.axis("x", 5);
    const TensorId images = w.input("images", {b, c, y, x}), weight = w.parameter("weight", {c});
    return finished(w, w.norm({NormKind::group, 0.02, 3}, images, weight, w.parameter("bias", {c})));
  };
  return {"group norm", make, [](const OfTensors& t) { return at::group_norm(t[0], 3, t[1], t[2], 0.02); }};
}

std::vector<at::Tensor> numbers_below(std::int64_t limit, const Body& body) {
  std::vector<at::Tensor> fields;
  for (const TensorId id : body.tensors_of(BodyTensor::Role::field)) {
    const at::Tensor wide = random_tensor(body.shape_of(id)).abs() * 1000;
    fields.push_back(wide.to(at::kLong).remainder(limit));
  }
  return fields;
}

// Rows of a parameter, and of what other blocks make; some more than once, others never.
BodyCase gather_case(bool of_input) {
  const auto make = [=] {
    BodyWriter w;
    const AxisId v = w.axis("v", 9), h = w.axis("h", 4), b = w.axis("b", 3), s = w.axis("s", 5);
    const TensorId table = of_input ? w.input("table", {v, h}) : w.parameter("table", {v, h});
    return finished(w, w.gather(table, w.field("numbers", {b, s})));
  };
  return {"gather", make, [](const OfTensors& t) { return at::embedding(t[0], t[1]); },
          [](const Body& body) { return numbers_below(9, body); }};
}

BodyCase cross_entropy_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), s = w.axis("s", 5), v = w.axis("v", 7);
    const TensorId logits = w.input("logits", {b, s, v});
    return finished(w, w.cross_entropy(logits, w.field("targets", {b, s})));
  };
  return {"cross-entropy", make,
          [](const OfTensors& t) { return -at::log_softmax(t[0], 2).gather(2, t[1].unsqueeze(2)).squeeze(2); },
          [](const Body& body) { return numbers_below(7, body); }};
}

}  // namespace

BodyCase patches_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 2), c = w.axis("c", 3), y = w.axis("y", 4), x = w.axis("x", 6);
    const AxisId h = w.axis("h", 5), ky = w.axis("ky", 2), kx = w.axis("kx", 2), s = w.axis("s", 6);
    const TensorId images = w.input("images", {b, c, y, x});
    const TensorId cut = w.convolution({.stride = {2, 2}}, images, w.parameter("kernel", {h, c, ky, kx}));
    const TensorId tokens = w.merge(cut, {w.axes_of(cut)[2], w.axes_of(cut)[3]}, s);
    return finished(w, w.permute(tokens, {b, s, h}));
  };
  return {"patches", make, [](const OfTensors& t) {
            return at::conv2d(t[0], t[1], {}, {2, 2}).flatten(2).transpose(1, 2);
          }};
}

std::vector<BodyCase> attention_cases() {
  std::vector<BodyCase> cases;
  for (const AttentionShape& of :
       {AttentionShape{"attention", {}}, AttentionShape{"causal attention", {.is_causal = true}},
        AttentionShape{"stored attention", {.scale = 0.7, .stores_scores = true}},
        AttentionShape{"attention of groups", {}, 5, 5, 4, 2}, AttentionShape{"cross-attention", {}, 4, 7, 4, 4},
        AttentionShape{"causal attention with a bias", {.is_causal = true, .scale = 1}, 5, 5, 4, 4, true},
        AttentionShape{"attention with a bias among the same tokens", {}, 5, 5, 4, 4, true, true},
        AttentionShape{"attention of groups with a bias", {}, 3, 5, 4, 2, true}})
    cases.push_back(attention_case(of));
  return cases;
}

std::vector<BodyCase> image_cases() {
  return {
      convolution_case("convolution of lines", {.stride = {2}, .padding = {1}}, {17}, {3}),
      convolution_case("convolution", {}, {7, 9}, {3, 2}),
      convolution_case("convolution with all", {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}}, {13, 11},
                       {3, 3}),
      convolution_case("convolution of groups", {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}, {13, 11}, {3, 3}),
      convolution_case("convolution of volumes", {.padding = {1, 0, 1}}, {7, 6, 8}, {3, 2, 3}),
      pool_case("max pool", {PoolKind::max, {3, 2}, {2, 2}, {1, 1}}),
      pool_case("mean pool", {PoolKind::average, {3, 2}, {2, 1}}),
      group_norm_case()};
}

std::vector<BodyCase> lookup_cases() { return {gather_case(false), gather_case(true), cross_entropy_case()}; }

}  // namespace llmtrain::body::test
