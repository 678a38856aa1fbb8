// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/body_operators.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "core/body/kept_tensors.h"
#include "core/body/step_shape.h"

namespace llmtrain {
namespace {

using body::Body;
using body::BodyTensor;
using body::KeptTensor;
using body::TensorId;

constexpr double sum_bytes = 4, body_index_bytes = 8;

Recompute kept_through(body::Keeping keeping) {
  switch (keeping) {
    case body::Keeping::all:
      return Recompute::none;
    case body::Keeping::costly:
      return Recompute::selective;
    case body::Keeping::inputs:
      return Recompute::full;
  }
  return Recompute::full;
}

double element_bytes(body::Statistic::Type type, double element) {
  switch (type) {
    case body::Statistic::Type::accumulated:
      return sum_bytes;
    case body::Statistic::Type::computed:
      return element;
    case body::Statistic::Type::index:
      return body_index_bytes;
  }
  return element;
}

// When a tensor's memory is held, in steps of the forward.
struct Lifetime {
  std::size_t made = 0, last_read = 0;
  double bytes = 0;       // of tensors that lie in the memory of others 0
  std::size_t saved = 0;  // the step from which on it counts as saved; past the last: never
};

std::vector<Lifetime> lifetimes_of(const Body& body, double element) {
  const std::vector<TensorId> memory = body::memory_of(body);
  std::vector<Lifetime> lifetimes(body.tensors.size());
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    if (memory[id] != id) continue;
    lifetimes[id] = {.bytes = body.tensors[id].is_index ? body_index_bytes : element, .saved = body.steps.size()};
    for (const std::int64_t extent : body.shape_of(id)) lifetimes[id].bytes *= static_cast<double>(extent);
  }
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const TensorId output = body.steps[i].output;
    if (memory[output] == output) lifetimes[output].made = lifetimes[output].last_read = i;
    for (const TensorId input : body.steps[i].inputs) lifetimes[memory[input]].last_read = i;
  }
  for (const TensorId output : body.outputs) lifetimes[memory[output]].last_read = body.steps.size() - 1;
  for (const KeptTensor& item : kept_tensors(body))
    if (item.tensor) lifetimes[*item.tensor].saved = item.step;
  return lifetimes;
}

// Results that are alive while a step of the forward runs, beside inputs of the body and what counts as saved.
double forward_working(const Body& body, const std::vector<Lifetime>& lifetimes, std::size_t step) {
  double bytes = 0;
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    const Lifetime& life = lifetimes[id];
    const bool is_alive = life.made <= step && life.last_read >= step && life.saved > step;
    if (body.tensors[id].role == BodyTensor::Role::made && is_alive) bytes += life.bytes;
  }
  return bytes;
}

// Gradients that are alive while a step's backward runs: from a tensor's last reader to the step that made it.
double backward_working(const Body& body, const std::vector<Lifetime>& lifetimes, std::size_t step) {
  double bytes = 0;
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    const BodyTensor& tensor = body.tensors[id];
    if (tensor.role == BodyTensor::Role::parameter || !tensor.has_gradient) continue;
    const Lifetime& life = lifetimes[id];
    const bool is_input = tensor.role == BodyTensor::Role::input;
    if ((is_input || life.made <= step) && life.last_read >= step) bytes += life.bytes;
  }
  return bytes;
}

double parameter_gradients(const Body& body, const body::Step& step) {
  double bytes = 0;
  for (const TensorId input : step.inputs) {
    const BodyTensor& parameter = body.tensors[input];
    if (parameter.role != BodyTensor::Role::parameter || comes_in_pieces(step, parameter)) continue;
    double elements = sum_bytes;
    for (const std::int64_t extent : body.shape_of(input)) elements *= static_cast<double>(extent);
    bytes += elements;
  }
  return bytes;
}

// Whatever a primitive's operator has beside work and memory.
template <class PassOverMemory>
void describe(const PassOverMemory& /*primitive*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::elementwise;
}
void describe(const body::Product& /*product*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::product;
}
void describe(const body::Convolution& /*convolution*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::product;
}
void describe(const body::Cholesky& /*cholesky*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::product;
}
void describe(const body::TriangularSolve& /*solve*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::product;
}
void describe(const body::CrossEntropy& /*cross_entropy*/, const body::StepShape& /*shape*/, Operator& item) {
  item.kind = OperatorKind::cross_entropy;
}
void describe(const body::Attention& attention, const body::StepShape& shape, Operator& item) {
  const bool is_stored = stores_scores(attention, shape);
  item.kind = is_stored ? OperatorKind::stored_attention : OperatorKind::fused_attention;
  item.is_causal = attention.is_causal;
  const double scores = body::work(attention, shape).forward_temporaries;
  if (attention.dropout > 0) item.forward.elements = item.backward.elements = 2 * scores;
  item.heads_per_key = static_cast<double>(shape.extent(shape.input(0).axes[2])) /
                       static_cast<double>(shape.extent(shape.input(1).axes[2]));
}

