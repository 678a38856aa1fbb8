// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/operators.h"

#include <algorithm>

#include "core/graph/operators/operator_writer.h"

namespace llmtrain {
namespace {

// Bytes of one half of a layer, or of an operator that is in neither.
struct HalfBytes {
  double saved = 0;
  double kept = 0;
  double received = 0;  // and kept
  double forward_working = 0;
  double backward_working = 0;
  double forward_scratch = 0, backward_scratch = 0;
};

bool is_kept(const Operator& item, const SavedTensor& tensor, Recompute recompute) {
  return item.has_backward && tensor.kept_through >= recompute;
}

std::vector<HalfBytes> halves_of(const OperatorList& operators, Recompute recompute) {
  std::vector<HalfBytes> halves;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const Operator& item = operators[i];
    if (i == 0 || item.half == LayerHalf::none || item.half != operators[i - 1].half) halves.emplace_back();
    HalfBytes& half = halves.back();
    for (const SavedTensor& tensor : item.saved) {
      half.saved += tensor.bytes;
      if (is_kept(item, tensor, recompute)) half.kept += tensor.bytes;
    }
    if (recompute == Recompute::computation && is_repeated(item, recompute)) half.received += item.received;
    // Summed, as if all working tensors of a half were alive at once: an upper bound.
    half.forward_working += item.forward_working;
    half.backward_working += item.backward_working;
    half.forward_scratch = std::max(half.forward_scratch, item.forward_scratch);
    half.backward_scratch = std::max(half.backward_scratch, item.backward_scratch);
  }
  return halves;
}

// What only a backward runs, moves, exchanges and takes. The forward makes what it would save all the same, and gives
// it back with the block's end.
void drop_backward(OperatorList& operators) {
  std::erase_if(operators, &Operator::is_backward_alone);
  for (Operator& item : operators) {
    item.has_backward = item.has_weight_gradient = false;
    item.repetition = Operator::Repetition::never;
    item.backward = {};
    item.summed_gradients = item.unscaled_weight_gradient = item.received = 0;
    item.backward_working = item.backward_scratch = 0;
    std::erase_if(item.exchanges, [](const Exchange& each) { return each.direction == Direction::backward; });
  }
}

}  // namespace

Recompute recompute_of(const Graph& graph, std::size_t block, const PassSetting& setting) {
  return graph.blocks[block].recompute.value_or(setting.recompute);
}

OperatorList block_operators(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const Block& described = graph.blocks[block];
  PassSetting kept = setting;
  kept.recompute = recompute_of(graph, block, setting);
  const bool drops = described.layer() != nullptr && described.layer()->drops_tokens && setting.tokens.are_dropped();
  if (drops) kept.tokens.sequence_length = setting.tokens.kept;
  OperatorWriter writer(graph, block, kept);
  std::visit([&](const auto& settings) { write_operators(writer, settings); }, described.settings);
  if (drops) write_token_dropping(writer, local_shape(described.hidden_size(), setting));
  OperatorList operators = writer.take();
  if (block + 1 == graph.blocks.size()) operators.back().ends_micro_batch = true;
  // What a layer keeps of some of its tokens is a copy.
  for (Operator& item : operators)
    for (SavedTensor& tensor : item.saved)
      if (drops) tensor.input.reset();
  if (!described.has_backward) drop_backward(operators);
  return operators;
}

bool is_repeated(const Operator& item, Recompute recompute) {
  switch (item.repetition) {
    case Operator::Repetition::never:
      return false;
    case Operator::Repetition::full:
      return repeats_layers(recompute);
    case Operator::Repetition::selective_and_full:
      return recompute != Recompute::none;
    case Operator::Repetition::always:
      return true;
  }
  return false;
}

// What selective recompute repeats, attention's scores, needs no exchange.
bool is_exchanged_again(const Operator& item, Recompute recompute) {
  return recompute == Recompute::full && is_repeated(item, recompute);
}

double training_flops_per_sample(const Graph& graph, std::int64_t sequence_length, std::int64_t target_length,
                                 std::int64_t kept_tokens) {
  PassSetting setting;
  setting.tokens.sequence_length = sequence_length;
  setting.tokens.target_length = target_length;
  setting.tokens.kept = kept_tokens;
  BlockCache<double> of_blocks(graph);
  double flops = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    flops += of_blocks.of(block, [&] {
      const OperatorList operators = block_operators(graph, block, setting);
      return forward_flops(operators) + backward_flops(operators);
    });
  return flops;
}

double forward_flops(const OperatorList& operators) {
  double flops = 0;
  for (const Operator& item : operators) flops += item.flops;
  return flops;
}

double backward_flops(const OperatorList& operators) {
  double flops = 0;
  for (const Operator& item : operators)
    if (item.has_backward) flops += (item.has_weight_gradient ? 2 : 1) * item.flops;
  return flops;
}

double repeated_flops(const OperatorList& operators, Recompute recompute) {
  double flops = 0;
  for (const Operator& item : operators)
    if (is_repeated(item, recompute)) flops += item.flops;
  return flops;
}

double saved_bytes(const OperatorList& operators, Recompute recompute) {
  double bytes = 0;
  for (const HalfBytes& half : halves_of(operators, recompute)) bytes += half.kept + half.received;
  return bytes;
}

double kept_input_bytes(const OperatorList& operators, Recompute recompute, std::size_t input) {
  double bytes = 0;
  for (const Operator& item : operators)
    for (const SavedTensor& tensor : item.saved)
      if (tensor.input == input && is_kept(item, tensor, recompute)) bytes += tensor.bytes;
  return bytes;
}

// Selective recompute frees attention's scores before the feed-forward half begins and recomputes them after its
// backward; a layer that is repeated as a whole holds all of its tensors again, with its output and that output's
// gradient. What other ranks sent goes as the repeated forward comes to it.
PassPeak pass_peak(const OperatorList& operators, Recompute recompute, double output) {
  const bool has_backward = operators.front().has_backward;
  const bool repeats_all = repeats_layers(recompute) && is_repeated(operators.front(), recompute);
  double weight_gradient = 0;
  for (const Operator& item : operators) weight_gradient = std::max(weight_gradient, item.unscaled_weight_gradient);
  PassPeak peak;
  double before = 0, received = 0, saved = 0;
  for (const HalfBytes& half : halves_of(operators, recompute)) {
    // Halves run one after another, so each adds to what the earlier ones keep.
    received += half.received;
    peak.forward = std::max(peak.forward, before + half.saved + received + half.forward_working + half.forward_scratch);
    peak.backward =
        std::max(peak.backward, before + half.saved + half.backward_working + half.backward_scratch + weight_gradient);
    before += repeats_all || !has_backward ? half.saved : half.kept;
    saved += half.saved;
  }
  if (repeats_all) peak.backward = std::max(peak.backward, saved + 2 * output);
  if (!has_backward) peak.backward = 0;
  return peak;
}

}  // namespace llmtrain
