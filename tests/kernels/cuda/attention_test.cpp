// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU, emulated here with the contracts of CUDA's kernels, against attention by its definition in
// float64 on the CPU.
#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};

struct Shape {
  std::int64_t batch, sequence, heads, kv_heads, head_dim;
};

struct Case {
  at::Tensor query, key, value, dout;

  Case as(const at::TensorOptions& options) const {
    return {query.to(options), key.to(options), value.to(options), dout.to(options)};
  }
};

// Slices of one matrix, as a layer's projection makes them.
Case random_case(const Shape& s, at::ScalarType type) {
  const at::Tensor all = random_tensor({s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_dim}, type);
  return {all.narrow(2, 0, s.heads), all.narrow(2, s.heads, s.kv_heads),
          all.narrow(2, s.heads + s.kv_heads, s.kv_heads),
          random_tensor({s.batch, s.sequence, s.heads, s.head_dim}, type)};
}

// Copies keep strides: the slices of one matrix remain slices of one.
Case on_device(const Case& x) {
  const std::vector<at::Tensor> parts{x.query, x.key, x.value};
  const at::Tensor all = at::cat(parts, 2).to(gpu);
  const std::int64_t heads = x.query.size(2), kv_heads = x.key.size(2);
  return {all.narrow(2, 0, heads), all.narrow(2, heads, kv_heads), all.narrow(2, heads + kv_heads, kv_heads),
          x.dout.to(gpu)};
}

struct Result {
  at::Tensor out, query, key, value;
};

Result result_of(const AttentionOutput& output, const AttentionGradients& d) {
  const auto host = [](const at::Tensor& x) { return x.to(at::kCPU); };
  return {host(output.out), host(d.query), host(d.key), host(d.value)};
}

Result run(const Case& x, const AttentionCall& call) {
  const AttentionOutput output = attention_forward(x.query, x.key, x.value, call);
  return result_of(output, attention_backward(x.dout, x.query, x.key, x.value, output, call));
}

AttentionCall within(const std::vector<PositionRun>& documents, AttentionMethod method = AttentionMethod::flash) {
  return {method, {}, {}, {documents}};
}

void check(const Result& got, const Result& want, double tolerance) {
  CHECK(largest_error(got.out, want.out) < tolerance);
  CHECK(largest_error(got.query, want.query) < 2 * tolerance);
  CHECK(largest_error(got.key, want.key) < 4 * tolerance);
  CHECK(largest_error(got.value, want.value) < 4 * tolerance);
}

bool are_equal(const Result& a, const Result& b) {
  return at::equal(a.out, b.out) && at::equal(a.query, b.query) && at::equal(a.key, b.key) &&
         at::equal(a.value, b.value);
}

double tolerance_of(at::ScalarType type) {
  if (type == at::kFloat) return 16 * fp32_rounding;
  return 4 * (type == at::kHalf ? fp16_rounding : bf16_rounding);
}

const AttentionCall exactly{AttentionMethod::math};

at::Tensor rows_of(const at::Tensor& x, const SequencePart& part) {
  std::vector<at::Tensor> pieces;
  for (const PositionRun& run : part.runs) pieces.push_back(x.narrow(1, run.begin, run.length));
  return at::cat(pieces, 1);
}

}  // namespace

TEST_CASE("attention on a GPU equals float64's up to rounding") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  // One head size for each: of whole words, padded, and beyond FlashAttention's; lengths in and out of blocks of 32.
  for (const Shape& shape : {Shape{2, 64, 4, 4, 16}, Shape{2, 33, 4, 2, 8}, Shape{1, 40, 6, 1, 6},
                             Shape{2, 5, 2, 2, 264}, Shape{3, 1, 2, 1, 8}}) {
    INFO("heads of " << shape.head_dim << ", sequences of " << shape.sequence);
    const Case x = random_case(shape, type);
    check(run(on_device(x), AttentionCall{}), run(x.as(at::kDouble), exactly), tolerance_of(type));
  }
}

TEST_CASE("16-bit heads that FlashAttention takes go there, and others to CUTLASS") {
  const auto statistics = [](const Shape& shape, at::ScalarType type) {
    const Case x = on_device(random_case(shape, type));
    const std::vector<PositionRun> documents{{0, 3}, {3, 5}};
    return attention_forward(x.query, x.key, x.value, within(documents)).statistics.sizes().vec();
  };
  // Their layouts tell the two apart: [heads, rows], and [documents, heads, blocks of 32].
  CHECK(statistics({1, 8, 2, 2, 256}, at::kBFloat16) == std::vector<std::int64_t>{2, 8});
  CHECK(statistics({1, 8, 2, 2, 264}, at::kBFloat16) == std::vector<std::int64_t>{2, 2, 32});
  CHECK(statistics({1, 8, 2, 2, 256}, at::kFloat) == std::vector<std::int64_t>{2, 2, 32});
}

