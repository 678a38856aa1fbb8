// SPDX-License-Identifier: Apache-2.0
#include "core/body/pass_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

// By tensor, whether its elements may lie in another order than its axes.
std::vector<bool> lie_otherwise(const Body& body) {
  std::vector<bool> otherwise(body.tensors.size());
  for (const Step& step : body.steps) {
    const auto* rearrange = std::get_if<Rearrange>(&step.primitive);
    const bool is_permuted = rearrange != nullptr && rearrange->kind == Rearrange::Kind::permute;
    const bool follows = std::holds_alternative<Elementwise>(step.primitive) || rearrange != nullptr;
    otherwise[step.output] = is_permuted || (follows && otherwise[step.inputs.front()]);
    if (!std::holds_alternative<Product>(step.primitive)) continue;
    // The result of matrices has the left operand's axes, then the right one's.
    const StepShape shape(body, step);
    std::vector<AxisId> order;
    for (const bool is_shared : {true, false})
      for (const AxisId axis : shape.input(0).axes)
        if (shape.output_has(axis) && shape.input_has(1, axis) == is_shared) order.push_back(axis);
    for (const AxisId axis : shape.input(1).axes)
      if (!shape.input_has(0, axis)) order.push_back(axis);
    otherwise[step.output] = order != body.tensors[step.output].axes;
  }
  return otherwise;
}

// Whether an operand of a product has its axes as its matrix has them: shared ones, its own, and those that are summed.
bool is_matrix(const StepShape& shape, std::size_t place) {
  std::vector<AxisId> expected, summed;
  for (const AxisId axis : shape.input(0).axes)
    if (shape.input_has(1, axis)) (shape.output_has(axis) ? expected : summed).push_back(axis);
  for (const AxisId axis : shape.input(place).axes)
    if (!shape.input_has(1 - place, axis)) expected.push_back(axis);
  expected.insert(expected.end(), summed.begin(), summed.end());
  return expected == shape.input(place).axes;
}

class Lives {
 public:
  Lives(const Body& body, const ElementBytes& bytes)
      : body_(body), bytes_(bytes), otherwise_(lie_otherwise(body)), steps_(body.steps.size()) {
    for (const Step& step : body.steps) works_.push_back(work(body, step));
  }

  void add_forward(const std::vector<std::size_t>& ends);
  void add_remade(const std::vector<bool>& again);
  void add_backward();
  std::size_t backward_of(std::size_t step) const { return 2 * steps_ - 1 - step; }
  void add(double bytes, std::size_t first, std::size_t last) {
    if (bytes > 0)
      buffers_.push_back({static_cast<std::int64_t>(std::ceil(bytes)), static_cast<std::int64_t>(first),
                          static_cast<std::int64_t>(last)});
  }
  PassMemory taken() &&;

 private:
  double computed(TensorId id) const {
    return (body_.tensors[id].is_index ? 2 * bytes_.sums : bytes_.computed) * elements_of(body_, id);
  }
  double forward_temporaries(std::size_t step) const;
  double copies(std::size_t step) const;
  void add_gradients(std::size_t step);

  const Body& body_;
  ElementBytes bytes_;
  std::vector<bool> otherwise_;
  std::size_t steps_;
  std::vector<Work> works_;
  std::vector<std::size_t> last_reader_ = std::vector<std::size_t>(body_.tensors.size());
  std::vector<Buffer> buffers_;
};

// Bytes of operands that a step copies to have their elements in its own order.
double Lives::copies(std::size_t step) const {
  const Step& of = body_.steps[step];
  const StepShape shape(body_, of);
  double bytes = 0;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const bool is_product = std::holds_alternative<Product>(of.primitive);
    if (otherwise_[of.inputs[i]] || (is_product && !is_matrix(shape, i))) bytes += computed(of.inputs[i]);
  }
  return bytes;
}

double Lives::forward_temporaries(std::size_t step) const {
  const Work& work = works_[step];
  return bytes_.sums * work.forward_temporaries + bytes_.computed * work.forward_working + copies(step);
}

// `ends`: by tensor, the moment until which its memory is held; those of statistics follow, by step.
void Lives::add_forward(const std::vector<std::size_t>& ends) {
  const std::vector<TensorId> memory = memory_of(body_);
  for (std::size_t i = 0; i < steps_; ++i) {
    const Step& step = body_.steps[i];
    if (memory[step.output] == step.output) add(computed(step.output), i, std::max(i, ends[step.output]));
    add(forward_temporaries(i), i, i);
    const std::size_t until = ends[body_.tensors.size() + i];
    for (const Statistic& statistic : kept(body_, step).statistics)
      add(statistic_bytes(statistic, bytes_), i, std::max(i, until));
  }
}

// As if all were made when the backward begins.
void Lives::add_remade(const std::vector<bool>& again) {
  double temporaries = 0;
  for (std::size_t i = 0; i < steps_; ++i) {
    if (!again[i]) continue;
    add(computed(body_.steps[i].output), steps_, backward_of(i));
    for (const Statistic& statistic : kept(body_, body_.steps[i]).statistics)
      add(statistic_bytes(statistic, bytes_), steps_, backward_of(i));
    temporaries = std::max(temporaries, forward_temporaries(i));
  }
  add(temporaries, steps_, 2 * steps_);
}

