// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/body_block.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/body/passes/chunking.h"
#include "core/graph/blocks/graph_writer.h"
#include "core/graph/operators/body_operators.h"
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {
namespace {

using body::Body;
using body::BodyTensor;
using body::TensorId;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ExitCode::internal_error, "body of a block: " + reason);
}

const body::Step* maker_of(const Body& body, TensorId tensor) {
  const auto found = std::ranges::find(body.steps, tensor, &body::Step::output);
  return found == body.steps.end() ? nullptr : &*found;
}

bool has_losses_of_tokens(const BodyDescription& described) {
  const std::vector<bool> losses = are_losses(described.body);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const std::vector<body::AxisId>& axes = described.body.tensors[described.body.outputs[i]].axes;
    if (losses[i] && std::ranges::count(axes, described.axes.tokens) > 0) return true;
  }
  return false;
}

std::vector<BlockField> fields_of(const BodyDescription& described) {
  std::vector<BlockField> fields;
  for (const TensorId id : described.body.tensors_of(BodyTensor::Role::field)) {
    const std::string& name = described.body.tensors[id].name;
    const auto found = std::ranges::find(batch_field_names, name);
    if (found != batch_field_names.end())
      fields.push_back({static_cast<BatchField>(found - batch_field_names.begin())});
    else if (name == buckets_field && !described.buckets)
      refuse("it does not say which relative positions share a bucket");
    else if (name != positions_field && name != buckets_field && name != padding_field)
      refuse("samples have no field " + name);
  }
  // A batch says where it is with a field, and a value where it is itself.
  if (fields.empty() && !described.body.tensors_of(BodyTensor::Role::field).empty() &&
      described.body.tensors_of(BodyTensor::Role::input).empty())
    refuse("it reads positions, but no field of the samples");
  // Only those rows of tokens have losses.
  if (has_losses_of_tokens(described)) fields.push_back({BatchField::counted_rows, false});
  return fields;
}

void require_parameters(const BodyDescription& described) {
  std::vector<std::string> described_names;
  for (const Parameter& parameter : described.parameters) {
    described_names.push_back(parameter.local_name);
    const std::vector<std::int64_t> shape = described.body.shape_of(described.body.tensor_named(parameter.local_name));
    if (element_count(shape) != parameter.elements()) refuse(parameter.local_name + " has other elements in the body");
  }
  for (const BodyDescription::Shared& shared : described.shared) described_names.push_back(shared.local_name);
  std::vector<std::string> names;
  for (const TensorId id : described.body.tensors_of(BodyTensor::Role::parameter))
    names.push_back(described.body.tensors[id].name);
  std::ranges::sort(names);
  std::ranges::sort(described_names);
  if (names != described_names) refuse("its parameters are not those that are described");
}

void require_losses(const BodyDescription& described) {
  const std::vector<bool> losses = are_losses(described.body);
  const std::int64_t outputs = std::ranges::count(losses, true);
  if (outputs != static_cast<std::int64_t>(described.losses.size()))
    refuse(std::to_string(outputs) + " of its outputs are losses, where it raises " +
           std::to_string(described.losses.size()));
}

std::int64_t width_of(const Body& body, TensorId tensor) { return element_count(row_features(body, tensor)); }

std::int64_t hidden_size_of(const Body& body) {
  if (!are_losses(body).front()) return width_of(body, body.outputs.front());
  const std::vector<TensorId> inputs = body.tensors_of(BodyTensor::Role::input);
  return inputs.empty() ? 1 : width_of(body, inputs.front());
}

}  // namespace

std::vector<BatchAxes::More> BatchAxes::all() const {
  std::vector<More> axes{{tokens, rows}};
  axes.insert(axes.end(), more.begin(), more.end());
  return axes;
}

std::size_t BatchAxes::rows_of(const BodyTensor& tensor) const {
  const std::vector<More> axes = all();
  const auto found = tensor.axes.size() < 2 ? axes.end() : std::ranges::find(axes, tensor.axes[1], &More::axis);
  if (found == axes.end()) refuse(tensor.name + " has no axis of tokens");
  return found->rows;
}

