// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "core/graph/values.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using test::pass_peak;
using test::saved_bytes;

PassSetting cuda_setting(std::int64_t batch, std::int64_t sequence) {
  PassSetting setting;
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.tokens.batch = batch;
  setting.tokens.sequence_length = sequence;
  setting.numbers.compute = DataType::bf16;
  setting.program.attention = AttentionKernel::math;
  return setting;
}

ModelRecipe dropping(ModelRecipe model) {
  model.dropout = 0.1;
  return model;
}

double bytes_of(const Graph& graph, std::size_t block, const PassSetting& setting, const std::string& name) {
  double bytes = 0;
  for (const Operator& item : test::operators_of(graph, block, setting))
    for (const SavedTensor& row : item.saved)
      if (row.name == name) bytes += row.bytes;
  return bytes;
}

struct LayerSizes {
  std::int64_t s, b, h, a, t;
};

TEST_CASE("a layer stores what the activation recompute paper counts, to the byte") {
  for (const LayerSizes& shape : {LayerSizes{2048, 4, 6144, 64, 8}, LayerSizes{1024, 3, 768, 12, 1},
                                  LayerSizes{64, 1, 64, 4, 4}, LayerSizes{128, 5, 96, 6, 2}}) {
    const Graph graph = Graph::build(dropping(test::gpt2_model(2, shape.h, shape.a)));
    PassSetting setting = cuda_setting(shape.b, shape.s);
    const double s = static_cast<double>(shape.s), b = static_cast<double>(shape.b), h = static_cast<double>(shape.h);
    const double a = static_cast<double>(shape.a), t = static_cast<double>(shape.t);
    const double sbh = s * b * h, scores = 5 * a * s * s * b;
    const auto saved = [&] { return saved_bytes(graph, 1, setting); };
    CHECK(saved() == 34 * sbh + scores);
    setting.recompute = Recompute::selective;
    CHECK(saved() == sbh * 34);
    setting.recompute = Recompute::full;
    CHECK(saved() == sbh * 2);

    setting.shards.tensor = shape.t;
    setting.recompute = Recompute::none;
    CHECK(saved() == 10 * sbh + (24 * sbh + scores) / t);
    setting.recompute = Recompute::selective;
    CHECK(saved() == 10 * sbh + 24 * sbh / t);
    // Two sums of whole rows beside the input; with rows split, two gathers of them all and two sums of this rank's.
    setting.recompute = Recompute::computation;
    CHECK(saved() == 2 * sbh + (t > 1 ? 2 * 2 * sbh : 0));
    setting.tokens.row_ranks = shape.t;
    CHECK(saved() == 2 * sbh / t + (t > 1 ? 2 * 2 * (sbh + sbh / t) : 0));

    setting.recompute = Recompute::selective;
    CHECK(saved() == 34 * sbh / t);
    setting.recompute = Recompute::none;
    CHECK(saved() == (34 * sbh + scores) / t);
  }
}

TEST_CASE("embedding and head store the paper's extra terms") {
  const double s = 128, b = 2, h = 64, v = 50257 + 7;  // padded to a multiple of eight ranks
  const Graph graph = Graph::build(dropping(test::gpt2_model(2, 64, 4)));
  PassSetting setting = cuda_setting(2, 128);
  setting.shards.tensor = setting.tokens.row_ranks = 8;
  CHECK(saved_bytes(graph, 0, setting) == s * b * h / 8);
  CHECK(saved_bytes(graph, 3, setting) == 4 * s * b * h / 8 * (1 + v / h));
}

TEST_CASE("masks are stored only with dropout") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  const double s = 128, b = 2, h = 64, a = 4;
  CHECK(saved_bytes(graph, 1, cuda_setting(2, 128)) == s * b * h * (32 + 2 * a * s / h));
  CHECK(saved_bytes(graph, 0, cuda_setting(2, 128)) == 0);
}

