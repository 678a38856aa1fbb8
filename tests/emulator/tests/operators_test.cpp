// SPDX-License-Identifier: Apache-2.0
// Operators on the emulated device against the CPU's, and those that the CPU lacks against float64.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "tests/emulator/tests/torch_programs.h"
#include "tests/emulator/torch/boxed_values.h"

using namespace emulated;
using namespace emulated::test;
using c10::IValue;

namespace {

struct Case {
  std::string name, overload;
  Values arguments;  // those without a default, or more
};

c10::List<at::Tensor> list(const std::vector<at::Tensor>& tensors) { return c10::List<at::Tensor>(tensors); }

std::vector<Case> cases() {
  const at::Tensor x = numbers({8, 16}), w = numbers({16, 24}), rows = at::arange(4, at::kLong);
  const c10::List<std::optional<at::Tensor>> index{std::optional<at::Tensor>(rows)};
  const c10::List<std::int64_t> width{16}, sizes{4, 4}, padding{0, 2};
  const c10::List<bool> all{true, true, true};
  const at::Tensor mean = numbers({8, 1}), rstd = numbers({8, 1}).abs(), gain = numbers({16});
  return {
      {"mm", "", {x, w}},
      {"mm", "", {x.to(at::kBFloat16), w.to(at::kBFloat16)}},
      {"addmm", "", {numbers({24}), x, w}},
      {"bmm", "", {numbers({2, 4, 8}), numbers({2, 8, 4})}},
      {"native_layer_norm", "", {x, width, gain, gain, 1e-5}},
      {"native_layer_norm_backward", "", {x, x, width, mean, rstd, gain, gain, all}},
      {"_softmax", "", {x, 1, false}},
      {"_log_softmax", "", {x, 1, false}},
      {"gelu_backward", "", {x, x}},
      {"silu_backward", "", {x, x}},
      {"embedding_dense_backward", "", {numbers({4, 16}), rows, 10, -1, false}},
      {"index_select", "", {x, 0, rows}},
      {"index", "Tensor", {x, index}},
      {"index_add_", "", {numbers({8, 16}), 0, rows, numbers({4, 16})}},
      {"index_put_", "", {numbers({8, 16}), index, numbers({4, 16}), true}},
      {"index_copy_", "", {numbers({8, 16}), 0, rows, numbers({4, 16})}},
      {"gather", "", {x, 1, at::zeros({8, 1}, at::kLong)}},
      {"scatter_add_", "", {numbers({8, 16}), 1, at::zeros({8, 1}, at::kLong), numbers({8, 1})}},
      {"topk", "", {x, 2}},
      {"sort", "", {x}},
      {"argsort", "", {x}},
      {"cumsum", "", {x, 0}},
      {"bincount", "", {rows}},
      {"nonzero", "", {x.gt(0)}},
      {"masked_select", "", {x, x.gt(0)}},
      {"searchsorted", "Tensor", {at::arange(8, at::kFloat), numbers({4})}},
      {"where", "self", {x.gt(0), x, x.neg()}},
      {"amax", "", {x}},
      {"aminmax", "", {x}},
      {"linalg_vector_norm", "", {x}},
      {"cat", "", {list({x, x}), 0}},
      {"stack", "", {list({x, x}), 0}},
      {"split_with_sizes", "", {x, sizes, 0}},
      {"constant_pad_nd", "", {x, padding}},
      {"view_as_complex", "", {numbers({8, 2})}},
      {"_foreach_norm", "Scalar", {list({x, w})}},
      {"_foreach_mul_", "Scalar", {list({numbers({4}), numbers({5})}), 2.0}},
      {"_foreach_add_", "List", {list({numbers({4})}), list({numbers({4})})}},
      {"_foreach_sqrt", "", {list({numbers({4}).abs()})}},
      {"_fused_adamw_",
       "",
       {list({numbers({4})}), list({numbers({4}, 1)}), list({numbers({4}, 2)}), list({numbers({4}, 3).abs()}), list({}),
        list({at::ones({})}), 1e-3, 0.9, 0.99, 0.1, 1e-8, false, false}},
      {"_local_scalar_dense", "", {at::ones({})}},
      {"equal", "", {x, x}},
      {"unique_dim", "", {x, 0}},
      {"linalg_qr", "", {x}},
      {"_to_copy", "", {x, at::kBFloat16}},
  };
}

IValue copied(const IValue& value, const c10::Device& to) {
  return mapped(value, [&](const at::Tensor& t) { return t.defined() ? t.to(to, false, true) : t; });
}

// Results, and then the arguments, which the operator may have written.
Values run(const Case& c, const c10::Device& where) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + c.name).c_str(), c.overload.c_str());
  Values stack;
  for (const IValue& value : c.arguments) stack.push_back(copied(value, where));
  const Values arguments = stack;
  const auto& schema = op.schema().arguments();
  for (std::size_t i = stack.size(); i < schema.size(); ++i)
    stack.push_back(schema[i].default_value().value_or(IValue()));
  op.callBoxed(stack);
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  return stack;
}

std::vector<at::Tensor> tensors_of(const Values& values) {
  std::vector<at::Tensor> tensors;
  for (const IValue& value : values) each_tensor(value, [&](const at::Tensor& t) { tensors.push_back(t.cpu()); });
  return tensors;
}

