// SPDX-License-Identifier: Apache-2.0
#include "core/model/composed_block.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <memory>
#include <ranges>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/block_modules.h"
#include "core/model/key_value_cache.h"
#include "core/model/stage.h"

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

// The body with the logits in place of the losses.
body::Body predicting(body::Body body) {
  const std::vector<bool> losses = are_losses(body);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!losses[i]) continue;
    const body::TensorId loss = body.outputs[i];
    body.outputs[i] = logits_of(body, loss);
    std::erase_if(body.steps, [&](const body::Step& step) { return step.output == loss; });
  }
  return body;
}

// The body with the logits of its losses as further outputs.
body::Body with_logits(body::Body body) {
  const std::vector<bool> losses = are_losses(body);
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (losses[i]) body.outputs.push_back(logits_of(body, body.outputs[i]));
  return body;
}

// The rows [T, …] that count; the others are zero.
at::Tensor counted(const at::Tensor& rows, const Batch& batch) {
  const at::Tensor& which = batch.field(BatchField::counted_rows);
  if (!which.defined()) return rows;
  return at::zeros_like(rows).index_copy_(0, which, rows.index_select(0, which));
}

// How numbers are stored beside the batch's: a rank has only those fields that its blocks read.
at::TensorOptions index_options(const Batch& batch) {
  const auto field = std::ranges::find_if(batch.fields, &at::Tensor::defined);
  return field == batch.fields.end() ? at::TensorOptions(at::kLong) : field->options().dtype(at::kLong);
}

// padding_field, in the type of the weight: positions count anew behind the first document.
at::Tensor padding_of(const Sequences& sequences, const at::Tensor& weight) {
  constexpr double none_is_left = -30000;  // of a softmax, and not infinite in fp16
  const at::Tensor padding = at::zeros({sequences.rows()}, weight.options().requires_grad(false));
  if (!sequences.positions.defined()) return padding;
  const at::Tensor rows = at::arange(sequences.length, sequences.positions.options()).repeat({sequences.count});
  return padding.masked_fill_(sequences.positions.reshape({-1}).lt(rows), none_is_left);
}

std::optional<at::Device> device_of(const Tensors& values) {
  if (values.empty() || !values.front().defined()) return std::nullopt;
  return values.front().device();
}

// The gradients of all rows, or where they are of tokens of those that count.
at::Tensor loss_gradients(const Batch& batch, std::int64_t rows, bool are_tokens, double gradient,
                          const at::TensorOptions& options) {
  const at::Tensor& which = batch.field(BatchField::counted_rows);
  if (!are_tokens || !which.defined()) return at::full({rows}, gradient, options);
  return at::zeros({rows}, options).index_fill_(0, which, gradient);
}

// Attention within and between sequences that grow, by the cache of the pass.
class CachedAttention final : public body::AttentionMemory {
 public:
  explicit CachedAttention(KeyValueCache& cache) : cache_(cache) {}

  at::Tensor attend(const Call& call, const at::Tensor& query, const at::Tensor& key,
                    const at::Tensor& value) override {
    if (!call.is_causal) return cache_.attend_source(call.site, query, {key, value}, call.scale);
    kernels::CachedAttentionCall how;
    how.scale = call.scale;
    how.bias = call.bias;
    return cache_.attend(static_cast<std::int64_t>(call.site), query, {key, value}, how);
  }

 private:
  KeyValueCache& cache_;
};

}  // namespace

struct ComposedBlock::Saved final : SavedActivations {
  explicit Saved(body::BodyTensors tensors) : kept(std::move(tensors)) {}
  body::BodyTensors kept;
  at::TensorOptions losses{};  // of its losses of rows

  void visit(const KeptTensorVisitor& visit) override {
    for (at::Tensor& tensor : kept.tensors) visit(tensor);
    for (std::vector<at::Tensor>& statistics : kept.statistics)
      for (at::Tensor& tensor : statistics) visit(tensor);
  }
};

