// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/body_cases.h"

#include <ATen/ATen.h>

#include "core/body/body_writer.h"

namespace llmtrain::body::test {
namespace {

using Tensors = std::vector<at::Tensor>;

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
          elementwise_case("exp", Kind::exp, [](const Tensors& t) { return at::exp(t[0]); }),
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
              [](const at::Tensor& x) { return x; }),
          of(
              "repeat", [](BodyWriter& w, TensorId x, const Axes&) { return w.repeat(x, w.axis("d", 5)); },
              [](const at::Tensor& x) {
                return x.unsqueeze(0).expand({5, 2, 3, 4});
              })};
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

// BERT's pooler: the first token of each sequence, which is kept, and not all of them.
BodyCase pooler_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 3), s = w.axis("s", 5), h = w.axis("h", 4), o = w.axis("o", 6);
    const TensorId first = w.slice(w.scale(w.input("x", {b, s, h}), 2), s, w.axis("first", 1));
    const TensorId pooled = w.product(first, w.parameter("weight", {o, h}), {b, w.axes_of(first)[1], o});
    return finished(w, w.elementwise(ElementwiseKind::tanh, {pooled}));
  };
  return {"pooler", make, [](const Tensors& t) { return at::tanh(at::matmul(2 * t[0].narrow(1, 0, 1), t[1].t())); }};
}

}  // namespace

Body finished(BodyWriter& writer, TensorId output) {
  writer.output(output);
  return writer.take();
}

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
  add(image_cases());
  add(lookup_cases());
  add({join_case()});
  return cases;
}

std::vector<BodyCase> composed_cases() {
  std::vector<BodyCase> cases{{"network", network, network_reference},
                              {"written attention", written_attention, written_attention_reference},
                              patches_case(),
                              pooler_case()};
  const std::vector<BodyCase> of_points = point_cases();
  cases.insert(cases.end(), of_points.begin(), of_points.end());
  return cases;
}

}  // namespace llmtrain::body::test
