// SPDX-License-Identifier: Apache-2.0
#include "core/body/run/body_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::body {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

bool share_memory(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && other.defined() && one.storage().is_alias_of(other.storage());
}

// Which memory the tensors lie in, without holding it.
std::vector<WeakStorage> storages_of(const std::vector<at::Tensor>& tensors) {
  std::vector<WeakStorage> storages;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) storages.push_back(tensor.storage().getWeakStorageImpl());
  return storages;
}

// By tensor, whether it is a result that one step's forward reads, and no backward: whoever makes it again needs it no
// longer than that step.
std::vector<bool> passed_on(const Body& body) {
  std::vector<std::size_t> readers(body.tensors.size());
  std::vector<bool> is_read_again(body.tensors.size());
  for (const Step& step : body.steps) {
    const Kept read = kept(body, step);
    for (const TensorId input : step.inputs) ++readers[input];
    for (const std::size_t place : read.inputs) is_read_again[step.inputs[place]] = true;
    if (read.output) is_read_again[step.output] = true;
  }
  for (const TensorId output : body.outputs) is_read_again[output] = true;
  std::vector<bool> result(body.tensors.size());
  for (TensorId id = 0; id < body.tensors.size(); ++id)
    result[id] = body.tensors[id].role == BodyTensor::Role::made && readers[id] == 1 && !is_read_again[id];
  return result;
}

}  // namespace

// One pass: what is at hand in it, by tensor and by step.
class BodyRun::Passage {
 public:
  Passage(const BodyRun& run, const std::vector<at::Tensor>& fields, const BodyParameters& parameters,
          const BodyPass& pass, BodyTensors at_hand)
      : run_(run), parameters_(parameters), pass_(pass), at_hand_(std::move(at_hand)) {
    at_hand_.tensors.resize(body().tensors.size());
    at_hand_.statistics.resize(body().steps.size());
    take(BodyTensor::Role::field, fields);
  }

