// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/inference/serving_request.h"

namespace llmtrain {

// How n = x·y·z devices split the layers of a model in one pass (Pope et al., arXiv 2211.05102, sections 3.2 and 3.3).
// Matrices lie cut into x parts of the model's width and y·z parts of the other features, whatever the pass does with
// them, so that prefill and decode may differ without moving weights. With 1d all devices cut the features alone.
// Nothing in it is left open.
struct DeviceSplit {
  std::int64_t x = 1, y = 1, z = 1;
  WeightLayout weights = WeightLayout::stationary_1d;
  AttentionLayout attention = AttentionLayout::heads;
  ExpertLayout experts = ExpertLayout::features;

  std::int64_t devices() const { return x * y * z; }
  // Over how many devices weights are gathered, of which each computes a part of the batch; 1: weights stay.
  std::int64_t gathering() const;
  // Over how many the model's width is split while it is multiplied: x with 2d, otherwise 1.
  std::int64_t width_ranks() const;
  // Over how many the features between a layer's products are split.
  std::int64_t feature_ranks() const { return devices() / (gathering() * width_ranks()); }

  bool operator==(const DeviceSplit&) const = default;
};

// "2d 4×16, batch": the axes that the layout has, and what attention splits.
std::string split_text(const DeviceSplit& split);

// Sequences, and heads of each, of a device's attention: as many devices as `heads` says split the heads of one
// sequence.
struct AttentionShare {
  std::int64_t sequences = 1;
  std::int64_t head_ranks = 1;
};
AttentionShare attention_share(const DeviceSplit& split, std::int64_t sequences);

// Why the model cannot be split so in a pass of so many sequences: the value, the rule and what to do; none: it can.
std::optional<std::string> refusal(const ModelRecipe& model, const DeviceSplit& split, std::int64_t sequences);

// What a request leaves open for a pass: all splits of so many devices, one of several that do the same, without those
// that cannot be, and for the first of these why.
struct OpenSplits {
  std::vector<DeviceSplit> splits{};
  std::string refused{};
};
OpenSplits open_splits(const ModelRecipe& model, const ServingRequest& request, const PassLayout& pass,
                       std::int64_t devices, std::int64_t sequences);

}  // namespace llmtrain
