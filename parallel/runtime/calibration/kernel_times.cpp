// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/kernel_times.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <utility>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fp8/fp8.h"
#include "kernels/joined_heads.h"
#include "kernels/moe/jitter.h"
#include "kernels/moe/load_importance.h"
#include "kernels/muon/muon.h"
#include "kernels/norm.h"
#include "kernels/random/dropout.h"
#include "kernels/reduction.h"
#include "kernels/rope.h"
#include "parallel/device/measurement.h"
#include "parallel/runtime/calibration/passes.h"

namespace llmtrain {
namespace {

struct Sizes {
  std::int64_t rows, width, vocabulary, logits_rows;
  std::int64_t head_dim;

  std::int64_t ffn() const { return 4 * width; }
};

// Arrays of a GPU are larger than its caches.
Sizes sizes_for(const Stopwatch& stopwatch) {
  if (stopwatch.device().is_cpu()) return {4096, 1024, 32768, 256, 64};
  const std::int64_t rows = stopwatch.scaled(4096);
  return {rows, stopwatch.scaled(128), stopwatch.scaled(6288), std::max<std::int64_t>(16, rows / 8), 16};
}

class Bench {
 public:
  explicit Bench(const Stopwatch& stopwatch)
      : stopwatch_(stopwatch),
        sizes_(sizes_for(stopwatch)),
        type_(stopwatch.device().is_cpu() ? at::kFloat : at::kBFloat16) {}

  std::vector<KernelTime> run() {
    time_norms(kernels::NormMode::layer, "LayerNorm");
    time_norms(kernels::NormMode::root_mean_square, "RMSNorm");
    time_activation(kernels::ActivationKind::gelu_tanh, "GELU", 1);
    time_activation(kernels::ActivationKind::swiglu, "SwiGLU", 2);
    time_heads();
    time_dropout();
    time_decode();
    time_ends();
    time_router();
    time_optimizer();
    time_fp8();
    return std::move(times_);
  }

 private:
  at::Tensor random(at::IntArrayRef shape) const { return random_operand(shape, type_, stopwatch_.device()); }
  at::TensorOptions fp32() const { return at::dtype(at::kFloat).device(stopwatch_.device()); }
  at::Tensor random_ids(std::int64_t most, std::int64_t count) const {
    return at::randint(most, {count}, at::dtype(at::kLong)).to(stopwatch_.device());
  }

  // `passes`: how often an operator reads or writes [rows, columns] of activations at least; `more` bytes beside.
  template <class Call>
  void time(const std::string& name, std::int64_t rows, std::int64_t columns, double passes, Call call,
            double more = 0) {
    const double bytes = passes * static_cast<double>(rows * columns) * static_cast<double>(at::elementSize(type_));
    times_.push_back(
        {name, std::to_string(rows) + " × " + std::to_string(columns), stopwatch_.seconds_of(call), bytes + more});
  }

  void time_norms(kernels::NormMode mode, const std::string& name) {
    const std::int64_t rows = sizes_.rows, width = sizes_.width;
    const at::Tensor x = random({rows, width}), dy = random({rows, width});
    at::Tensor residual = random({rows, width}), dx = random({rows, width});
    kernels::NormParameters parameters{mode, random({width}), {}};
    at::Tensor dweight = at::zeros({width}, fp32());
    std::optional<at::Tensor> dbias;
    if (mode == kernels::NormMode::layer) parameters.bias = random({width}), dbias = at::zeros({width}, fp32());
    const kernels::NormOutput saved = kernels::norm_forward(x, parameters);
    time(name, rows, width, 2, [&] { kernels::norm_forward(x, parameters); });
    time(name + " and residual", rows, width, 4, [&] { kernels::add_norm_forward(residual, x, parameters); });
    time(name + " backward", rows, width, 4, [&] {
      kernels::norm_backward(dy, x, saved.mean, saved.rstd, parameters, dx, dweight, dbias, kernels::Accumulation::add);
    });
  }