  void take(BodyTensor::Role role, const std::vector<at::Tensor>& given) {
    const std::vector<TensorId> ids = body().tensors_of(role);
    if (given.size() != ids.size())
      throw Error(ExitCode::internal_error, "body: it reads " + std::to_string(ids.size()) +
                                                " tensors where it is given " + std::to_string(given.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      require_shape(ids[i], given[i]);
      at_hand_.tensors[ids[i]] = given[i];
    }
  }

  void run_step(std::size_t step) {
    StepTensors tensors;
    for (const TensorId input : body().steps[step].inputs) tensors.inputs.push_back(value(input));
    if (has_statistics(step)) tensors.statistics = at_hand_.statistics[step];
    const StepShape shape(body(), body().steps[step]);
    StepResult result =
        std::visit([&](const auto& of_kind) { return body::forward(of_kind, tensors, context(shape, step)); },
                   body().steps[step].primitive);
    at_hand_.tensors[body().steps[step].output] = std::move(result.output);
    at_hand_.statistics[step] = std::move(result.statistics);
  }

  // `gradients`: where those of parameters go that come in pieces.
  StepGradients run_backward(std::size_t step, const at::Tensor& dy, BodyParameters& gradients) {
    const Step& described = body().steps[step];
    const Kept read = kept(body(), described);
    StepTensors tensors;
    tensors.inputs.resize(described.inputs.size());
    for (std::size_t place = 0; place < described.inputs.size(); ++place) {
      const bool is_read = std::ranges::find(read.inputs, place) != read.inputs.end();
      if (is_read || body().tensors[described.inputs[place]].is_given())
        tensors.inputs[place] = value(described.inputs[place]);
    }
    if (read.output) tensors.output = value(described.output);
    if (!read.statistics.empty() && !has_statistics(step)) run_step(step);
    tensors.statistics = at_hand_.statistics[step];
    const StepShape shape(body(), described);
    const std::function<void(std::size_t, const at::Tensor&)> add = [&](std::size_t place, const at::Tensor& gradient) {
      gradients.add_gradient(described.inputs[place], gradient);
    };
    StepContext how = context(shape, step);
    how.add_gradient = &add;
    return std::visit([&](const auto& of_kind) { return body::backward(of_kind, dy, tensors, how); },
                      described.primitive);
  }

  at::Tensor value(TensorId id) {
    if (body().tensors[id].role == BodyTensor::Role::parameter) {
      at::Tensor weight = parameters_.weight(id);
      require_shape(id, weight);
      return weight;
    }
    if (at_hand_.tensors[id].defined()) return at_hand_.tensors[id];
    const std::size_t maker = run_.maker_[id];
    run_step(maker);
    for (const TensorId input : body().steps[maker].inputs)
      if (run_.is_passed_on_[input]) at_hand_.tensors[input].reset();
    return at_hand_.tensors[id];
  }

  BodyTensors& at_hand() { return at_hand_; }

 private:
  const Body& body() const { return run_.body_; }
  StepContext context(const StepShape& shape, std::size_t step) const {
    return {shape, pass_, run_.sites_[step], &run_.site_of_};
  }
  bool has_statistics(std::size_t step) const {
    const std::vector<at::Tensor>& statistics = at_hand_.statistics[step];
    return !statistics.empty() && std::ranges::all_of(statistics, &at::Tensor::defined);
  }
  void require_shape(TensorId id, const at::Tensor& tensor) const {
    const std::vector<std::int64_t> shape = body().shape_of(id);
    if (tensor.defined() && tensor.sizes() == at::IntArrayRef(shape)) return;
    throw Error(ExitCode::internal_error,
                "body: " + body().tensors[id].name + " is " + shape_text(shape) + ", not " +
                    (tensor.defined() ? shape_text(tensor.sizes()) : std::string("undefined")));
  }

  const BodyRun& run_;
  const BodyParameters& parameters_;
  const BodyPass& pass_;
  BodyTensors at_hand_;
};

BodyRun::BodyRun(Body body, Keeping keeping, const std::function<std::uint64_t(const std::string&)>& site_of)
    : body_(std::move(body)),
      site_of_(site_of),
      last_use_(body_.tensors.size()),
      maker_(body_.tensors.size()),
      is_passed_on_(passed_on(body_)),
      keeps_tensor_(body_.tensors.size()),
      keeps_statistic_(body_.steps.size()) {
  for (std::size_t i = 0; i < body_.steps.size(); ++i) {
    const Step& step = body_.steps[i];
    for (const TensorId input : step.inputs) last_use_[input] = i;
    last_use_[step.output] = maker_[step.output] = i;
    keeps_statistic_[i].resize(body::kept(body_, step).statistics.size());
    sites_.push_back(site_of(body_.tensors[step.output].name));
  }
  for (const TensorId output : body_.outputs) last_use_[output] = body_.steps.size();
  for (KeptTensor& item : kept_tensors(body_)) {
    if (item.through < keeping) continue;
    if (item.tensor)
      keeps_tensor_[*item.tensor] = true;
    else
      keeps_statistic_[item.step][item.statistic] = true;
    kept_.push_back(std::move(item));
  }
}

BodyRun::Output BodyRun::forward(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& fields,
                                 const BodyParameters& parameters, const BodyPass& pass) const {
  Passage passage(*this, fields, parameters, pass, {});
  passage.take(BodyTensor::Role::input, inputs);
  BodyTensors& at_hand = passage.at_hand();
  for (std::size_t i = 0; i < body_.steps.size(); ++i) {
    passage.run_step(i);
    for (std::size_t k = 0; k < at_hand.statistics[i].size(); ++k)
      if (!pass.trains || !keeps_statistic_[i][k]) at_hand.statistics[i][k].reset();
    const auto release = [&](TensorId id) {
      if (last_use_[id] <= i && !(pass.trains && keeps_tensor_[id])) at_hand.tensors[id].reset();
    };
    for (const TensorId input : body_.steps[i].inputs) release(input);
    release(body_.steps[i].output);
  }
  Output output;
  for (const TensorId id : body_.outputs) output.values.push_back(passage.value(id));
  for (TensorId id = 0; id < body_.tensors.size(); ++id)
    if (!pass.trains || !keeps_tensor_[id]) at_hand.tensors[id].reset();
  if (pass.trains) output.kept = std::move(at_hand);
  return output;
}

std::vector<at::Tensor> BodyRun::backward(std::vector<at::Tensor> gradients, BodyTensors kept,
                                          const std::vector<at::Tensor>& fields, BodyParameters& parameters,
                                          const BodyPass& pass) const {
  Passage passage(*this, fields, parameters, pass, std::move(kept));
  std::vector<at::Tensor> of_tensors(body_.tensors.size());
  const auto add = [&](TensorId id, const at::Tensor& gradient) {
    // Not in place: it may be a view of what others read.
    if (gradient.defined()) of_tensors[id] = of_tensors[id].defined() ? of_tensors[id] + gradient : gradient;
  };
  const std::vector<WeakStorage> given = storages_of(gradients);
  // Each goes after the last step that reads it.
  for (std::size_t i = 0; i < body_.outputs.size(); ++i) add(body_.outputs[i], std::exchange(gradients.at(i), {}));
  std::vector<at::Tensor> shapes;
  for (const TensorId id : body_.tensors_of(BodyTensor::Role::input)) shapes.push_back(passage.at_hand().tensors[id]);
  for (std::size_t i = body_.steps.size(); i-- > 0;) {
    const Step& step = body_.steps[i];
    const at::Tensor dy = std::exchange(of_tensors[step.output], {});
    if (dy.defined() && body_.tensors[step.output].has_gradient) {
      const StepGradients made = passage.run_backward(i, dy, parameters);
      for (std::size_t place = 0; place < made.size(); ++place) {
        const TensorId input = step.inputs[place];
        if (!made[place].defined() || !body_.tensors[input].has_gradient) continue;
        if (body_.tensors[input].role == BodyTensor::Role::parameter)
          parameters.add_gradient(input, made[place]);
        else
          add(input, made[place]);
      }
    }
    release_after(i, passage.at_hand());
  }
  return input_gradients(of_tensors, shapes, given);
}

void BodyRun::release_after(std::size_t step, BodyTensors& at_hand) const {
  at_hand.tensors[body_.steps[step].output].reset();
  at_hand.statistics[step].clear();
  for (const KeptTensor& item : kept_)
    if (item.step == step && item.tensor) at_hand.tensors[*item.tensor].reset();
}

std::vector<at::Tensor> BodyRun::input_gradients(const std::vector<at::Tensor>& of_tensors,
                                                 const std::vector<at::Tensor>& inputs,
                                                 const std::vector<WeakStorage>& given) const {
  std::vector<at::Tensor> result;
  const std::vector<TensorId> ids = body_.tensors_of(BodyTensor::Role::input);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    at::Tensor gradient = of_tensors[ids[i]].defined() ? of_tensors[ids[i]].contiguous() : at::zeros_like(inputs[i]);
    const auto is_shared = [&](const at::Tensor& other) { return share_memory(gradient, other); };
    const auto is_given = [&](const WeakStorage& other) {
      return other._unsafe_get_target() == gradient.storage().unsafeGetStorageImpl();
    };
    if (std::ranges::any_of(given, is_given) || std::ranges::any_of(result, is_shared)) gradient = gradient.clone();
    result.push_back(std::move(gradient));
  }
  return result;
}

void BodyRun::visit(const BodyTensors& kept,
                    const std::function<void(const std::string&, const at::Tensor&)>& f) const {
  for (const KeptTensor& item : kept_)
    f(item.name, item.tensor ? kept.tensors[*item.tensor] : kept.statistics[item.step][item.statistic]);
}

}  // namespace llmtrain::body
