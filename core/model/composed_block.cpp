// SPDX-License-Identifier: Apache-2.0
#include "core/model/composed_block.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace llmtrain {
namespace {

body::Keeping keeping_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return body::Keeping::all;
    case Recompute::selective:
      return body::Keeping::costly;
    case Recompute::computation:
    case Recompute::full:
      break;
  }
  return body::Keeping::inputs;
}

// Rows of tokens [T, …] as a body has them, and back.
std::vector<at::Tensor> shaped_as(const body::Body& filled, const std::vector<body::TensorId>& ids,
                                  const Tensors& tensors) {
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < ids.size(); ++i) result.push_back(tensors[i].reshape(filled.shape_of(ids[i])));
  return result;
}

Tensors as_rows(const std::vector<at::Tensor>& tensors) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.flatten(0, 1));
  return rows;
}

}  // namespace

struct ComposedBlock::Saved final : SavedActivations {
  explicit Saved(body::BodyTensors tensors) : kept(std::move(tensors)) {}
  body::BodyTensors kept;
};

// Weights as they are in the stores when a step asks for them.
class ComposedBlock::Weights final : public body::BodyParameters {
 public:
  Weights(const body::Body& body, const std::map<body::TensorId, BoundParameter>& bound) : body_(body), bound_(bound) {}

  at::Tensor weight(body::TensorId parameter) const override {
    return bound_.at(parameter).weight().view(body_.shape_of(parameter));
  }
  void add_gradient(body::TensorId parameter, const at::Tensor& gradient) override {
    const BoundParameter& bound = bound_.at(parameter);
    if (bound.is_frozen()) return;
    ParameterStore::GradientTarget target = bound.gradient();
    const at::Tensor sum = target.tensor.view(body_.shape_of(parameter));
    if (target.accumulation == kernels::Accumulation::add)
      sum.add_(gradient);
    else
      sum.copy_(gradient);
  }

 private:
  const body::Body& body_;
  const std::map<body::TensorId, BoundParameter>& bound_;
};

ComposedBlock::ComposedBlock(const BlockParameters& parameters, body::Body body, BatchAxes axes, Recompute recompute)
    : body_(std::move(body)), axes_(axes), keeping_(keeping_of(recompute)), name_(parameters.block().name) {
  if (parameters.split().ranks() > 1)
    throw Error(ExitCode::internal_error, name_ + ": a composed block has whole parameters, which " +
                                              std::to_string(parameters.split().ranks()) + " tensor ranks share");
  for (const body::TensorId id : body_.tensors_of(body::BodyTensor::Role::parameter))
    bound_.emplace(id, parameters.bind_alone(body_.tensors[id].name));
}

const body::BodyRun& ComposedBlock::run_of(const Batch& batch) const {
  const Sequences& rows = batch.sequences();
  if (!rows.part.is_whole())
    throw Error(ExitCode::internal_error, name_ + ": a composed block has whole sequences, which context ranks share");
  const auto place = runs_.find({rows.count, rows.length});
  if (place != runs_.end()) return place->second;
  body::Body filled = body::with_extents(body_, {{axes_.sequences, rows.count}, {axes_.tokens, rows.length}});
  const auto site_of = [&](const std::string& step) { return stable_hash(name_ + "." + step); };
  return runs_.try_emplace({rows.count, rows.length}, std::move(filled), keeping_, site_of).first->second;
}

body::BodyPass ComposedBlock::pass_of(const Batch& batch, const PassContext& pass) const {
  body::BodyPass result{.trains = pass.trains(),
                        .seed = pass.seed,
                        .step = pass.step,
                        .first_sample = pass.first_sample,
                        .documents = {}};
  const Sequences& rows = batch.sequences();
  result.documents.push_back({axes_.tokens, {rows.documents, rows.document_starts, rows.document_pieces.get()}});
  return result;
}

std::vector<at::Tensor> ComposedBlock::fields_of(const body::Body& filled, const Batch& batch) const {
  std::vector<at::Tensor> fields;
  for (const body::TensorId id : filled.tensors_of(body::BodyTensor::Role::field)) {
    const auto found = std::ranges::find(batch_field_names, filled.tensors[id].name);
    if (found == batch_field_names.end())
      throw Error(ExitCode::internal_error, name_ + ": batches have no field " + filled.tensors[id].name);
    const auto place = static_cast<std::size_t>(found - batch_field_names.begin());
    fields.push_back(batch.fields[place].reshape(filled.shape_of(id)));
  }
  return fields;
}

BlockModule::Output ComposedBlock::forward(Tensors inputs, const Batch& batch, const PassContext& pass) const {
  const body::BodyRun& run = run_of(batch);
  const body::Body& filled = run.body();
  const Weights weights(filled, bound_);
  body::BodyRun::Output made = run.forward(shaped_as(filled, filled.tensors_of(body::BodyTensor::Role::input), inputs),
                                           fields_of(filled, batch), weights, pass_of(batch, pass));
  Output output{.values = as_rows(made.values), .saved = nullptr};
  if (pass.trains()) output.saved = std::make_unique<Saved>(std::move(made.kept));
  return output;
}

Tensors ComposedBlock::backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                                std::unique_ptr<SavedActivations> saved) const {
  const body::BodyRun& run = run_of(batch);
  const body::Body& filled = run.body();
  Weights weights(filled, bound_);
  return as_rows(run.backward(shaped_as(filled, filled.outputs, gradients), std::move(static_cast<Saved&>(*saved).kept),
                              fields_of(filled, batch), weights, pass_of(batch, pass)));
}

}  // namespace llmtrain
