// SPDX-License-Identifier: Apache-2.0
#include "core/body/passes/kept_derivatives.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/body/kept_tensors.h"
#include "core/body/passes/rewriting.h"

namespace llmtrain::body {
namespace {

const Elementwise* function_of_one(const Body& body, std::size_t step) {
  const auto* elementwise = std::get_if<Elementwise>(&body.steps[step].primitive);
  return elementwise != nullptr && is_of_one(*elementwise) ? elementwise : nullptr;
}

// By tensor, the last step that reads it.
std::vector<std::optional<std::size_t>> readers_of(const Body& body) {
  std::vector<std::optional<std::size_t>> readers(body.tensors.size());
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    for (const TensorId input : body.steps[i].inputs) readers[input] = i;
  return readers;
}

// The steps of the longest chain that begins with a step, ascending.
std::vector<std::size_t> chain_from(const Body& body, const Uses& uses,
                                    const std::vector<std::optional<std::size_t>>& readers, std::size_t begin) {
  std::vector<std::size_t> steps;
  std::optional<std::size_t> next = begin;
  while (next && function_of_one(body, *next) != nullptr) {
    steps.push_back(*next);
    const TensorId made = body.steps[*next].output;
    // An output counts as a reader, which is no step.
    next = uses.readers(made) == 1 ? readers[made] : std::nullopt;
  }
  return steps;
}

Body as_one_step(const Body& body, const std::vector<std::size_t>& steps) {
  ElementwiseChain chain;
  for (const std::size_t step : steps) chain.links.push_back(*function_of_one(body, step));
  Rewriting rewriting(body);
  rewriting.replace(steps);
  rewriting.make(chain, body.steps[steps.front()].inputs, body.steps[steps.back()].output);
  return std::move(rewriting).done();
}

// With one more chain as a step; none where that keeps no fewer bytes.
std::optional<Body> with_one_more(const Body& body, const ElementBytes& bytes) {
  const Uses uses(body);
  const std::vector<std::optional<std::size_t>> readers = readers_of(body);
  const double now = kept_bytes(body, bytes);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const std::vector<std::size_t> steps = chain_from(body, uses, readers, i);
    if (steps.size() < 2) continue;
    Body less = as_one_step(body, steps);
    if (kept_bytes(less, bytes) < now) return less;
  }
  return std::nullopt;
}

}  // namespace

double kept_bytes(const Body& body, const ElementBytes& bytes) {
  double sum = 0;
  for (const KeptTensor& item : kept_tensors(body))
    sum += statistic_bytes({.name = item.name, .elements = item.elements, .type = item.type}, bytes);
  return sum;
}

Body with_kept_derivatives(const Body& body, const ElementBytes& bytes) {
  Body made = body;
  while (std::optional<Body> less = with_one_more(made, bytes)) made = *std::move(less);
  return made;
}

}  // namespace llmtrain::body