// Weights as they are in the stores when a step asks for them.
class ComposedBlock::Weights final : public body::BodyParameters {
 public:
  using Bound = std::map<std::string, BoundParameter, std::less<>>;
  Weights(const body::Body& body, const Bound& bound) : body_(body), bound_(bound) {}

  at::Tensor weight(body::TensorId parameter) const override {
    return bound_.at(body_.tensors[parameter].name).weight().view(body_.shape_of(parameter));
  }
  void add_gradient(body::TensorId parameter, const at::Tensor& gradient) override {
    const BoundParameter& bound = bound_.at(body_.tensors[parameter].name);
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
  const Bound& bound_;
};

ComposedBlock::ComposedBlock(const BlockParameters& parameters, body::Body body, const BodyDescription& described,
                             Recompute recompute, std::int64_t chunks)
    : body_(std::move(body)),
      predicting_(predicting(body_)),
      evaluating_(described.tells_classes ? with_logits(body_) : body_),
      axes_(described.axes),
      buckets_(described.buckets),
      keeping_(keeping_of(recompute)),
      chunks_(chunks),
      name_(parameters.block().name) {
  if (parameters.split().ranks() > 1)
    throw Error(ExitCode::internal_error, name_ + ": a composed block has whole parameters, which " +
                                              std::to_string(parameters.split().ranks()) + " tensor ranks share");
  for (const body::TensorId id : body_.tensors_of(body::BodyTensor::Role::parameter))
    bound_.emplace(body_.tensors[id].name, parameters.bind_alone(body_.tensors[id].name));
  const std::vector<bool> losses = are_losses(body_);
  std::size_t term = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses_.emplace_back();
    if (!losses[i]) continue;
    const std::vector<body::AxisId>& of_rows = body_.tensors[body_.outputs[i]].axes;
    losses_.back() = {parameters.block().losses.at(term++), std::ranges::count(of_rows, axes_.tokens) > 0};
  }
}

const body::Body& ComposedBlock::body_in(PassMode mode) const {
  switch (mode) {
    case PassMode::training:
      break;
    case PassMode::evaluation:
      return evaluating_;
    case PassMode::prediction:
      return predicting_;
  }
  return body_;
}

ComposedBlock::Shaped& ComposedBlock::shaped(const Batch& batch, const PassContext& pass) const {
  const std::int64_t count = sequences_of(batch).count;
  std::map<body::AxisId, std::int64_t> extents{{axes_.sequences, count}};
  std::vector<std::int64_t> lengths;
  for (const auto& [axis, of] : axes_.all()) {
    const Sequences& rows = batch.rows.at(of);
    if (!rows.part.is_whole())
      throw Error(ExitCode::internal_error,
                  name_ + ": a composed block has whole sequences, which context ranks share");
    // Keys of its own rows' biases, which have a label of their own.
    const bool are_remembered = axis != axes_.tokens && of == axes_.rows && grows(batch, pass);
    extents[axis] = are_remembered ? pass.cache->positions_at_hand() : rows.length;
    lengths.push_back(extents[axis]);
  }
  const auto place = runs_.find({count, lengths, pass.mode});
  if (place != runs_.end()) return place->second;
  // Sources have any length, and so have shapes no end.
  constexpr std::size_t most_shapes = 64;
  if (pass.cache != nullptr && runs_.size() >= most_shapes) runs_.clear();
  body::Body filled = body::with_extents(body_in(pass.mode), extents);
  if (pass.mode != PassMode::prediction) filled = in_pieces(filled, chunks_);
  const auto site_of = [&](const std::string& step) { return stable_hash(name_ + "." + step); };
  Shaped made{body::BodyRun(std::move(filled), keeping_, site_of)};
  return runs_.try_emplace({count, lengths, pass.mode}, std::move(made)).first->second;
}

