// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/device_split.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "parallel/plan/cost/divisors.h"

namespace llmtrain {
namespace {

constexpr std::array weight_layouts{WeightLayout::stationary_1d, WeightLayout::stationary_2d, WeightLayout::gathered_x,
                                    WeightLayout::gathered_xy, WeightLayout::gathered_xyz};

// The largest number of sequences' parts that devices can have: a divisor of theirs, and at most one for a sequence.
std::int64_t sequence_ranks(std::int64_t devices, std::int64_t sequences) {
  std::int64_t most = 1;
  for (const std::int64_t each : divisors(devices))
    if (each <= sequences) most = each;
  return most;
}

// Whether it is the one without the axes that its layout leaves alone, of several that do the same.
bool is_plainest(const DeviceSplit& split) { return split.weights == WeightLayout::gathered_xy || split.y == 1; }

bool agrees(const std::optional<std::int64_t>& asked, std::int64_t value) { return !asked || *asked == value; }

// Whether a request that names axes means these.
bool has_axes(const DeviceAxes& axes, const DeviceSplit& split) {
  return agrees(axes.x, split.x) && agrees(axes.y, split.y) && agrees(axes.z, split.z);
}

bool names_axes(const DeviceAxes& axes) { return axes.x || axes.y || axes.z; }

// A layout uses axes of more than one device: with fewer it is another one.
std::optional<std::string> axes_refusal(const DeviceSplit& split) {
  const auto needs = [&](bool holds, std::string_view rule) -> std::optional<std::string> {
    if (holds) return std::nullopt;
    return fmt::format("weights \"{}\": {} × {} × {} devices; {}", word_of(split.weights), split.x, split.y, split.z,
                       rule);
  };
  switch (split.weights) {
    case WeightLayout::automatic:
      break;
    case WeightLayout::stationary_1d:
      return needs(split.x == 1, "it cuts nothing along x, which must be 1; or use \"2d\"");
    case WeightLayout::stationary_2d:
    case WeightLayout::gathered_x:
      return needs(split.x > 1 && split.y * split.z > 1, "x and y × z must be above 1; or use \"1d\"");
    case WeightLayout::gathered_xy:
      return needs(split.x > 1 && split.y > 1 && split.z > 1,
                   "x, y and z must be above 1; or use \"gathered_x\" or \"gathered_xyz\"");
    case WeightLayout::gathered_xyz:
      return needs(split.devices() > 1, "one device gathers nothing; use \"1d\"");
  }
  return std::nullopt;
}

template <class Layout>
bool is_open_to(Layout asked, Layout layout) {
  return asked == Layout::automatic || asked == layout;
}

// Whether the request asks for the split or leaves it open. Axes that it names are taken as they are, also where others
// do the same.
bool is_asked(const ModelRecipe& model, const ServingRequest& request, const PassLayout& pass,
              const DeviceSplit& split) {
  if ((model.moe || model.latent_attention) && split.weights != WeightLayout::stationary_1d) return false;
  if (!model.moe && split.experts != ExpertLayout::features) return false;
  if (!is_open_to(pass.weights, split.weights) || !is_open_to(request.experts, split.experts)) return false;
  if (!is_open_to(pass.attention, split.attention)) return false;
  if (pass.attention == AttentionLayout::automatic && split.weights == WeightLayout::gathered_xyz &&
      split.attention == AttentionLayout::heads)
    return false;  // each device has whole sequences either way
  return names_axes(request.axes) ? has_axes(request.axes, split) : is_plainest(split) && !axes_refusal(split);
}

std::optional<std::string> heads_refusal(const ModelRecipe& model, const DeviceSplit& split, std::int64_t sequences) {
  if (split.attention == AttentionLayout::batch && sequences == 1 && split.devices() > 1)
    return "attention \"batch\": one sequence has no parts; use \"heads\", or a batch of several";
  const std::int64_t ranks = attention_share(split, sequences).head_ranks;
  if (model.heads % ranks == 0 || model.kv_heads == 1) return std::nullopt;
  return fmt::format(
      "attention \"{}\": {} devices do not divide model.heads, {}, which are in {} groups; use a number of devices "
      "that "
      "does",
      word_of(split.attention), ranks, model.heads, model.kv_heads);
}

std::optional<std::string> experts_refusal(const ModelRecipe& model, const DeviceSplit& split) {
  const std::int64_t ranks = split.devices();
  if (split.experts == ExpertLayout::experts) {
    if (model.moe->experts % ranks == 0) return std::nullopt;
    return fmt::format(
        "experts \"experts\": {} devices do not divide model.moe.experts, {}; use \"features\" or a number that does",
        ranks, model.moe->experts);
  }
  if (model.moe->ffn_hidden_size % ranks == 0) return std::nullopt;
  return fmt::format(
      "experts \"features\": {} devices do not divide model.moe.ffn_hidden_size, {}; use \"experts\" or a number that "
      "does",
      ranks, model.moe->ffn_hidden_size);
}

}  // namespace

std::int64_t DeviceSplit::gathering() const {
  switch (weights) {
    case WeightLayout::automatic:
    case WeightLayout::stationary_1d:
    case WeightLayout::stationary_2d:
      return 1;
    case WeightLayout::gathered_x:
      return x;
    case WeightLayout::gathered_xy:
      return x * y;
    case WeightLayout::gathered_xyz:
      return devices();
  }
  return 1;
}

std::int64_t DeviceSplit::width_ranks() const { return weights == WeightLayout::stationary_2d ? x : 1; }

std::string split_text(const DeviceSplit& split) {
  std::string axes;
  switch (split.weights) {
    case WeightLayout::automatic:
    case WeightLayout::stationary_1d:
      axes = fmt::format("{}", split.devices());
      break;
    case WeightLayout::stationary_2d:
    case WeightLayout::gathered_x:
      axes = fmt::format("{}×{}", split.x, split.y * split.z);
      break;
    case WeightLayout::gathered_xy:
    case WeightLayout::gathered_xyz:
      axes = fmt::format("{}×{}×{}", split.x, split.y, split.z);
      break;
  }
  return fmt::format("{} {}, {}", word_of(split.weights), axes, word_of(split.attention));
}

AttentionShare attention_share(const DeviceSplit& split, std::int64_t sequences) {
  const std::int64_t devices = split.devices();
  // With gathered weights each device has whole sequences, as many as attention would split.
  const std::int64_t ranks =
      split.attention == AttentionLayout::batch ? sequence_ranks(devices, sequences) : split.gathering();
  return {(sequences + ranks - 1) / ranks, devices / ranks};
}

std::optional<std::string> refusal(const ModelRecipe& model, const DeviceSplit& split, std::int64_t sequences) {
  if (const auto axes = axes_refusal(split)) return axes;
  const std::int64_t gathering = split.gathering(), features = split.feature_ranks();
  if (sequences % gathering != 0)
    return fmt::format(
        "weights \"{}\": the {} devices that gather weights do not divide a batch of {}; use a multiple of it, or "
        "weights that stay (\"1d\" or \"2d\")",
        word_of(split.weights), gathering, sequences);
  if (gathering > 1 && split.attention == AttentionLayout::batch && sequences < split.devices() &&
      sequences % split.devices() != 0)
    return fmt::format("attention \"batch\": {} sequences are fewer than {} devices; use \"heads\"", sequences,
                       split.devices());
  if (model.hidden_size % (split.width_ranks() * std::max<std::int64_t>(1, gathering)) != 0)
    return fmt::format("axes: {} do not divide model.hidden_size, {}; use an x that does",
                       split.width_ranks() * gathering, model.hidden_size);
  const bool has_dense = !model.moe || model.moe->dense_layers > 0 || model.moe->every > 1;
  if (has_dense && model.ffn_hidden_size % features != 0)
    return fmt::format(
        "weights \"{}\": {} devices do not divide model.ffn_hidden_size, {}; use a number of devices that does",
        word_of(split.weights), features, model.ffn_hidden_size);
  if (const auto heads = heads_refusal(model, split, sequences)) return heads;
  if (!model.moe) return std::nullopt;
  return experts_refusal(model, split);
}

OpenSplits open_splits(const ModelRecipe& model, const ServingRequest& request, const PassLayout& pass,
                       std::int64_t devices, std::int64_t sequences) {
  OpenSplits open;
  const auto add = [&](const DeviceSplit& split) {
    if (!is_asked(model, request, pass, split)) return;
    if (auto why = refusal(model, split, sequences)) {
      if (open.refused.empty()) open.refused = *std::move(why);
    } else {
      open.splits.push_back(split);
    }
  };
  for (const std::int64_t x : divisors(devices))
    for (const std::int64_t y : divisors(devices / x))
      for (const WeightLayout weights : weight_layouts)
        for (const AttentionLayout attention : {AttentionLayout::heads, AttentionLayout::batch})
          for (const ExpertLayout experts : {ExpertLayout::features, ExpertLayout::experts})
            add({x, y, devices / (x * y), weights, attention, experts});
  if (open.splits.empty() && open.refused.empty())
    open.refused = fmt::format("{} devices have no axes for these layouts; use other ones, or more devices", devices);
  return open;
}

}  // namespace llmtrain
