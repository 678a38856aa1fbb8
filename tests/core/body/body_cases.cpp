// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/body_cases.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "core/body/body_writer.h"

namespace llmtrain::body::test {
namespace {

using Tensors = std::vector<at::Tensor>;

Body finished(BodyWriter& writer, TensorId output) {
  writer.output(output);
  return writer.take();
}

// The product of an input with a parameter, by letters: {"thd", "fhd", "tf"}.
BodyCase product_case(const std::string& left, const std::string& right, const std::string& result) {
  const auto make = [=] {
    BodyWriter w;
    std::map<char, AxisId> axes;
    for (const char letter : left + right)
      if (!axes.contains(letter)) axes[letter] = w.axis(std::string(1, letter), 2 + letter % 7);
    const auto labelled = [&](const std::string& letters) {
      std::vector<AxisId> found;
      for (const char letter : letters) found.push_back(axes.at(letter));
      return found;
    };
    const TensorId x = w.input("x", labelled(left)), weight = w.parameter("weight", labelled(right));
    return finished(w, w.product(x, weight, labelled(result)));
  };
  return {"product " + left + "," + right + "->" + result, make,
          [=](const Tensors& t) { return at::einsum(left + "," + right + "->" + result, t); }};
}

std::vector<BodyCase> product_cases() {
  return {product_case("th", "fh", "tf"),        // a linear layer
          product_case("ht", "fh", "ft"),        // with its axes in another order
          product_case("bsh", "ndh", "bsnd"),    // to heads
          product_case("bsnd", "hnd", "bsh"),    // and back
          product_case("btnd", "bsnd", "bnts"),  // scores
          product_case("bnts", "bsnd", "btnd"),  // weighted sums
          product_case("tn", "tn", "t"),         // of rows with rows
          product_case("tn", "tn", "nt"),        // nothing is summed
          product_case("t", "n", "nt"),          // outer
          product_case("tn", "nt", "")};         // all is
}

template <class Reference>
BodyCase elementwise_case(const std::string& name, ElementwiseKind kind, Reference reference) {
  const auto make = [=] {
    BodyWriter w;
    const AxisId t = w.axis("t", 5), h = w.axis("h", 6);
    std::vector<TensorId> operands{w.input("x", {t, h})};
    const bool is_of_two = kind == ElementwiseKind::swiglu;
    if (is_of_two) operands.push_back(w.input("up", {t, h}));
    return finished(w, w.elementwise(kind, operands));
  };
  return {name, make, [=](const Tensors& t) { return reference(t); }};
}

std::vector<BodyCase> elementwise_cases() {
  using Kind = ElementwiseKind;
  return {elementwise_case("relu", Kind::relu, [](const Tensors& t) { return at::relu(t[0]); }),
          elementwise_case("gelu", Kind::gelu, [](const Tensors& t) { return at::gelu(t[0]); }),
          elementwise_case("gelu_tanh", Kind::gelu_tanh, [](const Tensors& t) { return at::gelu(t[0], "tanh"); }),
          elementwise_case("silu", Kind::silu, [](const Tensors& t) { return at::silu(t[0]); }),
          elementwise_case("sigmoid", Kind::sigmoid, [](const Tensors& t) { return at::sigmoid(t[0]); }),
          elementwise_case("tanh", Kind::tanh, [](const Tensors& t) { return at::tanh(t[0]); }),
          elementwise_case("swiglu", Kind::swiglu, [](const Tensors& t) { return at::silu(t[0]) * t[1]; })};
}

// Operands that lack axes of the first, in another order.
BodyCase repeated_case(const std::string& name, ElementwiseKind kind) {
  const auto make = [=] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), s = w.axis("s", 4), h = w.axis("h", 5);
    const TensorId x = w.input("x", {b, s, h}), y = w.parameter("y", {h, b});
    if (kind == ElementwiseKind::multiply) return finished(w, w.elementwise(kind, {x, y}));
    return finished(w, w.elementwise(kind, {x, y, w.parameter("bias", {h}), w.input("z", {b, s, h})}));
  };
  return {name, make, [=](const Tensors& t) {
            const at::Tensor y = t[1].t().unsqueeze(1);
            return kind == ElementwiseKind::multiply ? t[0] * y : t[0] + y + t[2] + t[3];
          }};
}

BodyCase scale_case() {
  return {"scale",
          [] {
            BodyWriter w;
            const AxisId t = w.axis("t", 5);
            return finished(w, w.scale(w.parameter("x", {t}), -1.75));
          },
          [](const Tensors& t) { return -1.75 * t[0]; }};
}

BodyCase softmax_case() {
  return {"softmax",
          [] {
            BodyWriter w;
            const AxisId b = w.axis("b", 3), s = w.axis("s", 4), n = w.axis("n", 2);
            return finished(w, w.softmax(w.input("x", {b, s, n}), s));
          },
          [](const Tensors& t) { return at::softmax(t[0], 1); }};
}