  void time_activation(kernels::ActivationKind kind, const std::string& name, std::int64_t inputs) {
    const std::int64_t rows = sizes_.rows, ffn = sizes_.ffn();
    const at::Tensor x = random({rows, inputs * ffn}), dy = random({rows, ffn});
    const auto in = static_cast<double>(inputs);
    time(name, rows, ffn, in + 1, [&] { kernels::activation_forward(x, kind); });
    time(name + " backward", rows, ffn, 2 * in + 1, [&] { kernels::activation_backward(dy, x, kind); });
  }

  // Rotations, of as many heads of keys and values as of queries.
  void time_heads() {
    const std::int64_t rows = sizes_.rows, width = sizes_.width, head = sizes_.head_dim;
    const std::int64_t heads = width / head, length = std::min<std::int64_t>(rows, 1024);
    const kernels::RopeTable table = kernels::make_rope_table(length, head, 10000, stopwatch_.device());
    at::Tensor x = random({rows, heads, head});
    time("RoPE", rows, width, 2, [&] { kernels::rope_(x, table, length, kernels::RopeDirection::forward); });
    const auto part = [&] { return random({rows / length, length, heads, head}); };
    const kernels::HeadGradients gradients{part(), part(), part()};
    const at::Tensor joined = at::empty({rows / length, length, 3 * heads, head}, x.options());
    time("RoPE backward of query, key, value", rows, 3 * width, 2,
         [&] { kernels::join_heads(gradients, &table, length, joined); });
  }

  void time_dropout() {
    at::Tensor x = random({sizes_.rows, sizes_.width});
    const kernels::Dropout dropout{.probability = 0.1, .key = 1};
    time("dropout", sizes_.rows, sizes_.width, 2, [&] { kernels::dropout_(x, dropout); });
  }

  // One token of each of some sequences with what they hold, in as many heads of keys and values as of queries.
  void time_decode() {
    const std::int64_t sequences = 8, length = std::max<std::int64_t>(1, sizes_.rows / sequences), width = sizes_.width;
    const std::int64_t dim = sizes_.head_dim, heads = width / dim;
    const at::Tensor row = random({sequences, heads, dim});
    kernels::KeyValueMemory memory{random({sequences, heads, length, dim}), random({sequences, heads, length, dim})};
    kernels::CachedTokens tokens;
    for (std::int64_t i = 0; i < sequences; ++i) tokens.places.push_back({i, length - 1});
    tokens.sequences = at::arange(sequences, at::kLong).to(stopwatch_.device());
    tokens.positions = at::full({sequences}, length - 1, at::kLong).to(stopwatch_.device());
    time("attention of one token", sequences * length, width, 2,
         [&] { kernels::cached_attention(row, row, row, tokens, memory, {}); });
  }

  // The embedding and the loss.
  void time_ends() {
    const std::int64_t rows = sizes_.rows, width = sizes_.width, vocabulary = sizes_.vocabulary;
    const at::Tensor dy = random({rows, width}), tokens = at::arange(rows, at::kLong).remainder_(vocabulary);
    const at::Tensor ids = tokens.to(stopwatch_.device());
    at::Tensor gradient = at::zeros({vocabulary, width}, fp32());
    const double changed = 8.0 * static_cast<double>(std::min(rows, vocabulary) * width);
    time(
        "embedding backward", rows, width, 1, [&] { kernels::embedding_backward(dy, ids, gradient, {}, rows); },
        changed);
    at::Tensor logits = random({sizes_.logits_rows, vocabulary});
    const at::Tensor targets = random_ids(vocabulary, sizes_.logits_rows);
    time("cross-entropy and its gradient", sizes_.logits_rows, vocabulary, 2,
         [&] { kernels::cross_entropy_forward_backward_(logits, targets, 1); });
  }