TEST_CASE("a GPU's kernels pass no masks through memory, and sum the gradients of biases in pieces of rows") {
  const Graph graph = Graph::build(dropping(test::gpt2_model(2, 64, 4)));
  PassSetting setting = cuda_setting(2, 130);
  const auto mask_bytes = [&] {
    double bytes = 0;
    for (const Operator& item : test::operators_of(graph, 1, setting)) bytes += item.forward.mask_bytes;
    return bytes;
  };
  const double tokens = 2 * 130, scores = 4 * 2 * 130 * 130;
  CHECK(mask_bytes() == 2 * tokens * 64 + scores);
  setting.program.kept_tensors = KeptTensors::core_model;
  setting.program.device = ComputeDevice::cuda;
  CHECK(mask_bytes() == 0);
  for (const Operator& item : test::operators_of(graph, 1, setting))
    if (item.name == "feed_forward.network.up") CHECK(item.backward_scratch == 4 * 3 * 256);
}

TEST_CASE("flash attention stores one number per row instead of the scores") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting = cuda_setting(2, 128);
  setting.program.attention = AttentionKernel::flash;
  const double kept = 128 * 2 * (32 * 64 + 4 * 4);
  CHECK(saved_bytes(graph, 1, setting) == kept);
  setting.recompute = Recompute::selective;
  CHECK(saved_bytes(graph, 1, setting) == kept);
}

TEST_CASE("dropout uses math attention") {
  AttentionSettings attention;
  CHECK(attention_method(attention, AttentionKernel::automatic) == AttentionMethod::flash);
  CHECK(attention_method(attention, AttentionKernel::math) == AttentionMethod::math);
  attention.dropout = 0.1;
  CHECK(attention_method(attention, AttentionKernel::automatic) == AttentionMethod::math);
}

TEST_CASE("grouped heads, gates and query-key norms") {
  const Graph graph = Graph::build(test::qwen3_600m());  // q 2048, k = v 1024, 16 + 8 heads, gated 3072
  PassSetting setting = cuda_setting(1, 512);
  setting.program.attention = AttentionKernel::flash;
  const double h = 1024, q = 2048, k = 1024, f = 3072;
  const double elements = 4 * h + (q + k) + (q + 2 * k) + q + 3 * f;
  CHECK(saved_bytes(graph, 1, setting) == 512 * (2 * elements + 4 * (16 + 8) + 4 * 16));
  // Sixteen ranks share eight key heads: each rank holds a whole one.
  setting.shards.tensor = 16;
  CHECK(bytes_of(graph, 1, setting, "attention.key") == 512 * 2 * 128);
  CHECK(bytes_of(graph, 1, setting, "attention.query") == 512 * 2 * 128);
}

TEST_CASE("context parallelism stores scores of a rank's part of each sequence against all of its keys") {
  const Graph graph = Graph::build(dropping(test::gpt2_model(2, 64, 4)));
  PassSetting setting = cuda_setting(2, 128);
  const double whole = saved_bytes(graph, 1, setting), head = saved_bytes(graph, 3, setting);
  setting.tokens.context = 4;
  CHECK(saved_bytes(graph, 1, setting) == whole / 4);
  CHECK(saved_bytes(graph, 3, setting) == head / 4);
}

TEST_CASE("FP8 stores inputs of matrix products with one byte per element, in both orders") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting = cuda_setting(2, 128);
  setting.program.attention = AttentionKernel::flash;
  const double wide = saved_bytes(graph, 1, setting);
  setting.numbers.fp8_level = Fp8Level::o1;
  CHECK(saved_bytes(graph, 1, setting) == wide + 2 * 128 * 2 * 64);  // and flash attention's output
  setting.program.attention = AttentionKernel::math;
  CHECK(saved_bytes(graph, 1, setting) == saved_bytes(graph, 1, cuda_setting(2, 128)));
}

// A layer's four products keep 7 numbers per feature of the residual stream.
TEST_CASE("FP4 stores inputs of matrix products in 4 bits with their scales, in one order") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting = cuda_setting(2, 128);
  const double wide = saved_bytes(graph, 1, setting);
  setting.numbers.fp8_level = Fp8Level::o0;
  setting.numbers.scale_bytes = 0.25;  // of FP8's blocks alone
  for (const auto& [format, bytes] : {std::pair{ProductFormat::nvfp4, 0.5625}, {ProductFormat::mxfp4, 0.53125}}) {
    setting.numbers.format = format;
    CHECK(wide - saved_bytes(graph, 1, setting) == 2 * 128 * 7 * 64 * (2 - bytes));
  }
}