BodySettings::BodySettings(BodyDescription of_block) {
  require_parameters(of_block);
  require_losses(of_block);
  of_block.fields = fields_of(of_block);
  hidden_size = hidden_size_of(of_block.body);
  description = std::make_shared<const BodyDescription>(std::move(of_block));
  fields = description->fields;
}

bool BodySettings::operator==(const BodySettings& other) const {
  if (description == other.description) return true;
  const auto is_same_loss = [](const BodyDescription::Loss& left, const BodyDescription::Loss& right) {
    return left.name == right.name && left.coefficient == right.coefficient;
  };
  return description->is_unit == other.description->is_unit &&
         description->tells_classes == other.description->tells_classes &&
         description->axes == other.description->axes && description->buckets == other.description->buckets &&
         std::ranges::equal(description->losses, other.description->losses, is_same_loss) &&
         description->body == other.description->body;
}

std::vector<std::int64_t> row_features(const Body& body, TensorId tensor) {
  std::vector<std::int64_t> shape = body.shape_of(tensor);
  if (shape.size() < 2) refuse(body.tensors[tensor].name + " has no axes of sequences and tokens");
  shape.erase(shape.begin(), shape.begin() + 2);
  return shape;
}

std::vector<bool> are_losses(const Body& body) {
  std::vector<bool> losses;
  for (const TensorId output : body.outputs) {
    const body::Step* const maker = maker_of(body, output);
    losses.push_back(maker != nullptr && std::holds_alternative<body::CrossEntropy>(maker->primitive));
  }
  return losses;
}

TensorId logits_of(const Body& body, TensorId losses) { return maker_of(body, losses)->inputs.front(); }

Body with_attention(Body body, AttentionKernel kernel) {
  if (kernel != AttentionKernel::math) return body;
  for (body::Step& step : body.steps)
    if (auto* const attention = std::get_if<body::Attention>(&step.primitive)) attention->stores_scores = true;
  return body;
}

Body in_pieces(const Body& filled, std::int64_t chunks) {
  return body::with_least_memory(filled, chunks, {.cuts_queries = false});
}

void write_graph(GraphWriter& writer, const BodySettings& settings) {
  const BodyDescription& described = *settings.description;
  const Body& body = described.body;
  const std::size_t inputs = body.tensors_of(BodyTensor::Role::input).size();
  if (!described.reads.empty() ? inputs != described.reads.size() : inputs > 1)
    refuse("it has " + std::to_string(inputs) + " inputs, of which the values are not named");
  for (const std::string& value : described.reads) writer.read_value(value);
  if (described.reads.empty() && inputs == 1) writer.read_value();
  const std::vector<bool> losses = are_losses(body);
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (!losses[i])
      writer.make_value(body.tensors[body.outputs[i]].name, row_features(body, body.outputs[i]), described.axes.rows);
  for (const BodyDescription::Loss& loss : described.losses) writer.raise(loss.name, loss.coefficient, true);
  writer.block().is_unit = described.is_unit;
  for (const Parameter& parameter : described.parameters) writer.add(parameter);
  for (const BodyDescription::Shared& shared : described.shared)
    writer.share(shared.block, shared.parameter, shared.local_name);
}

void write_operators(OperatorWriter& writer, const BodySettings& settings) {
  const BodyDescription& described = *settings.description;
  const TokenSetting& tokens = writer.setting().tokens;
  std::map<body::AxisId, std::int64_t> extents{{described.axes.sequences, tokens.batch}};
  for (const auto& [axis, rows] : described.axes.all())
    extents[axis] = tokens.length_of(rows) / std::max<std::int64_t>(1, tokens.context);
  const Body filled = body::with_extents(with_attention(described.body, writer.setting().program.attention), extents);
  writer.add(priced(in_pieces(filled, writer.setting().chunks), writer.shape().element));
}

}  // namespace llmtrain
