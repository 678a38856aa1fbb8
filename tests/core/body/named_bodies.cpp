// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/named_bodies.h"

#include <functional>
#include <map>
#include <string>

#include "core/body/families/bart.h"
#include "core/body/families/bert.h"
#include "core/body/families/resnet.h"
#include "core/body/families/t5.h"
#include "core/body/families/vit.h"

namespace llmtrain::body::test {
namespace {

using Settings = nlohmann::json;
using MakeBody = std::function<Body(const Settings&)>;
using NamedBodies = std::map<std::string, MakeBody>;

std::int64_t size_of(const Settings& settings, const char* name) { return settings.at(name).get<std::int64_t>(); }

ElementwiseKind activation_of(const Settings& settings) {
  static const std::map<std::string, ElementwiseKind> kinds{{"gelu", ElementwiseKind::gelu},
                                                            {"gelu_tanh", ElementwiseKind::gelu_tanh},
                                                            {"relu", ElementwiseKind::relu},
                                                            {"silu", ElementwiseKind::silu}};
  return kinds.at(settings.at("activation").get<std::string>());
}

// Without dropout, which no other program draws as this one does.
BertModel bert_of(const Settings& s) {
  return {.hidden = size_of(s, "hidden"),
          .heads = size_of(s, "heads"),
          .width = size_of(s, "width"),
          .vocabulary = size_of(s, "vocabulary"),
          .positions = size_of(s, "positions"),
          .token_types = size_of(s, "token_types"),
          .activation = activation_of(s),
          .dropout = 0,
          .attention_dropout = 0};
}

NamedBodies bert_bodies() {
  const auto of_tokens = [](auto make) {
    return [=](const Settings& s) { return make(bert_of(s), size_of(s, "sequences"), size_of(s, "tokens")); };
  };
  return {{"bert.embedding", of_tokens(bert_embedding)},
          {"bert.layer", of_tokens(bert_layer)},
          {"bert.masked_language_head", of_tokens(bert_masked_language_head)},
          {"bert.classifier", [](const Settings& s) {
             return bert_classifier(bert_of(s), size_of(s, "classes"), size_of(s, "sequences"), size_of(s, "tokens"));
           }}};
}

NamedBodies vit_bodies() {
  const auto model = [](const Settings& s) {
    return VitModel{.hidden = size_of(s, "hidden"),
                    .heads = size_of(s, "heads"),
                    .width = size_of(s, "width"),
                    .image = size_of(s, "image"),
                    .patch = size_of(s, "patch"),
                    .activation = activation_of(s)};
  };
  return {{"vit.embedding", [=](const Settings& s) { return vit_embedding(model(s), size_of(s, "sequences")); }},
          {"vit.layer", [=](const Settings& s) { return vit_layer(model(s), size_of(s, "sequences")); }},
          {"vit.classifier", [=](const Settings& s) {
             return vit_classifier(model(s), size_of(s, "classes"), size_of(s, "sequences"));
           }}};
}

NamedBodies t5_bodies() {
  const auto model = [](const Settings& s) {
    return T5Model{.hidden = size_of(s, "hidden"),
                   .heads = size_of(s, "heads"),
                   .head_dim = size_of(s, "head_dim"),
                   .width = size_of(s, "width"),
                   .buckets = size_of(s, "buckets"),
                   .most_distance = size_of(s, "most_distance"),
                   .activation = activation_of(s),
                   .is_gated = s.at("is_gated").get<bool>(),
                   .dropout = 0,
                   .attention_dropout = 0};
  };
  return {
      {"t5.relative_bias",
       [=](const Settings& s) {
         return t5_relative_bias(model(s), s.at("is_decoder").get<bool>(), size_of(s, "tokens"));
       }},
      {"t5.encoder_layer",
       [=](const Settings& s) { return t5_encoder_layer(model(s), size_of(s, "sequences"), size_of(s, "tokens")); }},
      {"t5.decoder_layer", [=](const Settings& s) {
         return t5_decoder_layer(model(s), size_of(s, "sequences"), size_of(s, "tokens"), size_of(s, "source"));
       }}};
}

NamedBodies bart_bodies() {
  const auto model = [](const Settings& s) {
    return BartModel{.hidden = size_of(s, "hidden"),
                     .heads = size_of(s, "heads"),
                     .width = size_of(s, "width"),
                     .vocabulary = size_of(s, "vocabulary"),
                     .positions = size_of(s, "positions"),
                     .activation = activation_of(s),
                     .scales_embedding = s.at("scales_embedding").get<bool>(),
                     .dropout = 0};
  };
  return {
      {"bart.embedding",
       [=](const Settings& s) { return bart_embedding(model(s), size_of(s, "sequences"), size_of(s, "tokens")); }},
      {"bart.encoder_layer",
       [=](const Settings& s) { return bart_encoder_layer(model(s), size_of(s, "sequences"), size_of(s, "tokens")); }},
      {"bart.decoder_layer", [=](const Settings& s) {
         return bart_decoder_layer(model(s), size_of(s, "sequences"), size_of(s, "tokens"), size_of(s, "source"));
       }}};
}

NamedBodies resnet_bodies() {
  const auto norm = [](const Settings& s) { return Norm{NormKind::group, 1e-5, size_of(s, "groups")}; };
  const auto image = [](const Settings& s) {
    return ImageShape{size_of(s, "read_channels"), size_of(s, "height"), size_of(s, "image_width")};
  };
  const auto block = [=](const Settings& s) {
    return ResidualConvolution{s.at("is_bottleneck").get<bool>(), size_of(s, "width"), size_of(s, "channels"),
                               size_of(s, "stride"), norm(s)};
  };
  return {{"resnet.stem",
           [=](const Settings& s) {
             return resnet_stem(image(s), size_of(s, "channels"), norm(s), size_of(s, "samples"));
           }},
          {"resnet.block", [=](const Settings& s) { return resnet_block(block(s), image(s), size_of(s, "samples")); }},
          {"resnet.classifier", [=](const Settings& s) {
             return resnet_classifier(image(s), size_of(s, "classes"), size_of(s, "samples"));
           }}};
}

}  // namespace

Body named_body(const Settings& settings) {
  NamedBodies bodies;
  for (NamedBodies family : {bert_bodies(), vit_bodies(), t5_bodies(), bart_bodies(), resnet_bodies()})
    bodies.merge(family);
  return bodies.at(settings.at("body").get<std::string>())(settings);
}

}  // namespace llmtrain::body::test