BodyCase norm_case(NormKind kind, bool has_bias) {
  const auto make = [=] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), s = w.axis("s", 4), h = w.axis("h", 5);
    const TensorId x = w.input("x", {b, s, h}), weight = w.parameter("weight", {h});
    std::optional<TensorId> bias;
    if (has_bias) bias = w.parameter("bias", {h});
    return finished(w, w.norm({kind, 0.02}, x, weight, bias));
  };
  return {kind == NormKind::layer ? "layer norm" : "root-mean-square norm", make, [=](const Tensors& t) {
            const at::Tensor centred = kind == NormKind::layer ? t[0] - t[0].mean(-1, true) : t[0];
            const at::Tensor normed = centred * (centred.square().mean(-1, true) + 0.02).rsqrt() * t[1];
            return has_bias ? normed + t[2] : normed;
          }};
}

BodyCase reduce_case(ReduceKind kind, bool is_whole) {
  const auto make = [=] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), s = w.axis("s", 4), h = w.axis("h", 5);
    const std::vector<AxisId> left = is_whole ? std::vector<AxisId>{} : std::vector<AxisId>{b, h};
    return finished(w, w.reduce(kind, w.input("x", {b, s, h}), left));
  };
  return {kind == ReduceKind::sum ? "sum" : "mean", make, [=](const Tensors& t) {
            if (is_whole) return kind == ReduceKind::sum ? t[0].sum() : t[0].mean();
            return kind == ReduceKind::sum ? t[0].sum(1) : t[0].mean(1);
          }};
}

std::vector<BodyCase> rearrange_cases() {
  const auto of = [](const std::string& name, auto write, auto reference) {
    const auto make = [=] {
      BodyWriter w;
      const std::vector<AxisId> axes{w.axis("a", 2), w.axis("b", 3), w.axis("c", 4)};
      const TensorId x = w.input("x", axes);
      return finished(w, write(w, x, axes));
    };
    return BodyCase{name, make, [=](const Tensors& t) { return reference(t[0]); }};
  };
  using Axes = std::vector<AxisId>;
  return {of(
              "permute",
              [](BodyWriter& w, TensorId x, const Axes& a) {
                return w.permute(x, {a[2], a[0], a[1]});
              },
              [](const at::Tensor& x) {
                return x.permute({2, 0, 1});
              }),
          of(
              "merge",
              [](BodyWriter& w, TensorId x, const Axes& a) {
                return w.merge(x, {a[1], a[2]}, w.axis("bc", 12));
              },
              [](const at::Tensor& x) {
                return x.reshape({2, 12});
              }),
          of(
              "split",
              [](BodyWriter& w, TensorId x, const Axes& a) {
                return w.split(x, a[2], {w.axis("d", 2), w.axis("e", 2)});
              },
              [](const at::Tensor& x) {
                return x.reshape({2, 3, 2, 2});
              }),
          of(
              "slice", [](BodyWriter& w, TensorId x, const Axes& a) { return w.slice(x, a[1], w.axis("d", 2), 1); },
              [](const at::Tensor& x) { return x.narrow(1, 1, 2); }),
          of(
              "relabel", [](BodyWriter& w, TensorId x, const Axes& a) { return w.slice(x, a[1], w.axis("d", 3)); },
              [](const at::Tensor& x) { return x; })};
}

BodyCase join_case() {
  return {"join",
          [] {
            BodyWriter w;
            const AxisId b = w.axis("b", 3), h = w.axis("h", 5);
            const AxisId one = w.axis("one", 1), four = w.axis("four", 4), all = w.axis("all", 5);
            const TensorId first = w.parameter("class", {b, one, h}), x = w.input("x", {b, four, h});
            return finished(w, w.join({first, x}, all));
          },
          [](const Tensors& t) { return at::cat(t, 1); }};
}

struct AttentionShape {
  std::string name;
  Attention attention;
  std::int64_t queries = 5, keys = 5, heads = 4, groups = 4;
  bool has_bias = false;
};

// Queries and keys of the same extents have one label, but with a bias.
Body attention_body(const AttentionShape& of) {
  BodyWriter w;
  const AxisId b = w.axis("b", 3), s = w.axis("s", of.queries), n = w.axis("n", of.heads), d = w.axis("d", 6);
  const AxisId m = of.keys == of.queries && !of.has_bias ? s : w.axis("m", of.keys);
  const AxisId g = of.groups == of.heads ? n : w.axis("g", of.groups);
  const TensorId query = w.input("query", {b, s, n, d});
  const TensorId key = w.input("key", {b, m, g, d}), value = w.input("value", {b, m, g, d});
  std::optional<TensorId> bias;
  if (of.has_bias) bias = w.parameter("bias", {n, s, m});
  return finished(w, w.attention(of.attention, query, key, value, bias));
}

