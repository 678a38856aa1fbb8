// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/images/image_classifier_places.h"

namespace llmtrain {
namespace {

constexpr std::string_view kernel = "vit.embeddings.patch_embeddings.projection.weight";
constexpr std::string_view of_image = "vit.embeddings.cls_token", positions = "vit.embeddings.position_embeddings";

constexpr TensorPlace places[] = {
    {"embedding.patch.weight", kernel},
    {"embedding.patch.bias", "vit.embeddings.patch_embeddings.projection.bias"},
    {"embedding.class.weight", of_image},
    {"embedding.position.weight", positions},
    {"attention_norm.weight", "vit.encoder.layer.{}.layernorm_before.weight"},
    {"attention_norm.bias", "vit.encoder.layer.{}.layernorm_before.bias"},
    {"attention.query.weight", "vit.encoder.layer.{}.attention.attention.query.weight"},
    {"attention.query.bias", "vit.encoder.layer.{}.attention.attention.query.bias"},
    {"attention.key.weight", "vit.encoder.layer.{}.attention.attention.key.weight"},
    {"attention.key.bias", "vit.encoder.layer.{}.attention.attention.key.bias"},
    {"attention.value.weight", "vit.encoder.layer.{}.attention.attention.value.weight"},
    {"attention.value.bias", "vit.encoder.layer.{}.attention.attention.value.bias"},
    {"attention.output.weight", "vit.encoder.layer.{}.attention.output.dense.weight"},
    {"attention.output.bias", "vit.encoder.layer.{}.attention.output.dense.bias"},
    {"ffn_norm.weight", "vit.encoder.layer.{}.layernorm_after.weight"},
    {"ffn_norm.bias", "vit.encoder.layer.{}.layernorm_after.bias"},
    {"ffn.up.weight", "vit.encoder.layer.{}.intermediate.dense.weight"},
    {"ffn.up.bias", "vit.encoder.layer.{}.intermediate.dense.bias"},
    {"ffn.down.weight", "vit.encoder.layer.{}.output.dense.weight"},
    {"ffn.down.bias", "vit.encoder.layer.{}.output.dense.bias"},
    {"head.norm.weight", "vit.layernorm.weight"},
    {"head.norm.bias", "vit.layernorm.bias"},
    {"head.classifier.weight", "classifier.weight"},
    {"head.classifier.bias", "classifier.bias"},
};

}  // namespace

std::span<const TensorPlace> vit_places() { return places; }

std::vector<std::int64_t> vit_shape(std::string_view name, std::vector<std::int64_t> shape,
                                    const ImageInputRecipe& image) {
  if (name == kernel) return {shape.front(), image.channels, image.patch, image.patch};
  if (name == of_image || name == positions) shape.insert(shape.begin(), 1);
  return shape;
}

}  // namespace llmtrain
