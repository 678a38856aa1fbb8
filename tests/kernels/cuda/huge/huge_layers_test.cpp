// SPDX-License-Identifier: Apache-2.0
// The kernels of a layer and of the model's ends over more than 2³¹ elements.
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>

#include "kernels/cuda/activation_kernels.h"
#include "kernels/cuda/attention/decode_kernels.h"
#include "kernels/cuda/bias_kernels.h"
#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/gelu_kernels.h"
#include "kernels/cuda/joined_heads_kernels.h"
#include "kernels/cuda/norm_kernels.h"
#include "kernels/cuda/rope_kernels.h"
#include "tests/kernels/cuda/huge/huge_rows.h"

namespace llmtrain::kernels {
namespace {

using Element = __nv_bfloat16;
constexpr KernelElement element = KernelElement::bf16;
constexpr int width = 1024;
// The last rows begin a piece of whatever sums are cut into.
constexpr std::int64_t ends = 3, huge = beyond_int / width + ends;
// Strips of columns, of each of which the last rows are a block's.
constexpr Edges strips{16, 16};

using Rows = HugeRows<Element>;

Rows random_rows(std::int64_t rows, unsigned seed) { return {rows, width, ends, seed}; }
Rows zero_rows(std::int64_t rows) { return {rows, width}; }
Values last_rows(const Rows& rows) { return rows.last(ends * width); }

}  // namespace

TEST_CASE("A GPU's norms and their gradients address more than 2^31 elements") {
  const bool has_mean = GENERATE(true, false);
  check_last_rows(huge, ends, strips, [&](std::int64_t rows) {
    const Rows x = random_rows(rows, 1), residual = random_rows(rows, 2), dy = random_rows(rows, 3);
    const Rows dx = random_rows(rows, 4), y = zero_rows(rows);
    const Rows weight(1, width, 1, 5), bias(1, width, 1, 6);
    const HugeRows<float> mean(rows, 1), rstd(rows, 1), dweight(1, width), dbias(1, width);
    const HugeRows<float> partials(norm_partials(rows, width, has_mean), 1);
    cuda_norm_kernels.forward({element, x.data(), residual.data(), weight.data(), has_mean ? bias.data() : nullptr,
                               y.data(), has_mean ? mean.data() : nullptr, rstd.data(), rows, width, 1e-5F},
                              nullptr);
    cuda_norm_kernels.backward(
        {element, dy.data(), residual.data(), has_mean ? mean.data() : nullptr, rstd.data(), weight.data(), dx.data(),
         partials.data(), dweight.data(), has_mean ? dbias.data() : nullptr, rows, width, false},
        nullptr);
    return joined({last_rows(y), last_rows(residual), last_rows(dx), rstd.last(ends), mean.last(ends), dweight.first(8),
                   dbias.last(8)});
  });
}

TEST_CASE("A GPU's SwiGLU addresses more than 2^31 elements") {
  check_last_rows(huge, ends, {1, 1}, [](std::int64_t rows) {
    const Rows gate = random_rows(rows, 1), up = random_rows(rows, 2), dy = random_rows(rows, 3);
    const Rows y = zero_rows(rows), dgate = zero_rows(rows), dup = zero_rows(rows);
    const SwigluArguments a{element,      dy.data(),  gate.data(), up.data(), y.data(),
                            dgate.data(), dup.data(), rows,        width,     width};
    cuda_activation_kernels.swiglu_forward(a, nullptr);
    cuda_activation_kernels.swiglu_backward(a, nullptr);
    return joined({last_rows(y), last_rows(dgate), last_rows(dup)});
  });
}

TEST_CASE("A GPU's GELU and sums of rows address more than 2^31 elements") {
  check_last_rows(huge, ends, strips, [](std::int64_t rows) {
    const Rows x = random_rows(rows, 1), dy = random_rows(rows, 2), y = zero_rows(rows), dx = zero_rows(rows);
    const HugeRows<float> partials(column_pieces(rows), width), dbias(1, width);
    cuda_gelu_kernels.forward({element, GeluForm::tanh, nullptr, x.data(), y.data(), nullptr, rows, width}, nullptr);
    cuda_gelu_kernels.backward({element, GeluForm::tanh, dy.data(), x.data(), dx.data(), partials.data(), rows, width},
                               nullptr);
    cuda_bias_kernels.sum_pieces({KernelElement::fp32, partials.data(), dbias.data(), rows, width, false}, nullptr);
    return joined({last_rows(y), last_rows(dx), partials.last(width), dbias.last(8)});
  });
}

TEST_CASE("A GPU's gradients of biases address more than 2^31 elements") {
  check_last_rows(huge, ends, strips, [](std::int64_t rows) {
    const Rows dy = random_rows(rows, 1);
    const HugeRows<float> partials(column_pieces(rows), width), dbias(1, width);
    cuda_bias_kernels.sum_rows({element, dy.data(), partials.data(), rows, width}, nullptr);
    cuda_bias_kernels.sum_pieces({KernelElement::fp32, partials.data(), dbias.data(), rows, width, false}, nullptr);
    return joined({partials.last(width), dbias.last(8)});
  });
}

TEST_CASE("A GPU's rotations address more than 2^31 elements") {
  constexpr int half = 64, heads = width / (2 * half);
  check_last_rows(huge, ends, {1, 1}, [](std::int64_t tokens) {
    // All tokens of the small array are the last ones of a sequence, too.
    const std::int64_t length = tokens == ends ? ends : huge;
    const HugeRows<float> cosine(length, half, ends, 1), sine(length, half, ends, 2);
    const Rows x = random_rows(tokens, 3), query = random_rows(tokens, 4), joined_heads(tokens, 2 * width);
    cuda_rope_kernels.rotate(
        {element, x.data(), cosine.data(), sine.data(), tokens, heads, half, width, 2 * half, length, 1}, nullptr);
    constexpr int shared = heads / 2;
    const HugeRows<Element> key(tokens, width / 2, ends, 5), value(tokens, width / 2, ends, 6);
    cuda_joined_heads_kernels.join({element,
                                    {query.data(), heads, width, 2 * half},
                                    {key.data(), shared, width / 2, 2 * half},
                                    {value.data(), shared, width / 2, 2 * half},
                                    joined_heads.data(),
                                    cosine.data(),
                                    sine.data(),
                                    tokens,
                                    half,
                                    length},
                                   nullptr);
    return joined({last_rows(x), joined_heads.last(ends * 2 * width)});
  });
}

TEST_CASE("A GPU's cross-entropy addresses more than 2^31 logits") {
  constexpr int columns = 32768;
  check_last_rows(beyond_int / columns + ends, ends, {0, 4}, [](std::int64_t rows) {
    const auto logits = [&](unsigned seed) { return Rows(rows, columns, ends, seed); };
    const Rows read = logits(1), both = logits(1), sliced = logits(1);
    const HugeRows<std::int64_t> targets(rows, 1);
    const HugeRows<float> losses(rows, 1), others(rows, 1), statistics(rows, 3);
    for (std::int64_t i = 1; i <= ends; ++i) targets.from_end(i) = columns - i;
    const auto call = [&](const Rows& of) {
      return CrossEntropyArguments{element, of.data(), targets.data(), rows, columns, 0};
    };
    cuda_cross_entropy_kernels.forward(call(read), losses.data(), nullptr);
    cuda_cross_entropy_kernels.forward_backward(call(both), 1, others.data(), nullptr);
    cuda_cross_entropy_kernels.statistics(call(sliced), statistics.data(), nullptr);
    cuda_cross_entropy_kernels.backward(call(sliced), statistics.data(), 1, nullptr);
    return joined({losses.last(ends), others.last(ends), statistics.last(3 * ends), both.last(ends * columns),
                   sliced.last(ends * columns)});
  });
}

TEST_CASE("A GPU's gradient of an embedding addresses more than 2^31 elements") {
  constexpr int wide = 16384;
  check_last_rows(beyond_int / wide + ends, ends, {0, 64}, [](std::int64_t rows) {
    const Rows dy(rows, wide, ends, 1);
    const HugeRows<float> gradient(rows, wide);
    const HugeRows<std::int64_t> targets(rows, 1), places(rows, 1);
    for (std::int64_t i = 1; i <= ends; ++i) targets.from_end(i) = places.from_end(i) = rows - i;
    cuda_embedding_kernels.add_rows(
        {element, dy.data(), targets.data(), places.data(), gradient.data(), rows, rows, wide}, nullptr);
    return gradient.last(ends * wide);
  });
}

TEST_CASE("A GPU's attention of new tokens addresses caches of more than 2^31 elements") {
  constexpr std::int64_t capacity = 256, dim = 64, kv_heads = 2, heads = 4;
  constexpr std::int64_t sequence = kv_heads * capacity * dim;
  check_last_rows(beyond_int / sequence + 2, 2, {}, [](std::int64_t sequences) {
    const HugeRows<Element> keys(sequences, sequence, 2, 1), values(sequences, sequence, 2, 2);
    const HugeRows<Element> query(1, heads * dim, 1, 3), key(1, kv_heads * dim, 1, 4), value(1, kv_heads * dim, 1, 5);
    const HugeRows<Element> out(1, heads * dim);
    const std::int64_t number = sequences - 1, position = capacity - 1;
    const HugeRows<float> partials(heads * decode_pieces(capacity), dim + 2);
    cuda_decode_kernels.attend({.element = element,
                                .query = {query.data(), heads * dim, dim},
                                .key = {key.data(), kv_heads * dim, dim},
                                .value = {value.data(), kv_heads * dim, dim},
                                .keys = keys.data(),
                                .values = values.data(),
                                .out = out.data(),
                                .sequences = &number,
                                .positions = &position,
                                .partials = partials.data(),
                                .tokens = 1,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .dim = dim,
                                .all_sequences = sequences,
                                .capacity = capacity,
                                .pieces = decode_pieces(capacity),
                                .scale = 0.125F},
                               nullptr);
    return joined({out.last(heads * dim), keys.last(dim), values.last(dim)});
  });
}

}  // namespace llmtrain::kernels
