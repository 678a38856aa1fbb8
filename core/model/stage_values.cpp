// SPDX-License-Identifier: Apache-2.0
#include "core/model/stage_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/graph/values.h"

namespace llmtrain {
namespace {

StageValues::Places placed(Tensors tensors, const std::vector<std::size_t>& places, std::size_t count) {
  StageValues::Places result(count);
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = std::move(tensors[i]);
  return result;
}

Tensors taken(StageValues::Places& tensors, const std::vector<std::size_t>& places) {
  Tensors result;
  for (const std::size_t place : places) result.push_back(std::move(tensors[place]));
  return result;
}

}  // namespace

StageValues::StageValues(const Graph& graph, std::span<const std::size_t> blocks) {
  std::map<std::size_t, std::size_t> place_of;  // by value
  const auto places = [&](const std::vector<std::size_t>& values) {
    std::vector<std::size_t> result;
    for (const std::size_t value : values) result.push_back(place_of.try_emplace(value, place_of.size()).first->second);
    return result;
  };
  incoming_ = places(values_across(graph, blocks.front()));
  outgoing_ = places(values_across(graph, blocks.back() + 1));
  for (const std::size_t block : blocks) {
    OfBlock& of_block = blocks_.emplace_back();
    for (const std::size_t place : places(graph.blocks[block].inputs)) of_block.inputs.push_back({place});
    of_block.outputs = places(graph.blocks[block].outputs);
  }
  places_ = place_of.size();
  std::vector<bool> is_used(places_);  // by a later block or stage
  for (const std::size_t place : outgoing_) is_used[place] = true;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
    for (auto input = block->inputs.rbegin(); input != block->inputs.rend(); ++input) {
      input->is_last_use = !is_used[input->place];
      is_used[input->place] = true;
    }
}

StageValues::Places StageValues::arrive(Tensors incoming) const {
  return placed(std::move(incoming), incoming_, places_);
}

Tensors StageValues::inputs(std::size_t block, Places& values) const {
  Tensors result;
  for (const Input& input : blocks_[block].inputs)
    result.push_back(input.is_last_use ? std::move(values[input.place]) : values[input.place]);
  return result;
}

void StageValues::add_outputs(std::size_t block, Tensors outputs, Places& values) const {
  const std::vector<std::size_t>& places = blocks_[block].outputs;
  for (std::size_t i = 0; i < places.size(); ++i) values[places[i]] = std::move(outputs[i]);
}

Tensors StageValues::leave(Places& values) const { return taken(values, outgoing_); }

StageValues::Places StageValues::arrive_behind(Tensors gradients) const {
  return placed(std::move(gradients), outgoing_, places_);
}

Tensors StageValues::output_gradients(std::size_t block, Places& gradients) const {
  return taken(gradients, blocks_[block].outputs);
}

void StageValues::add_input_gradients(std::size_t block, Tensors of_inputs, Places& gradients) const {
  for (std::size_t i = 0; i < of_inputs.size(); ++i) {
    at::Tensor& sum = gradients[blocks_[block].inputs[i].place];
    if (sum.defined())
      sum.add_(of_inputs[i]);
    else
      sum = std::move(of_inputs[i]);
  }
}

Tensors StageValues::leave_before(Places& gradients) const { return taken(gradients, incoming_); }

}  // namespace llmtrain
