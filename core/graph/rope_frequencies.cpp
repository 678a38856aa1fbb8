// SPDX-License-Identifier: Apache-2.0
#include "core/graph/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace llmtrain {
namespace {

// `share` of the frequency as it is and the rest of it divided by the factor.
double mean(double frequency, double factor, double share) {
  return frequency * share + frequency / factor * (1 - share);
}

double llama3(double frequency, const RopeScalingRecipe& scaling) {
  const double turns = static_cast<double>(scaling.original_max_sequence_length) * frequency / (2 * std::numbers::pi);
  const double span = scaling.high_frequency_factor - scaling.low_frequency_factor;
  return mean(frequency, scaling.factor, std::clamp((turns - scaling.low_frequency_factor) / span, 0.0, 1.0));
}

// The pair, as a real number, that turns so often within the original length.
double pair_of_turns(double turns, const RopeSettings& rope) {
  const auto length = static_cast<double>(rope.scaling->original_max_sequence_length);
  return static_cast<double>(rope.head_dim) * std::log(length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

double yarn(double frequency, double pair, const RopeSettings& rope) {
  const RopeScalingRecipe& scaling = *rope.scaling;
  double first = pair_of_turns(scaling.beta_fast, rope), last = pair_of_turns(scaling.beta_slow, rope);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(rope.head_dim - 1));
  // As in transformers, which avoids a division by zero so.
  if (first == last) last += 0.001;
  return mean(frequency, scaling.factor, 1 - std::clamp((pair - first) / (last - first), 0.0, 1.0));
}

double scaled(double frequency, double pair, const RopeSettings& rope) {
  switch (rope.scaling->type) {
    case RopeScalingType::linear:
      return frequency / rope.scaling->factor;
    case RopeScalingType::llama3:
      return llama3(frequency, *rope.scaling);
    case RopeScalingType::yarn:
      return yarn(frequency, pair, rope);
  }
  return frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSettings& rope) {
  std::vector<double> frequencies;
  for (std::int64_t pair = 0; pair < rope.head_dim / 2; ++pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(rope.head_dim);
    const double frequency = std::pow(rope.theta, exponent);
    frequencies.push_back(rope.scaling ? scaled(frequency, static_cast<double>(pair), rope) : frequency);
  }
  return frequencies;
}

double rope_amplitude(const RopeSettings& rope) {
  const bool is_yarn = rope.scaling && rope.scaling->type == RopeScalingType::yarn;
  return is_yarn ? rope.scaling->attention_factor : 1;
}

std::vector<RopeSettings> rope_settings(const Graph& graph) {
  std::vector<RopeSettings> found;
  for (const Block& block : graph.blocks) {
    if (block.layer() == nullptr || !block.layer()->attention.rope) continue;
    const RopeSettings& rope = *block.layer()->attention.rope;
    if (std::ranges::find(found, rope) == found.end()) found.push_back(rope);
  }
  return found;
}

}  // namespace llmtrain
