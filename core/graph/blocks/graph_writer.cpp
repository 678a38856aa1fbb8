// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/graph_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/graph/marks/parameter_marks.h"

namespace llmtrain {
namespace {

// A weight or a bias, of experts where there are any.
Parameter part_of(const GraphWriter::Linear& linear, const char* name, std::vector<std::int64_t> shape) {
  Parameter parameter{.local_name = linear.name + name,
                      .shape = std::move(shape),
                      .has_expert_axis = linear.experts > 0,
                      .split = linear.split,
                      .joined = linear.joined};
  if (linear.experts == 0) return parameter;
  parameter.shape.insert(parameter.shape.begin(), linear.experts);
  if (parameter.split.kind != Split::Kind::none) ++parameter.split.axis;
  return parameter;
}

}  // namespace

GraphWriter::GraphWriter(const ModelRecipe& model) : adapters_(model.lora) { graph_.model = model; }

void GraphWriter::add_block(std::string name, BlockSettings settings) {
  prefix_ = name + ".";
  graph_.blocks.push_back({.name = std::move(name), .settings = settings});
  std::visit([this](const auto& of_kind) { write_graph(*this, of_kind); }, settings);
}

Graph GraphWriter::take(const HighPrecisionRecipe& high_precision, const std::vector<std::string>& frozen) {
  keep_precision(graph_, high_precision);
  adapters_.require_used();
  freeze(graph_, frozen);
  return std::move(graph_);
}

void GraphWriter::read_value() { block().inputs = {graph_.values.size() - 1}; }

void GraphWriter::read_value(std::string_view name) {
  const auto found = std::ranges::find(graph_.values, name, &Value::name);
  if (found == graph_.values.end())
    throw Error(ExitCode::internal_error, block().name + ": no block before it makes " + std::string(name));
  block().inputs.push_back(static_cast<std::size_t>(found - graph_.values.begin()));
}

void GraphWriter::make_value(std::string_view name, std::vector<std::int64_t> features, std::size_t rows) {
  const std::string& of_block = block().name;
  block().outputs.push_back(graph_.values.size());
  graph_.values.push_back({.name = block().outputs.size() == 1 ? of_block : of_block + "." + std::string(name),
                           .rows = rows,
                           .features = std::move(features)});
}

void GraphWriter::make_value() {
  block().outputs = {graph_.values.size()};
  graph_.values.push_back({.name = block().name, .rows = 0, .features = {block().hidden_size()}});
}

void GraphWriter::raise(std::string_view name, double coefficient, bool is_of_rows) {
  graph_.raise({std::string(name), graph_.blocks.size() - 1, coefficient, is_of_rows});
}

void GraphWriter::share(std::string_view other_block, std::string_view parameter, std::string local_name) {
  const Parameter& shared = graph_.parameter(graph_.block_named(other_block), parameter);
  graph_.share(graph_.index_of(shared), graph_.blocks.size() - 1, std::move(local_name));
}

void GraphWriter::add(Parameter parameter) {
  parameter.name = prefix_ + parameter.local_name;
  parameter.readers = {graph_.blocks.size() - 1};
  block().parameters.push_back(graph_.parameters.size());
  graph_.parameters.push_back(std::move(parameter));
}

void GraphWriter::add_table(std::string name, std::int64_t size, Split split, bool decays) {
  add({.local_name = std::move(name),
       .shape = {size, model().hidden_size},
       .split = split,
       .standard_deviation = model().init_std,
       .decays = decays,
       .is_table = true});
}

// Residual projections start smaller by the root of their number, so that the residual stream's variance does not grow
// with depth (GPT-2, section 2.3).
double GraphWriter::residual_deviation() const {
  return model().init_std / std::sqrt(2.0 * static_cast<double>(model().layers));
}

Parameter GraphWriter::weight(const Linear& linear) const {
  Parameter parameter = part_of(linear, ".weight", {linear.output, linear.input});
  parameter.standard_deviation = model().init_std;
  parameter.decays = true;
  return parameter;
}

void GraphWriter::add_matrix(const Linear& linear) {
  Parameter parameter = weight(linear);
  parameter.is_layer_matrix = true;
  add(std::move(parameter));
}

void GraphWriter::add_last_matrix(const Linear& linear) {
  Parameter parameter = weight(linear);
  parameter.is_layer_matrix = true;
  parameter.standard_deviation = residual_deviation();
  add(std::move(parameter));
}

void GraphWriter::add_bias(const Linear& linear) {
  Parameter parameter = part_of(linear, ".bias", {linear.output});
  parameter.initialization = Initialization::zeros;
  add(std::move(parameter));
}

void GraphWriter::add_norm(const std::string& name, const NormSettings& norm) {
  add({.local_name = name + ".weight", .shape = {model().hidden_size}, .initialization = Initialization::ones});
  // Root-mean-square norms have no shift.
  if (model().bias && norm.kind == NormKind::layernorm) add_bias({.name = name, .output = model().hidden_size});
}

void GraphWriter::add_adapters() {
  const std::vector<std::size_t> matrices = block().parameters;
  for (const std::size_t index : matrices) {
    std::vector<Parameter> adapter = adapters_.of(graph_.parameters[index]);
    if (!adapter.empty())
      graph_.parameters[index].adapter = {graph_.parameters.size(), adapters_.scale(), adapters_.dropout(),
                                          adapters_.have_magnitudes()};
    for (Parameter& parameter : adapter) add(std::move(parameter));
  }
}

}  // namespace llmtrain
