// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {

// Bodies that can be cut along some axis, of small extents that are mostly primes.

struct NamedBody {
  std::string name;
  Body body;
};

Body feed_forward_body(std::int64_t tokens, std::int64_t hidden, std::int64_t width);
// Logits of rows and their losses.
Body head_body(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary);
// Attention of t queries to s keys, of primitives alone, that pass scores through memory.
Body query_body(std::int64_t queries, std::int64_t keys, std::int64_t heads, std::int64_t features);
// Two convolutions with an activation between them.
Body convolutions_body(std::int64_t channels);

// One or more of each family.
std::vector<NamedBody> family_bodies();

// Numbers below what they count, for any body's fields.
std::vector<at::Tensor> fields_of(const Body& body);

// Outputs, and gradients of inputs and parameters by name.
struct NamedPasses {
  std::vector<at::Tensor> values;
  std::map<std::string, at::Tensor> gradients;
};
// The passes of `cut`, which has the given tensors of `body` under their names.
NamedPasses passes_of_cut(const Body& body, const Body& cut, const GivenTensors& given,
                          const std::vector<at::Tensor>& output_gradients, const BodyPass& pass = {});

}  // namespace llmtrain::body::test