body::BodyPass ComposedBlock::pass_of(const Batch& batch, const PassContext& pass) const {
  body::BodyPass result{.trains = pass.trains(),
                        .seed = pass.seed,
                        .step = pass.step,
                        .first_sample = pass.first_sample,
                        .label_smoothing = pass.trains() ? pass.label_smoothing : 0,
                        .documents = {}};
  for (const auto& [axis, of] : axes_.all()) {
    const Sequences& rows = batch.rows.at(of);
    result.documents.push_back({axis, {rows.documents, rows.document_starts, rows.document_pieces.get()}});
  }
  return result;
}

// Targets of rows that do not count may be anything, and in prediction there are neither targets nor labels: they are
// not to be read. Without another text all tokens are of the first.
at::Tensor ComposedBlock::field_of(const body::BodyTensor& tensor, const Batch& batch, const PassContext& pass) const {
  const std::string& name = tensor.name;
  const at::TensorOptions options = index_options(batch);
  const bool predicts = pass.mode == PassMode::prediction;
  // Samples as a whole have these.
  if (name == batch_field_names[index_of(BatchField::label)])
    return predicts ? at::zeros({sequences_of(batch).count}, options) : batch.field(BatchField::label);
  if (name == batch_field_names[index_of(BatchField::pixels)])
    return batch.field(BatchField::pixels).to(bound_.begin()->second.weight().scalar_type());
  if (name == batch_field_names[index_of(BatchField::span)])
    return predicts ? at::zeros({2 * sequences_of(batch).count}, options) : batch.field(BatchField::span);
  const Sequences& sequences = batch.rows.at(axes_.rows_of(tensor));
  if (name == padding_field) return padding_of(sequences, bound_.begin()->second.weight());
  if (name == positions_field) {
    if (sequences.positions.defined()) return sequences.positions;
    return at::arange(sequences.length, options).repeat({sequences.count});
  }
  const auto found = std::ranges::find(batch_field_names, name);
  if (found == batch_field_names.end())
    throw Error(ExitCode::internal_error, name_ + ": batches have no field " + name);
  const auto field = static_cast<BatchField>(found - batch_field_names.begin());
  if (field == BatchField::targets && predicts) return at::zeros({sequences.rows()}, options);
  if (field == BatchField::token_types && predicts && !batch.field(field).defined())
    return at::zeros({sequences.rows()}, options);
  return field == BatchField::targets ? counted(batch.field(field), batch) : batch.field(field);
}

std::vector<at::Tensor> ComposedBlock::fields_of(Shaped& shaped, const Batch& batch, const PassContext& pass,
                                                 const std::optional<at::Device>& device) const {
  const body::Body& filled = shaped.run.body();
  std::vector<at::Tensor> fields;
  for (const body::TensorId id : filled.tensors_of(body::BodyTensor::Role::field)) {
    const body::BodyTensor& field = filled.tensors[id];
    const std::vector<std::int64_t> shape = filled.shape_of(id);
    if (field.name != buckets_field) {
      fields.push_back(field_of(field, batch, pass).reshape(shape));
      continue;
    }
    fields.push_back(buckets_of(shaped, shape, batch, pass, device));
  }
  return fields;
}

at::Tensor ComposedBlock::buckets_of(Shaped& shaped, const std::vector<std::int64_t>& shape, const Batch& batch,
                                     const PassContext& pass, const std::optional<at::Device>& device) const {
  const std::int64_t keys = shape[1], queries = grows(batch, pass) ? keys : shape[0];
  if (!shaped.buckets.defined())
    shaped.buckets = at::tensor(body::distance_buckets(buckets_.value(), queries, keys), at::kLong)
                         .to(device.value_or(at::Device(at::kCPU)));
  // The last query's distances come first.
  const at::Tensor all = shaped.buckets.unfold(0, keys, 1).flip(0);
  return grows(batch, pass) ? all.index_select(0, sequences_of(batch).positions) : all;
}

bool ComposedBlock::raises_losses() const {
  return std::ranges::any_of(losses_, [](const std::optional<Loss>& loss) { return loss.has_value(); });
}