BodyCase attention_case(const AttentionShape& of) {
  return {of.name, [=] { return attention_body(of); },
          [=](const Tensors& t) {
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

std::vector<BodyCase> attention_cases() {
  std::vector<BodyCase> cases;
  for (const AttentionShape& of :
       {AttentionShape{"attention", {}}, AttentionShape{"causal attention", {.is_causal = true}},
        AttentionShape{"stored attention", {.scale = 0.7, .stores_scores = true}},
        AttentionShape{"attention of groups", {}, 5, 5, 4, 2}, AttentionShape{"cross-attention", {}, 4, 7, 4, 4},
        AttentionShape{"causal attention with a bias", {.is_causal = true, .scale = 1}, 5, 5, 4, 4, true},
        AttentionShape{"attention of groups with a bias", {}, 3, 5, 4, 2, true}})
    cases.push_back(attention_case(of));
  return cases;
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
  return {"gather", make, [](const Tensors& t) { return at::embedding(t[0], t[1]); },
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
          [](const Tensors& t) { return -at::log_softmax(t[0], 2).gather(2, t[1].unsqueeze(2)).squeeze(2); },
          [](const Body& body) { return numbers_below(7, body); }};
}

// A pre-norm network whose input has two readers, and one of whose weights has two as well.
Body network() {
  BodyWriter w;
  const AxisId t = w.axis("t", 7), h = w.axis("h", 4), f = w.axis("f", 6);
  const TensorId x = w.input("x", {t, h}), up = w.parameter("up", {f, h});
  const TensorId weight = w.parameter("weight", {h}), bias = w.parameter("bias", {h});
  const TensorId normed = w.norm({NormKind::layer, 1e-3}, x, weight, bias);
  const TensorId hidden = w.elementwise(ElementwiseKind::add, {w.product(normed, up, {t, f}), w.parameter("b", {f})});
  const TensorId active = w.elementwise(ElementwiseKind::gelu, {w.named(hidden, "hidden")});
  const TensorId down = w.product(w.dropout(0, active), up, {t, h});
  return finished(w, w.elementwise(ElementwiseKind::add, {x, down}));
}

at::Tensor network_reference(const Tensors& t) {
  const at::Tensor normed = at::layer_norm(t[0], {4}, t[2], t[3], 1e-3);
  return t[0] + at::matmul(at::gelu(at::matmul(normed, t[1].t()) + t[4]), t[1]);
}

// Attention of primitives alone, through views.
Body written_attention() {
  BodyWriter w;
  const AxisId b = w.axis("b", 2), s = w.axis("s", 5), h = w.axis("h", 4), n = w.axis("n", 3), d = w.axis("d", 6);
  const AxisId key = w.axis("key", 5), rows = w.axis("rows", 10);
  const TensorId x = w.input("x", {rows, h});
  const TensorId sequences = w.split(x, rows, {b, s});
  const TensorId query = w.product(sequences, w.parameter("query", {n, d, h}), {b, s, n, d});
  const TensorId keys = w.slice(w.product(sequences, w.parameter("key", {n, d, h}), {b, s, n, d}), s, key);
  const TensorId values = w.slice(w.product(sequences, w.parameter("value", {n, d, h}), {b, s, n, d}), s, key);
  const TensorId scores = w.scale(w.product(query, keys, {b, n, s, key}), 0.4);
  const TensorId mixed = w.product(w.softmax(scores, key), values, {b, s, n, d});
  const TensorId y = w.product(mixed, w.parameter("output", {h, n, d}), {b, s, h});
  return finished(w, w.merge(y, {b, s}, rows));
}

at::Tensor written_attention_reference(const Tensors& t) {
  const at::Tensor x = t[0].view({2, 5, 4});
  const auto heads = [&](const at::Tensor& weight) { return at::einsum("bsh,ndh->bnsd", {x, weight}); };
  const at::Tensor p = at::softmax(0.4 * at::matmul(heads(t[1]), heads(t[2]).transpose(2, 3)), 3);
  return at::einsum("bnsd,hnd->bsh", {at::matmul(p, heads(t[3])), t[4]}).reshape({10, 4});
}

}  // namespace

std::vector<BodyCase> primitive_cases() {
  std::vector<BodyCase> cases = product_cases();
  const auto add = [&](const std::vector<BodyCase>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  add(elementwise_cases());
  add({repeated_case("sum", ElementwiseKind::add), repeated_case("product of elements", ElementwiseKind::multiply),
       scale_case(), softmax_case()});
  add({norm_case(NormKind::layer, true), norm_case(NormKind::layer, false),
       norm_case(NormKind::root_mean_square, false)});
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::mean})
    add({reduce_case(kind, false), reduce_case(kind, true)});
  add(rearrange_cases());
  add(attention_cases());
  add({join_case(), gather_case(false), gather_case(true), cross_entropy_case()});
  return cases;
}

std::vector<BodyCase> composed_cases() {
  return {{"network", network, network_reference},
          {"written attention", written_attention, written_attention_reference}};
}

}  // namespace llmtrain::body::test