void compare(const Case& c) {
  std::printf("%s.%s\n", c.name.c_str(), c.overload.c_str());
  const auto here = tensors_of(run(c, at::kCPU)), there = tensors_of(run(c, device()));
  expect(here.size() == there.size(), "the number of tensors");
  for (std::size_t i = 0; i < here.size(); ++i) expect(here[i].equal(there[i]), "tensor " + std::to_string(i));
}

void expect_close(const at::Tensor& there, const at::Tensor& exact, double tolerance, const char* what) {
  const double error = (there.cpu().to(at::kDouble) - exact).abs().max().item<double>();
  expect(error <= tolerance, std::string(what) + " differs by " + std::to_string(error));
}

}  // namespace

TEST_CASE("Operators give the CPU's numbers") {
  must_be_right([] {
    at::set_num_threads(1);  // as the device's streams, for the order of sums
    for (const Case& c : cases()) compare(c);
  });
}

TEST_CASE("An operator for which CUDA has one kernel is one launch") {
  must_be_right([] {
    const std::vector<at::Tensor> x{numbers({4}).to(device()), numbers({5}).to(device())};
    const std::int64_t before = counters(0).launches;
    at::_foreach_add_(x, x);
    expect(counters(0).launches == before + 1, "one launch");
    at::_foreach_norm(x, 2);
    // Each result is new memory, which is not counted.
    expect(counters(0).launches == before + 2, "one launch more");
  });
}

TEST_CASE("Fused RMS norm and its backward are those of float64") {
  must_be_right([] {
    const at::Tensor x = numbers({3, 5, 16}), gain = numbers({16}, 1), dy = numbers({3, 5, 16}, 2);
    const at::Tensor wide = x.to(at::kDouble), g = gain.to(at::kDouble), d = dy.to(at::kDouble);
    const at::Tensor rstd = at::rsqrt(wide.square().mean({-1}, true).add(1e-5)), normed = wide * rstd;
    const at::Tensor weighted = d * g;
    const at::Tensor dx = rstd * (weighted - normed * (weighted * normed).mean({-1}, true));
    const auto there = [](const at::Tensor& t) { return t.to(device()); };
    const auto [y, r] = at::_fused_rms_norm(there(x), {16}, there(gain), 1e-5);
    expect_close(y, normed * g, 1e-6, "y");
    expect_close(r, rstd, 1e-6, "rstd");
    expect(r.sizes().equals({3, 5, 1}) && r.scalar_type() == at::kFloat, "rstd's shape and type");
    const auto [a, b] = at::_fused_rms_norm_backward(there(dy), there(x), {16}, r, there(gain), {true, true});
    expect_close(a, dx, 1e-6, "dx");
    expect_close(b, (d * normed).sum(at::IntArrayRef{0, 1}), 1e-5, "dweight");
    const auto [none, only] = at::_fused_rms_norm_backward(there(dy), there(x), {16}, r, there(gain), {false, true});
    expect(!none.defined() && only.equal(b), "the weight's gradient alone");
  });
}

TEST_CASE("Products and softmax of 16-bit numbers may give fp32") {
  must_be_right([] {
    const at::Tensor a = numbers({8, 16}).to(at::kBFloat16), b = numbers({16, 24}).to(at::kBFloat16);
    const at::Tensor c = numbers({8, 24}), exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor x = a.to(device()), w = b.to(device());
    expect_close(at::mm(x, w, at::kFloat), exact, 1e-5, "mm");
    at::Tensor sum = c.to(device());
    at::addmm_out(sum, sum, x, w, at::kFloat, 1, 2);
    expect_close(sum, c.to(at::kDouble) + 2 * exact, 1e-5, "addmm");
    const at::Tensor half = a.to(at::kHalf);
    expect_close(at::_log_softmax(half.to(device()), 1, true), half.to(at::kDouble).log_softmax(1), 1e-6,
                 "log softmax");
  });
  must_be_caught("out_dtype must be the same as input dtype or fp32", [] {
    const at::Tensor x = numbers({8, 8}).to(device());
    at::mm(x, x, at::kDouble);
  });
}

TEST_CASE("Random numbers of the device are drawn and masked as they must be") {
  must_be_right([] {
    at::Tensor x = at::zeros({10000}, on_device());
    x.normal_(1, 2);
    const at::Tensor drawn = x.cpu();
    at::manual_seed(7);
    const at::Tensor one = at::zeros({100}, on_device()).normal_(), two = at::zeros({100}, on_device()).normal_();
    at::manual_seed(7);
    const at::Tensor again = at::zeros({100}, on_device()).normal_();
    expect(one.cpu().equal(again.cpu()) && !one.cpu().equal(two.cpu()), "the same numbers after the same seed");
    expect(std::abs(drawn.mean().item<double>() - 1) < 0.1 && std::abs(drawn.std().item<double>() - 2) < 0.1, "normal");
    const auto [y, mask] = at::native_dropout(at::ones({10000}, on_device()), 0.25, true);
    const double kept = mask.to(at::kFloat).mean().item<double>();
    expect(std::abs(kept - 0.75) < 0.05, "the share that is kept");
    expect(std::abs(y.cpu().max().item<double>() - 1 / 0.75) < 1e-6, "the scale");
  });
}