TEST_CASE("a part of the queries on a GPU has the rows and gradients of the whole") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  constexpr std::int64_t sequence = 70;
  const Case x = random_case({2, sequence, 4, 2, 8}, type);
  const std::vector<SequencePart> parts{{sequence, {{0, 70}}},
                                        {sequence, {{40, 30}}},
                                        {sequence, {{69, 1}}},
                                        {sequence, {{0, 17}, {53, 17}}},
                                        {sequence, {{17, 18}, {35, 18}}}};
  for (const SequencePart& part : parts) {
    INFO(part.runs.size() << " runs, the first from " << part.runs.front().begin);
    at::Tensor dout = at::zeros_like(x.dout);
    for (const auto& [begin, length] : part.runs) dout.narrow(1, begin, length).copy_(x.dout.narrow(1, begin, length));
    Result want = run(Case{x.query, x.key, x.value, dout}.as(at::kDouble), exactly);
    want.out = rows_of(want.out, part);
    want.query = rows_of(want.query, part);
    const Case device = on_device(x);
    const Case at_hand{rows_of(device.query, part), device.key, device.value, rows_of(device.dout, part)};
    check(run(at_hand, AttentionCall{AttentionMethod::flash, {}, part}), want, tolerance_of(type));
  }
}

TEST_CASE("documents on a GPU are one call each way, with the numbers of one document after another") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto heads = GENERATE(std::int64_t{2}, std::int64_t{4});
  const Case x = random_case({2, 48, 4, heads, 8}, type);
  const std::vector<PositionRun> documents{{0, 1}, {1, 30}, {31, 17}, {48, 48}};
  const Result want = run(x.as(at::kDouble), within(documents, AttentionMethod::math));
  const Case device = on_device(x);
  AttentionCall call = within(documents);
  call.documents.starts = document_starts(documents, gpu);
  const std::int64_t before = emulated::counters(0).launches;
  const AttentionOutput output = attention_forward(device.query, device.key, device.value, call);
  // CUTLASS's kernel has no grouped heads: two copies.
  const bool copies = type == at::kFloat && heads != 4;
  CHECK(emulated::counters(0).launches - before == (copies ? 3 : 1));
  check(run(device, call), want, tolerance_of(type));
  // Without them the starts are made where they are needed.
  CHECK(are_equal(run(device, call), run(device, within(documents))));
}

TEST_CASE("documents of which a rank has a part of the queries are one call each way, with the rows of the whole") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto kv_heads = GENERATE(std::int64_t{2}, std::int64_t{4});
  const Case x = random_case({2, 48, 4, kv_heads, 8}, type);
  // Within a run, over both, between them, of one token, and of a whole sequence.
  const std::vector<PositionRun> documents{{0, 7}, {7, 1}, {8, 6}, {14, 20}, {34, 14}, {48, 48}};
  for (const SequencePart& part : std::vector<SequencePart>{
           {48, {{0, 12}, {36, 12}}}, {48, {{12, 24}}}, {48, {{0, 6}, {6, 9}, {40, 8}}}, {48, {{15, 3}}}}) {
    INFO(part.runs.size() << " runs, the first from " << part.runs.front().begin);
    at::Tensor dout = at::zeros_like(x.dout);
    for (const auto& [begin, length] : part.runs) dout.narrow(1, begin, length).copy_(x.dout.narrow(1, begin, length));
    Result want = run(Case{x.query, x.key, x.value, dout}.as(at::kDouble), within(documents, AttentionMethod::math));
    want.out = rows_of(want.out, part);
    want.query = rows_of(want.query, part);
    const Case device = on_device(x);
    const Case at_hand{rows_of(device.query, part), device.key, device.value, rows_of(device.dout, part)};
    AttentionCall call = within(documents);
    call.queries = part;
    const DocumentPieces pieces = document_pieces(documents, part, at_hand.query.size(1), gpu);
    call.documents.pieces = &pieces;
    const emulated::Counters before = emulated::counters(0);
    const AttentionOutput output = attention_forward(at_hand.query, at_hand.key, at_hand.value, call);
    // Keys and values of the pieces, and for CUTLASS's kernel of each of their heads.
    CHECK(emulated::counters(0).launches - before.launches == (type == at::kFloat && kv_heads != 4 ? 5 : 3));
    const Result got =
        result_of(output, attention_backward(at_hand.dout, at_hand.query, at_hand.key, at_hand.value, output, call));
    CHECK(emulated::counters(0).synchronisations - before.synchronisations == 4);  // the test's reads of results
    check(got, want, tolerance_of(type));
    CHECK(are_equal(got, run(at_hand, call)));
    // Without them the pieces are made where they are needed.
    call.documents.pieces = nullptr;
    CHECK(are_equal(got, run(at_hand, call)));
  }
}

