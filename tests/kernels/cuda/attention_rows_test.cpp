// SPDX-License-Identifier: Apache-2.0
// Attention of other rows on a GPU, emulated here with the contracts of CUDA's kernels, against float64.
#include <ATen/ops/equal.h>

#include "tests/emulator/torch/backend.h"
#include "tests/kernels/attention/attention_reference.h"

namespace llmtrain::kernels {
namespace {

const at::Device device{at::kCUDA, 0};

}  // namespace

TEST_CASE("attention of other rows on a GPU equals float64's") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  for (const AttentionRows& rows : rows_of_all_kinds()) {
    INFO(rows.queries << " queries, " << rows.keys << " keys, " << rows.query_documents.size() << " documents");
    AttentionCase x = random_case(rows, type);
    AttentionCall call = rows.call(method);
    if (method == AttentionMethod::math) {
      x.bias = random_tensor({rows.heads, rows.queries, rows.keys}, at::kFloat);
      call.bias = x.bias.to(device);
    }
    check(run(x.as(device), call), exact_attention(rows, x), 2 * tolerance_of(type));
  }
}

TEST_CASE("documents of queries and of other rows are one call on a GPU, unless it would write nothing") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto launches = [&](const AttentionRows& rows) {
    const AttentionCase x = random_case(rows, type).as(device);
    AttentionCall call = rows.call(AttentionMethod::flash);
    call.documents.starts = document_starts(rows.query_documents, device);
    call.key_documents.starts = document_starts(rows.key_documents, device);
    const std::int64_t before = emulated::counters(0).launches, waits = emulated::counters(0).synchronisations;
    attention_forward(x.query, x.key, x.value, call);
    CHECK(emulated::counters(0).synchronisations == waits);
    return emulated::counters(0).launches - before;
  };
  CHECK(launches({2, 8, 16, 4, 4, 8, {{0, 8}, {8, 5}, {13, 3}}, {{0, 16}, {16, 11}, {27, 5}}}) == 1);
  // Keys that no query sees do no harm; CUTLASS's kernel leaves the rows of queries without keys as they were.
  CHECK(launches({2, 8, 16, 4, 4, 8, {{0, 8}, {8, 8}, {16, 0}}, {{0, 16}, {16, 11}, {27, 5}}}) == 1);
  const AttentionRows blind{2, 8, 16, 4, 4, 8, {{0, 8}, {8, 5}, {13, 3}}, {{0, 16}, {16, 16}, {32, 0}}};
  CHECK((launches(blind) == 1) == (type == at::kBFloat16));
}

TEST_CASE("padding changes nothing of what is not padding on a GPU, bitwise") {
  const auto method = GENERATE(AttentionMethod::flash, AttentionMethod::math);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const AttentionCase x = random_case(padded_rows, type).as(device);
  const AttentionResult one = with_padding(x, padded_rows, method, 1), other = with_padding(x, padded_rows, method, 50);
  CHECK(at::equal(one.out, other.out));
  CHECK(at::equal(one.query, other.query));
  CHECK(at::equal(one.key, other.key));
  CHECK(at::equal(one.value, other.value));
}

}  // namespace llmtrain::kernels