void Lives::add_gradients(std::size_t step) {
  const Step& of = body_.steps[step];
  const std::size_t now = backward_of(step);
  const Work& work = works_[step];
  double temporaries = bytes_.sums * work.backward_temporaries + bytes_.computed * work.backward_working + copies(step);
  if (std::holds_alternative<Product>(of.primitive) || otherwise_[of.output]) temporaries += computed(of.output);
  for (const TensorId input : of.inputs) {
    const BodyTensor& tensor = body_.tensors[input];
    if (!tensor.has_gradient) continue;
    if (tensor.role == BodyTensor::Role::parameter) {
      if (!comes_in_pieces(of, tensor)) temporaries += bytes_.sums * elements_of(body_, input);
      continue;
    }
    // That of a later reader is there: the two and their sum are at once.
    if (last_reader_[input] != step) temporaries += 2 * computed(input);
  }
  add(temporaries, now, now);
}

void Lives::add_backward() {
  const std::vector<TensorId> memory = memory_of(body_);
  std::vector<std::optional<std::size_t>> made(body_.tensors.size());
  std::vector<bool> is_read(body_.tensors.size());
  for (std::size_t i = 0; i < steps_; ++i) {
    made[body_.steps[i].output] = i;
    // Who makes no gradient of its result makes none of what it reads.
    if (!body_.tensors[body_.steps[i].output].has_gradient) continue;
    for (const TensorId input : body_.steps[i].inputs) {
      last_reader_[input] = i;
      is_read[input] = true;
    }
  }
  for (TensorId id = 0; id < body_.tensors.size(); ++id) {
    const BodyTensor& tensor = body_.tensors[id];
    if (!tensor.has_gradient || tensor.role == BodyTensor::Role::parameter) continue;
    const bool is_input = tensor.role == BodyTensor::Role::input;
    if (is_read[id]) add(computed(id), backward_of(last_reader_[id]), is_input ? 2 * steps_ : backward_of(*made[id]));
    // Whoever is given it may change it, so that it is a copy where it would share memory.
    if (is_input) add(computed(id), 2 * steps_, 2 * steps_);
  }
  for (std::size_t i = 0; i < steps_; ++i)
    if (body_.tensors[body_.steps[i].output].has_gradient) add_gradients(i);
}

PassMemory Lives::taken() && {
  std::vector<std::int64_t> changes(2 * steps_ + 2);
  for (const Buffer& buffer : buffers_) {
    changes[static_cast<std::size_t>(buffer.first)] += buffer.bytes;
    changes[static_cast<std::size_t>(buffer.last) + 1] -= buffer.bytes;
  }
  PassMemory result{.buffers = std::move(buffers_)};
  std::int64_t now = 0;
  for (std::size_t moment = 0; moment <= 2 * steps_; ++moment) {
    now += changes[moment];
    if (now <= result.peak) continue;
    result.peak = now;
    result.peak_moment = moment;
  }
  return result;
}

// The last step of the forward that reads the memory of each tensor.
std::vector<std::size_t> forward_ends(const Body& body) {
  const std::vector<TensorId> memory = memory_of(body);
  std::vector<std::size_t> ends(body.tensors.size() + body.steps.size());
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    for (const TensorId input : body.steps[i].inputs) ends[memory[input]] = i;
  for (const TensorId output : body.outputs) ends[memory[output]] = body.steps.size() - 1;
  return ends;
}

}  // namespace

double statistic_bytes(const Statistic& statistic, const ElementBytes& bytes) {
  switch (statistic.type) {
    case Statistic::Type::accumulated:
      return bytes.sums * statistic.elements;
    case Statistic::Type::computed:
      return bytes.computed * statistic.elements;
    case Statistic::Type::index:
      return 2 * bytes.sums * statistic.elements;
  }
  return 0;
}

std::size_t PassMemory::peak_step(std::size_t steps) const {
  return peak_moment < steps ? peak_moment : 2 * steps - 1 - std::min(peak_moment, 2 * steps - 1);
}

PassMemory pass_memory(const Body& body, Keeping keeping, const ElementBytes& bytes) {
  Lives lives(body, bytes);
  std::vector<std::size_t> ends = forward_ends(body);
  for (const KeptTensor& item : kept_tensors(body)) {
    if (item.through < keeping) continue;
    std::size_t& end = ends[item.tensor ? *item.tensor : body.tensors.size() + item.step];
    end = std::max(end, lives.backward_of(item.step));
  }
  lives.add_forward(ends);
  if (keeping != Keeping::all) lives.add_remade(runs_again(body, keeping));
  lives.add_backward();
  return std::move(lives).taken();
}

std::int64_t forward_memory(const Body& body, const ElementBytes& bytes) {
  Lives lives(body, bytes);
  lives.add_forward(forward_ends(body));
  return std::move(lives).taken().peak;
}

}  // namespace llmtrain::body
