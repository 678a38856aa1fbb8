// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// What a plan of inference is asked for: the requests, in what types the model is served, and how devices split it.

// In what weights, keys and values lie in memory. compute: precision.compute of the recipe.
enum class ServedType { compute, int8, fp8, fp4 };
constexpr std::array<std::string_view, 4> served_type_words = {"compute", "int8", "fp8", "fp4"};

// How devices split the matrices of a layer (Pope et al., arXiv 2211.05102, section 3.2): weights stay where they are
// and activations move, over one axis of each matrix or over both; or weights are gathered over the axis x, x and y, or
// all, and activations of a part of the batch stay.
enum class WeightLayout { automatic, stationary_1d, stationary_2d, gathered_x, gathered_xy, gathered_xyz };
constexpr std::array<std::string_view, 6> weight_layout_words = {"auto",       "1d",          "2d",
                                                                 "gathered_x", "gathered_xy", "gathered_xyz"};

// What devices split in attention to the keys and values of a batch (section 3.3): its heads or its sequences.
enum class AttentionLayout { automatic, heads, batch };
constexpr std::array<std::string_view, 3> attention_layout_words = {"auto", "heads", "batch"};

// What devices split of a mixture of experts: each expert's features, or the experts.
enum class ExpertLayout { automatic, features, experts };
constexpr std::array<std::string_view, 3> expert_layout_words = {"auto", "features", "experts"};

// whole: all prompts of a batch in one pass, and then one token of each at a time; continuous: a new request takes the
// place of each that ends, and its prompt has a pass of its own between the others' tokens (Yu et al., Orca, OSDI
// 2022).
enum class Batching { whole, continuous };
constexpr std::array<std::string_view, 2> batching_words = {"whole", "continuous"};

// Where the weights of layers lie that a pass reads: in the device's memory, or, as far as that has no room for them,
// in the host's or on its disk, from where each pass reads them once (ZeRO-Inference; Aminabadi et al., arXiv
// 2207.00032).
enum class WeightsPlace { memory, host, disk };
constexpr std::array<std::string_view, 3> weights_place_words = {"memory", "host", "disk"};

constexpr std::string_view word_of(ServedType type) { return served_type_words[static_cast<std::size_t>(type)]; }
constexpr std::string_view word_of(WeightLayout layout) {
  return weight_layout_words[static_cast<std::size_t>(layout)];
}
constexpr std::string_view word_of(AttentionLayout layout) {
  return attention_layout_words[static_cast<std::size_t>(layout)];
}
constexpr std::string_view word_of(ExpertLayout layout) {
  return expert_layout_words[static_cast<std::size_t>(layout)];
}
constexpr std::string_view word_of(WeightsPlace place) { return weights_place_words[static_cast<std::size_t>(place)]; }
constexpr std::string_view word_of(Batching batching) { return batching_words[static_cast<std::size_t>(batching)]; }

struct PassLayout {
  WeightLayout weights = WeightLayout::automatic;
  AttentionLayout attention = AttentionLayout::automatic;

  bool operator==(const PassLayout&) const = default;
};

// The numbers of devices along three axes; none: the fastest.
struct DeviceAxes {
  std::optional<std::int64_t> x, y, z;

  bool operator==(const DeviceAxes&) const = default;
};

struct ServingRequest {
  std::int64_t batch = 1;        // sequences that are generated at the same time
  std::int64_t prompt = 1024;    // tokens of each
  std::int64_t generated = 128;  // tokens of each
  Batching batching = Batching::whole;
  // With continuous batching, the passes of single tokens for which a server holds a prompt back so that others share
  // its pass; 0: none.
  std::int64_t wait_passes = 0;
  ServedType weights = ServedType::compute;  // of the layers' matrices
  ServedType cache = ServedType::compute;    // not fp4
  std::optional<std::int64_t> devices;       // that hold the model together; none: the fewest on which it fits
  DeviceAxes axes;
  PassLayout prefill, decode;
  ExpertLayout experts = ExpertLayout::automatic;
  WeightsPlace weights_from = WeightsPlace::memory;
  std::int64_t weight_memory =
      0;  // bytes of weights that stay in the device's memory or are on their way; 0: the least

  bool operator==(const ServingRequest&) const = default;
};

// The parts of a text between its commas, as the flags of a plan of inference have them; of an empty text an empty one.
std::vector<std::string_view> comma_parts(std::string_view text);

// A request by texts of KEY=VALUE, several in one divided by commas: "batch=64,prompt=2048" and "decode.weights=2d".
// Throws Error(bad_recipe) that names `flag`, the key, the value and the rule.
ServingRequest parse_request(std::string_view flag, std::span<const std::string> texts);

}  // namespace llmtrain