  // What a router of 64 experts does beside its products.
  void time_router() {
    const std::int64_t rows = sizes_.rows, width = sizes_.width, experts = 64, k = 2;
    const at::Tensor x = random({rows, width}), chosen = random_ids(experts, rows * k).view({rows, k});
    const at::Tensor logits = random_operand({rows, experts}, at::kFloat, stopwatch_.device());
    const kernels::SequencePart whole;
    const kernels::RowsAtHand all{whole, rows, 0};
    const double array = 4.0 * static_cast<double>(rows * experts);
    time(
        "jitter", rows, width, 1, [&] { kernels::jittered_rows(x, {.amplitude = 0.1, .key = 1}, all); },
        4.0 * static_cast<double>(rows * width));
    const at::Tensor none = at::empty({0}, fp32().dtype(at::kDouble)), loss = at::zeros({}, none.options());
    const auto sums = [&] { return kernels::load_importance(logits, logits, chosen, 0.1); };
    time(
        "load-importance sums", rows, experts, 0, [&] { kernels::with_load_importance(none, sums()); }, array);
    const kernels::LoadImportance kept = sums().kept;
    const at::Tensor slopes = kernels::load_importance_loss(kernels::with_load_importance(none, sums()), kept, loss);
    at::Tensor dlogits = at::zeros_like(logits);
    time(
        "load-importance backward", rows, experts, 0,
        [&] { kernels::add_load_importance_gradient_(dlogits, kept, slopes, chosen, 1); }, 3 * array);
  }

  // Four arrays in fp32, of which three are written, and the weights in the type of activations.
  void time_optimizer() {
    const std::int64_t count = sizes_.rows * sizes_.width;
    kernels::AdamwState state{at::zeros({count}, fp32()), at::zeros({count}, fp32()), at::zeros({count}, fp32())};
    const at::Tensor gradients = random_operand({count}, at::kFloat, stopwatch_.device());
    const at::Tensor weights = at::empty({count}, fp32().dtype(type_));
    const kernels::AdamwStep step{.learning_rate = 1e-4};
    time(
        "AdamW", sizes_.rows, sizes_.width, 1, [&] { kernels::adamw_(state, gradients, step, weights); },
        7.0 * 4.0 * static_cast<double>(count));
    time_muon(state.m, gradients, state.weights, weights);
  }

  // What Muon's update has beside the products: passes over memory in fp32.
  void time_muon(const at::Tensor& mean, const at::Tensor& gradients, const at::Tensor& master,
                 const at::Tensor& weights) {
    const std::int64_t rows = sizes_.rows, width = sizes_.width;
    const double array = 4.0 * static_cast<double>(rows * width);
    const kernels::MuonMean how{.momentum = 0.95};
    const kernels::MuonStep step{.learning_rate = 1e-4};
    time(
        "Muon's mean", rows, width, 0, [&] { kernels::muon_mean_(mean, gradients, how); }, 3 * array);
    time(
        "Muon's weights", rows, width, 1, [&] { kernels::muon_step_(master, gradients, step, weights); }, 3 * array);
    time(
        "sum of squares", rows, width, 0, [&] { kernels::sum_of_squares_there(gradients); }, array);
  }

  void time_fp8() {
    const std::int64_t rows = sizes_.rows, width = sizes_.width;
    const at::Tensor x = random({rows, width}), scale = at::full({1}, 16, fp32());
    const double codes = static_cast<double>(rows * width);
    time(
        "FP8 cast and maximum", rows, width, 1, [&] { kernels::cast_and_show(x, scale, kernels::Fp8Format::e5m2); },
        codes);
    time(
        "FP8 cast, transposed", rows, width, 1,
        [&] { kernels::cast_to_fp8_transposed(x, scale, kernels::Fp8Format::e4m3); }, codes);
    time(
        "FP8 cast, both ways", rows, width, 1,
        [&] { kernels::cast_and_show_both_ways(x, scale, kernels::Fp8Format::e5m2); }, 2 * codes);
  }

  const Stopwatch& stopwatch_;
  Sizes sizes_;
  at::ScalarType type_;
  std::vector<KernelTime> times_;
};

}  // namespace

KernelTimes time_kernels(DeviceKind kind, Effort effort) {
  const c10::Device device = choose_device(kind);
  use_device(device);
  const Stopwatch stopwatch(device, thoroughness_of(effort));
  ClusterProfile roof;
  measure_memory(stopwatch, roof);
  return {describe_device(device), device.is_cpu() ? "fp32" : "bf16", roof.device.memory_bandwidth,
          Bench(stopwatch).run()};
}

}  // namespace llmtrain