void ComposedBlock::add_output(Output& output, std::size_t place, const at::Tensor& made, const Batch& batch,
                               const PassContext& pass) const {
  // Logits that stand behind the outputs are of the last loss.
  const auto last = std::find_if(losses_.rbegin(), losses_.rend(), [](const auto& loss) { return loss.has_value(); });
  const std::optional<Loss> loss = place < losses_.size() ? losses_[place] : *last;
  if (!loss)
    output.values.push_back(made.flatten(0, 1));
  else if (place < losses_.size() && pass.mode != PassMode::prediction)
    output.losses.push_back({loss->term, loss->is_of_tokens ? counted(made.flatten(), batch) : made.flatten()});
  else
    output.logits = loss->is_of_tokens ? rows_asked_for(made.flatten(0, -2), batch) : made.flatten(0, -2);
}

BlockModule::Output ComposedBlock::forward(Tensors inputs, const Batch& batch, const PassContext& pass) const {
  Output output;
  if (pass.returns_hidden_rows && raises_losses()) {
    output.logits = rows_asked_for(inputs.front(), batch);
    return output;
  }
  Shaped& shape = shaped(batch, pass);
  const body::Body& filled = shape.run.body();
  if (pass.cache != nullptr && sequences_of(batch).rows() == 0 && !inputs.empty()) {
    for (const body::TensorId id : filled.outputs)
      output.values.push_back(inputs.front().new_empty(filled.shape_of(id)).flatten(0, 1));
    return output;
  }
  const Weights weights(filled, bound_);
  const std::vector<at::Tensor> fields = fields_of(shape, batch, pass, device_of(inputs));
  body::BodyPass how = pass_of(batch, pass);
  std::optional<CachedAttention> memory;
  if (pass.cache != nullptr) how.memory = &memory.emplace(*pass.cache);
  body::BodyRun::Output made = shape.run.forward(
      shaped_as(filled, filled.tensors_of(body::BodyTensor::Role::input), inputs), fields, weights, how);
  for (std::size_t i = 0; i < made.values.size(); ++i) add_output(output, i, made.values[i], batch, pass);
  if (!pass.trains()) return output;
  auto kept = std::make_unique<Saved>(std::move(made.kept));
  if (!output.losses.empty()) kept->losses = output.losses.front().rows.options();
  output.saved = std::move(kept);
  return output;
}

Tensors ComposedBlock::backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                                std::unique_ptr<SavedActivations> saved) const {
  Shaped& shape = shaped(batch, pass);
  const body::Body& filled = shape.run.body();
  Weights weights(filled, bound_);
  auto& of_forward = static_cast<Saved&>(*saved);
  std::vector<at::Tensor> of_outputs;
  std::size_t value = 0;
  for (std::size_t i = 0; i < filled.outputs.size(); ++i) {
    const std::vector<std::int64_t> sizes = filled.shape_of(filled.outputs[i]);
    const at::Tensor rows = losses_[i] ? loss_gradients(batch, element_count(sizes), losses_[i]->is_of_tokens,
                                                        pass.loss_gradients.at(losses_[i]->term), of_forward.losses)
                                       : std::move(gradients[value++]);
    of_outputs.push_back(rows.reshape(sizes));
  }
  const std::vector<at::Tensor> fields = fields_of(shape, batch, pass, device_of(gradients));
  return as_rows(
      shape.run.backward(std::move(of_outputs), std::move(of_forward.kept), fields, weights, pass_of(batch, pass)));
}

std::unique_ptr<BlockModule> module_of(const BodySettings& settings, const BlockParameters& parameters,
                                       const StageOptions& options, KeptExchanges* /*kept*/) {
  const BodyDescription& described = *settings.description;
  return std::make_unique<ComposedBlock>(parameters, with_attention(described.body, options.attention), described,
                                         options.recompute, options.chunks);
}

}  // namespace llmtrain
