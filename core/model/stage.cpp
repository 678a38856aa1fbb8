// SPDX-License-Identifier: Apache-2.0
#include "core/model/stage.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/model/block_modules.h"
#include "core/model/layers/block_parameters.h"
#include "core/model/moe/pass_routing.h"

namespace llmtrain {
namespace {

// The same with ranks whose answers are kept.
StageOptions through(const KeptExchanges& kept, StageOptions options) {
  options.tensor = kept.tensor();
  options.context = kept.context();
  options.experts = kept.experts();
  return options;
}

std::optional<std::int64_t> layer_of(const Block& block) {
  if (block.layer() == nullptr) return std::nullopt;
  return block.layer()->index;
}

}  // namespace

std::unique_ptr<BlockModule> make_block(const BlockParameters& parameters, const StageOptions& options,
                                        KeptExchanges* kept) {
  return std::visit([&](const auto& settings) { return module_of(settings, parameters, options, kept); },
                    parameters.block().settings);
}

StageModule::StageModule(const Graph& graph, std::span<const std::size_t> blocks, const ParameterStores& stores,
                         const StageOptions& given)
    : first_with_backward_(static_cast<std::size_t>(
          std::ranges::count(blocks, false, [&](std::size_t block) { return graph.blocks[block].has_backward; }))),
      values_(graph, blocks),
      routed_layers_(indices_of_experts(graph)),
      offload_(given.offload) {
  chosen_.resize(static_cast<std::size_t>(graph.model.layers));
  for (const std::size_t block : blocks) {
    const Block& described = graph.blocks[block];
    layers_.push_back(layer_of(described));
    StageOptions options = given;
    options.recompute = described.has_backward ? described.recompute.value_or(given.recompute) : Recompute::none;
    const bool keeps = options.recompute == Recompute::computation;
    if (keeps && !kept_) kept_ = std::make_unique<KeptExchanges>(given.tensor, given.context, given.experts);
    if (keeps) options = through(*kept_, std::move(options));
    const TensorSplit split(options.tensor, options.rows);
    std::optional<Fp8Scaling> scaling;
    if (options.fp8) scaling.emplace(options.tensor, options.context, options.fp8_history);
    const BlockParameters parameters(graph, block, stores, split, scaling);
    blocks_.push_back(options.make(parameters, options, keeps ? kept_.get() : nullptr));
    parameters.require_all_bound();
  }
}

void StageModule::count(std::size_t block, const LayerRouting& routing) {
  if (!routing.sums.defined()) return;
  const auto add = [](at::Tensor& sum, const at::Tensor& more) { sum = sum.defined() ? sum.add_(more) : more.clone(); };
  add(routing_, routing.sums);
  add(chosen_[static_cast<std::size_t>(*layers_[block])], routing.chosen);
}

at::Tensor StageModule::take_routing() { return std::exchange(routing_, {}); }

std::vector<at::Tensor> StageModule::take_chosen() {
  return std::exchange(chosen_, std::vector<at::Tensor>(chosen_.size()));
}

StagePasses::Output StageModule::forward(Tensors incoming, std::int64_t index, const Batch& batch,
                                         const PassContext& given) {
  const RoutedPass routed(routed_layers_, batch, given);
  const PassContext& pass = routed.context();
  Output result;
  SavedBlocks saved;
  const bool keeps = pass.trains() && first_with_backward_ < blocks_.size();
  if (offload_ != nullptr && keeps) saved.elsewhere.emplace(*offload_, blocks_.size());
  StageValues::Places values = values_.arrive(std::move(incoming));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockModule::Output output = blocks_[i]->forward(values_.inputs(i, values), batch, pass);
    values_.add_outputs(i, std::move(output.values), values);
    std::ranges::move(output.losses, std::back_inserter(result.losses));
    if (output.logits.defined()) result.logits = std::move(output.logits);
    if (i < first_with_backward_) output.saved.reset();
    saved.blocks.push_back(std::move(output.saved));
    if (saved.elsewhere) saved.elsewhere->leave(i, saved.blocks.back().get());
    if (pass.trains()) count(i, output.routing);
  }
  if (saved.elsewhere) saved.elsewhere->finish_leaving();
  if (keeps) saved_[index] = std::move(saved);
  result.values = values_.leave(values);
  return result;
}

Tensors StageModule::backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& given) {
  // Where layers run again they route again.
  const RoutedPass routed(routed_layers_, batch, given);
  const PassContext& pass = routed.context();
  if (first_with_backward_ == blocks_.size()) return {};
  // Taken out first, so that each block's tensors are freed as its backward ends.
  SavedBlocks saved = std::move(saved_.at(index));
  saved_.erase(index);
  StageValues::Places of_values = values_.arrive_behind(std::move(gradients));
  if (saved.elsewhere) saved.elsewhere->expect(blocks_.size() - 1);
  for (std::size_t i = blocks_.size(); i-- > first_with_backward_;) {
    if (saved.elsewhere) {
      saved.elsewhere->arrive(i, saved.blocks[i].get());
      if (i > first_with_backward_) saved.elsewhere->expect(i - 1);
    }
    Tensors of_inputs =
        blocks_[i]->backward(values_.output_gradients(i, of_values), batch, pass, std::move(saved.blocks[i]));
    values_.add_input_gradients(i, std::move(of_inputs), of_values);
  }
  return values_.leave_before(of_values);
}

}  // namespace llmtrain
