// SPDX-License-Identifier: Apache-2.0
// Residual networks, whose section says what other models say by keys of their layers.
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

bool has_stages(const Recipe& recipe) {
  const ModelRecipe& model = recipe.model;
  return model.architecture == Architecture::resnet && model.resnet && !model.resnet->stages.empty();
}

Verdict check_resnet_section(const Recipe& recipe, const Known&) {
  const bool is_wanted = recipe.model.architecture == Architecture::resnet;
  if (is_wanted == recipe.model.resnet.has_value()) return {};
  if (is_wanted)
    return Refusal{"null, which leaves no blocks",
                   "must be a section, such as {\"stages\": [{\"blocks\": 2, \"channels\": 64}, {\"blocks\": 2, "
                   "\"channels\": 128}]}, where model.architecture is \"resnet\""};
  return Refusal{"has stages of residual blocks", "needs model.architecture \"resnet\"", "null"};
}

Verdict check_resnet_stages(const Recipe& recipe, const Known&) {
  const ModelRecipe& model = recipe.model;
  if (model.architecture != Architecture::resnet || !model.resnet || !model.resnet->stages.empty()) return {};
  return Refusal{"[] leaves no blocks", "must have a stage at least, such as {\"blocks\": 2, \"channels\": 64}"};
}

// A bottleneck's two narrow convolutions make a quarter.
std::int64_t narrowest(const ResnetRecipe& resnet, std::int64_t channels) {
  constexpr std::int64_t narrower = 4;
  return resnet.block == ResidualBlock::bottleneck ? channels / narrower : channels;
}

Verdict check_resnet_stem(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe)) return {};
  const ResnetRecipe& resnet = *recipe.model.resnet;
  if (resnet.stem_channels % resnet.groups == 0) return {};
  return Refusal{fmt::format("{} channels are not {} equal groups", resnet.stem_channels, resnet.groups),
                 fmt::format("must be a multiple of model.resnet.groups ({})", resnet.groups)};
}

Verdict check_resnet_groups(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe)) return {};
  const ResnetRecipe& resnet = *recipe.model.resnet;
  constexpr std::int64_t quarter = 4;
  const bool narrows = resnet.block == ResidualBlock::bottleneck;
  for (std::size_t i = 0; i < resnet.stages.size(); ++i) {
    const std::int64_t channels = resnet.stages[i].channels;
    const bool has_quarter = !narrows || channels % quarter == 0;
    if (has_quarter && narrowest(resnet, channels) % resnet.groups == 0) continue;
    return Refusal{fmt::format("{} groups do not divide the {} channels of a convolution of model.resnet.stages[{}]",
                               resnet.groups, narrows ? fmt::format("{} / 4", channels) : std::to_string(channels), i),
                   narrows ? "must divide a quarter of each stage's channels, where model.resnet.block is "
                             "\"bottleneck\""
                           : "must divide each stage's channels"};
  }
  return {};
}

// What follows from the stages and the images, and may be left out.
Verdict must_follow(const Recipe& recipe, std::int64_t value, std::int64_t needed, std::string_view why) {
  if (!has_stages(recipe) || value == needed) return {};
  return Refusal{fmt::format("{} is another number than that of model.resnet", value),
                 fmt::format("must be {}, or left out, as {}", needed, why), std::to_string(needed)};
}

Verdict check_resnet_layers(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe)) return {};
  return must_follow(recipe, recipe.model.layers, recipe.model.resnet->blocks(), "its stages have so many blocks");
}

Verdict check_resnet_width(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe)) return {};
  return must_follow(recipe, recipe.model.hidden_size, recipe.model.resnet->channels(),
                     "its last stage has so many channels");
}

Verdict check_resnet_heads(const Recipe& recipe, const Known&) {
  return must_follow(recipe, recipe.model.heads, 1, "convolutions have no heads");
}

Verdict check_resnet_feed_forward(const Recipe& recipe, const Known&) {
  return must_follow(recipe, recipe.model.ffn_hidden_size, recipe.model.hidden_size,
                     "its blocks have no feed-forward network");
}

Verdict check_resnet_patch(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe) || !recipe.model.image) return {};
  return must_follow(recipe, recipe.model.image->patch, recipe.model.image->size, "it reads images whole");
}

Verdict check_resnet_dropout(const Recipe& recipe, const Known&) {
  if (!has_stages(recipe) || recipe.model.dropout == 0) return {};
  return Refusal{"is above 0, and residual blocks drop nothing", "must be 0 where model.architecture is \"resnet\"",
                 "0"};
}

}  // namespace

std::vector<Rule> resnet_rules() {
  const std::string_view architecture = "/model/architecture", section = "/model/resnet";
  const std::string_view stages = "/model/resnet/stages", block = "/model/resnet/block";
  return {
      {section, {architecture}, check_resnet_section},
      {stages, {architecture}, check_resnet_stages},
      {"/model/resnet/stem_channels", {architecture, "/model/resnet/groups"}, check_resnet_stem},
      {"/model/resnet/groups", {architecture, block, stages}, check_resnet_groups},
      {"/model/layers", {architecture, section, stages}, check_resnet_layers},
      {"/model/hidden_size", {architecture, section, stages}, check_resnet_width},
      {"/model/heads", {architecture, section}, check_resnet_heads},
      {"/model/ffn_hidden_size", {architecture, section, "/model/hidden_size"}, check_resnet_feed_forward},
      {"/model/image/patch", {architecture, section, "/model/image/size"}, check_resnet_patch},
      {"/model/dropout", {architecture, section}, check_resnet_dropout},
  };
}

}  // namespace llmtrain