// Its steps are operators of their own.
void describe(const body::Chunked& /*chunked*/, const body::StepShape& /*shape*/, Operator& /*item*/) {}

Operator operator_of(const Body& body, const body::Step& step, double element) {
  const body::Work work = body::work(body, step);
  Operator item{.name = body.tensors[step.output].name};
  std::visit([&](const auto& primitive) { describe(primitive, body::StepShape(body, step), item); }, step.primitive);
  item.flops = work.forward_flops;
  if (work.forward_flops > 0) {
    item.product = {work.product.rows, work.product.columns, work.product.inner, work.product.batch};
    item.has_weight_gradient = work.backward_flops > work.forward_flops;
  } else {
    item.forward.elements = work.forward_elements;
    item.backward.elements = work.backward_elements;
  }
  item.forward_scratch = sum_bytes * work.forward_temporaries + element * work.forward_working;
  item.backward_scratch =
      sum_bytes * work.backward_temporaries + element * work.backward_working + parameter_gradients(body, step);
  return item;
}

// The operators of steps that run in pieces, whose memory is that of the pieces.
OperatorList operators_in_pieces(const Body& body, const body::Step& step, const body::Chunked& chunked,
                                 double element) {
  OperatorList operators;
  for (const body::Step& inner : chunked.body->steps) {
    Operator item = operator_of(*chunked.body, inner, element);
    item.repetition = Operator::Repetition::always;
    item.parts = static_cast<double>(chunked.pieces);
    item.forward_scratch = item.backward_scratch = 0;
    operators.push_back(std::move(item));
  }
  const Operator of_all = operator_of(body, step, element);
  operators.back().forward_scratch = of_all.forward_scratch;
  operators.back().backward_scratch = of_all.backward_scratch;
  return operators;
}

// `operator_of`: by step, the operator that has what the step keeps.
using OperatorOfStep = std::vector<std::size_t>;

void add_saved(const Body& body, double element, const OperatorOfStep& operator_of, OperatorList& operators) {
  const std::vector<TensorId> inputs = body.tensors_of(BodyTensor::Role::input);
  for (const KeptTensor& kept : kept_tensors(body)) {
    SavedTensor saved{kept.name, kept.elements * element_bytes(kept.type, element), kept_through(kept.through)};
    const auto found = std::ranges::find(inputs, kept.tensor.value_or(body.tensors.size()));
    if (found != inputs.end()) saved.input = static_cast<std::size_t>(found - inputs.begin());
    operators[operator_of[kept.step]].saved.push_back(std::move(saved));
  }
}

// The backward goes from the last step to the first. What reads a tensor before another step does finds that one's
// gradient, which it reads with its own to write their sum.
void add_sums_of_gradients(const Body& body, const OperatorOfStep& operator_of, OperatorList& operators) {
  std::vector<bool> has_some(body.tensors.size());
  for (const TensorId output : body.outputs) has_some[output] = true;
  for (std::size_t step = body.steps.size(); step-- > 0;) {
    if (!body.tensors[body.steps[step].output].has_gradient) continue;
    for (const TensorId input : body.steps[step].inputs) {
      const BodyTensor& tensor = body.tensors[input];
      if (tensor.role == BodyTensor::Role::parameter || !tensor.has_gradient) continue;
      if (!has_some[input]) {
        has_some[input] = true;
        continue;
      }
      double elements = 3;
      for (const std::int64_t extent : body.shape_of(input)) elements *= static_cast<double>(extent);
      operators[operator_of[step]].summed_gradients += elements;
    }
  }
}

}  // namespace

OperatorList priced(const body::Body& body, double element) {
  using Repetition = Operator::Repetition;
  const std::vector<bool> selective = body::runs_again(body, body::Keeping::costly),
                          full = body::runs_again(body, body::Keeping::inputs);
  const std::vector<Lifetime> lifetimes = lifetimes_of(body, element);
  OperatorList operators;
  OperatorOfStep last;
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const body::Step& step = body.steps[i];
    if (const auto* chunked = std::get_if<body::Chunked>(&step.primitive)) {
      std::ranges::move(operators_in_pieces(body, step, *chunked, element), std::back_inserter(operators));
    } else {
      operators.push_back(operator_of(body, step, element));
      const Repetition otherwise = full[i] ? Repetition::full : Repetition::never;
      operators.back().repetition = selective[i] ? Repetition::selective_and_full : otherwise;
    }
    operators.back().forward_working = forward_working(body, lifetimes, i);
    operators.back().backward_working = backward_working(body, lifetimes, i);
    last.push_back(operators.size() - 1);
  }
  add_saved(body, element, last, operators);
  add_sums_of_gradients(body, last, operators);
  return operators;
}

}  // namespace llmtrain