TEST_CASE("attention's backward on a GPU repeats bitwise, and leaves LibTorch's switches as they were") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const Case x = on_device(random_case({2, 40, 4, 2, 16}, type));
  const Result first = run(x, AttentionCall{});
  CHECK(are_equal(first, run(x, AttentionCall{})));
  const std::vector<PositionRun> documents{{0, 25}, {25, 15}, {40, 40}};
  const AttentionCall call = within(documents);
  CHECK(are_equal(run(x, call), run(x, call)));
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
  CHECK(at::globalContext().deterministicFillUninitializedMemory());
}

TEST_CASE("attention by cuDNN is one call each way, of the numbers of the definition") {
  const auto type = GENERATE(at::kBFloat16, at::kHalf);
  const auto kv_heads = GENERATE(std::int64_t{4}, std::int64_t{2});
  // Heads of 12 elements are padded to 16.
  const auto head_dim = GENERATE(std::int64_t{16}, std::int64_t{12});
  const Case x = random_case({2, 40, 4, kv_heads, head_dim}, type);
  for (const bool is_causal : {true, false}) {
    AttentionCall definition{AttentionMethod::math}, call;
    definition.is_causal = call.is_causal = is_causal;
    call.by_cudnn = true;
    const Case device = on_device(x);
    // The gradient of queries differs in its last bits from call to call.
    check(run(device, call), run(x.as(at::kDouble), definition), 8 * tolerance_of(type));
    if (head_dim % 8 != 0) continue;
    const std::int64_t before = emulated::counters(0).launches;
    attention_forward(device.query, device.key, device.value, call);
    CHECK(emulated::counters(0).launches == before + 1);
  }
}

TEST_CASE("sequences of one key, which cuDNN does not have, are attended to all the same") {
  const Case x = random_case({3, 1, 4, 2, 16}, at::kBFloat16);
  AttentionCall call;
  call.by_cudnn = true;
  check(run(on_device(x), call), run(x.as(at::kDouble), exactly), tolerance_of(at::kBFloat16));
}

TEST_CASE("what cuDNN's attention does not have is refused before it is called") {
  const Case x = on_device(random_case({2, 40, 4, 2, 16}, at::kBFloat16));
  const std::vector<PositionRun> documents{{0, 40}, {40, 40}};
  AttentionCall call, within_documents = within(documents), part, stored{AttentionMethod::math};
  part.queries = {80, {{40, 40}}};
  for (AttentionCall* each : {&call, &within_documents, &part, &stored}) each->by_cudnn = true;
  CHECK_NOTHROW(attention_forward(x.query, x.key, x.value, call));
  for (const AttentionCall& each : {within_documents, part, stored})
    CHECK_THROWS(attention_forward(x.query, x.key, x.value, each));
  const Case wide = x.as(x.query.options().dtype(at::kFloat)), host = x.as(x.query.options().device(at::kCPU));
  for (const Case* each : {&wide, &host}) CHECK_THROWS(attention_forward(each->query, each->key, each->value, call));
}

TEST_CASE("attention on a GPU waits for nothing") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const Case x = on_device(random_case({2, 40, 4, 2, 16}, type));
  const std::vector<PositionRun> documents{{0, 25}, {25, 15}, {40, 40}};
  const std::int64_t before = emulated::counters(0).synchronisations;
  const AttentionOutput output = attention_forward(x.query, x.key, x.value, {});
  attention_backward(x.dout, x.query, x.key, x.value, output, {});
  attention_forward(x.query, x.key, x.value, within(documents));
  CHECK(emulated::counters(0).synchronisations == before);
}

}  // namespace llmtrain::kernels