TEST_CASE("on the CPU FP8 stores inputs of matrix products with one byte per element, except attention's output") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting;
  setting.tokens.batch = 2;
  setting.tokens.sequence_length = 128;
  setting.program.attention = AttentionKernel::flash;
  const double wide = saved_bytes(graph, 1, setting), tokens = 256;
  setting.numbers.fp8_level = Fp8Level::o0;
  const double inputs = tokens * (2 * 64 + static_cast<double>(graph.model.ffn_hidden_size));
  CHECK(saved_bytes(graph, 1, setting) == wide - 3 * inputs);  // fp32 otherwise
  setting.recompute = Recompute::selective;                    // the three are made again
  const double selective = saved_bytes(graph, 1, setting);
  setting.numbers.fp8_level = Fp8Level::off;
  CHECK(saved_bytes(graph, 1, setting) == selective);
}

TEST_CASE("the CPU stores statistics, and no masks") {
  const Graph graph = Graph::build(dropping(test::gpt2_model(2, 64, 4)));
  PassSetting setting;
  setting.tokens.batch = 2;
  setting.tokens.sequence_length = 128;
  setting.program.attention = AttentionKernel::math;
  const double tokens = 256, h = 64, residual = 4 * tokens * h, scores = 4 * 2 * 4.0 * 128 * 128;
  const double statistics = 2 * 2 * 4 * tokens;
  CHECK(saved_bytes(graph, 1, setting) == 16 * residual + scores + statistics);
  CHECK(saved_bytes(graph, 0, setting) == 0);
  CHECK(saved_bytes(graph, 3, setting) == 2 * residual + 2 * 4 * tokens);
  setting.recompute = Recompute::selective;  // two norms, the activation's output and the scores are dropped
  CHECK(saved_bytes(graph, 1, setting) == 10 * residual + statistics);
  setting.recompute = Recompute::full;
  CHECK(saved_bytes(graph, 1, setting) == residual);
  setting.numbers.compute = DataType::bf16;
  CHECK(saved_bytes(graph, 1, setting) == residual / 2);
}

TEST_CASE("experts store the inputs, inner tensors and outputs of their capacity") {
  ModelRecipe model = test::mixtral_8x7b();
  const Graph graph = Graph::build(model);
  PassSetting setting = cuda_setting(1, 512);
  setting.program.attention = AttentionKernel::flash;
  const double rows = 2 * 512;  // top 2 of eight, even
  CHECK(bytes_of(graph, 1, setting, "experts.input") == 2 * rows * 4096);
  CHECK(bytes_of(graph, 1, setting, "experts.hidden") == 2 * rows * 2 * 14336);
  CHECK(bytes_of(graph, 1, setting, "experts.activated") == 2 * rows * 14336);
  CHECK(bytes_of(graph, 1, setting, "experts.output") == 2 * rows * 4096);
  CHECK(bytes_of(graph, 1, setting, "experts.probabilities") == 4 * 512 * 8);
  CHECK(bytes_of(graph, 1, setting, "ffn.hidden") == 0);
  // With expert parallelism a rank receives as many tokens as it sends; expert tensor parallelism makes experts
  // narrower.
  setting.shards = {.tensor = 2, .expert = 4, .expert_tensor = 2};
  CHECK(bytes_of(graph, 1, setting, "experts.input") == 2 * rows * 4096);
  CHECK(bytes_of(graph, 1, setting, "experts.activated") == 2 * rows * 14336 / 2);
  // Whole experts on each of two tensor ranks: each computes half the tokens.
  setting.shards.expert_tensor = 1;
  CHECK(bytes_of(graph, 1, setting, "experts.activated") == 2 * rows / 2 * 14336);
  model.moe->shared_experts = 1;
  CHECK(bytes_of(Graph::build(model), 1, setting, "ffn.activated") == 2 * 512 * 14336.0 / 2);
}

TEST_CASE("on the CPU experts store no input, and no empty places") {
  ModelRecipe model = test::mixtral_8x7b();
  model.moe->capacity_factor = 1.5;
  model.moe->z_coefficient = 0.001;
  PassSetting setting;
  setting.tokens.sequence_length = 512;
  const Graph graph = Graph::build(model);
  const double rows = 2 * 512;
  CHECK(bytes_of(graph, 1, setting, "experts.input") == 0);
  CHECK(bytes_of(graph, 1, setting, "experts.hidden") == 4 * rows * 2 * 14336);
  CHECK(bytes_of(graph, 1, setting, "experts.output") == 4 * rows * 4096);
  CHECK(bytes_of(graph, 1, setting, "experts.choices") == (3 * 8 + 4) * rows);
  CHECK(bytes_of(graph, 1, setting, "experts.log_sums") == 4 * 512);
  setting.program.kept_tensors = KeptTensors::megatron;
  CHECK(bytes_of(graph, 1, setting, "experts.hidden") == 4 * 1.5 * rows * 2 * 14336);
}

TEST_CASE("more recompute stores less, and the peak of a pass is at least what it stores") {
  for (const KeptTensors kept : {KeptTensors::core_model, KeptTensors::megatron})
    for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::math})
      for (const ModelRecipe& model : test::all_small_models()) {
        const Graph graph = Graph::build(model);
        PassSetting setting = cuda_setting(3, 16);
        setting.program.kept_tensors = kept;
        setting.program.attention = kernel;
        double before = saved_bytes(graph, 1, setting);
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          setting.recompute = recompute;
          const double saved = saved_bytes(graph, 1, setting);
          const PassPeak peak = pass_peak(graph, 1, setting);
          REQUIRE(saved <= before);
          REQUIRE(peak.forward > saved);
          REQUIRE(peak.backward > saved);
          before = saved;
        }
        REQUIRE(before == value_bytes(graph.values[0], setting));
      }
}

TEST_CASE("working memory of a fp32 layer, operator by operator") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting;
  setting.tokens.batch = 2;
  setting.tokens.sequence_length = 128;
  const double residual = 4 * 256 * 64, saved = saved_bytes(graph, 1, setting);
  // Backward: the gradients of the output and of the activation's input, four residuals wide.
  CHECK(pass_peak(graph, 1, setting).forward == saved + residual);
  CHECK(pass_peak(graph, 1, setting).backward == saved + 5 * residual);
  // Four heads of 128 × 128 scores are as wide as two residuals. Alive in attention's half are then four residuals and
  // the scores, the gradients of the output, of the next half and of attention's output (1 each) and of query, key and
  // value (3), and the gradients of probabilities and scores.
  setting.tokens.sequence_length = 512;
  setting.tokens.batch = 1;
  setting.program.attention = AttentionKernel::math;
  const double wide = 4 * 512 * 64, scores = 4 * 4 * 512.0 * 512, statistics = 8 * 512;
  CHECK(pass_peak(graph, 1, setting).forward == Approx((1 + 1 + 3 + 1) * wide + statistics + 2 * scores));
  CHECK(pass_peak(graph, 1, setting).backward == Approx((1 + 1 + 3 + 1 + 6) * wide + statistics + 3 * scores));
}

TEST_CASE("full recompute holds one layer's tensors during that layer's backward") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting = cuda_setting(2, 128);
  const PassPeak plain = pass_peak(graph, 1, setting);
  setting.recompute = Recompute::full;
  CHECK(pass_peak(graph, 1, setting).backward == plain.backward);
}

TEST_CASE("the CPU's head holds one chunk of the logits, CUDA's head all of them") {
  const Graph graph = Graph::build(test::gpt2_model(2, 64, 4));
  PassSetting setting;
  setting.tokens.batch = 8;
  setting.tokens.sequence_length = 1024;
  const double tokens = 8192, residual = 4 * tokens * 64;
  // 128 MiB hold 667 rows of fp32 logits: thirteen chunks of 631 rows.
  const double saved = 2 * residual + 8 * tokens;
  CHECK(pass_peak(graph, 3, setting).forward == saved + residual + 4 * tokens + 4 * 631.0 * (50257 + 64));
  CHECK(pass_peak(graph, 3, setting).backward == saved + residual);
  setting.program.kept_tensors = KeptTensors::megatron;
  setting.numbers.compute = DataType::bf16;
  const double logits = tokens * 50257;
  CHECK(pass_peak(graph, 3, setting).forward == 2 * residual / 2 + (4 + 2 + 4) * logits);
  CHECK(pass_peak(graph, 3, setting).backward == 3 * residual / 2 + (4 + 2) * logits);
}

}  // namespace
}  // namespace llmtrain
