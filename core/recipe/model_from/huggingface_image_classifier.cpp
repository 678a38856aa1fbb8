// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_image_classifier.h"

#include <string>

#include "core/recipe/model_from/huggingface_encoder.h"

namespace llmtrain {
namespace {

ImageInputRecipe read_image(ConfigReader& reader) {
  const ImageInputRecipe image{.size = reader.size("image_size", 224),
                               .patch = reader.size("patch_size", 16),
                               .channels = reader.size("num_channels", 3)};
  if (image.size % image.patch != 0)
    reader.problem("patch_size", "is " + std::to_string(image.patch) + ", which does not divide the image's side " +
                                     std::to_string(image.size));
  return image;
}

}  // namespace

ModelRecipe read_vit(ConfigReader& reader) {
  ModelRecipe model;
  model.architecture = Architecture::vit;
  read_encoder_layers(reader, model);
  model.image = read_image(reader);
  model.vocab_size = 1;
  model.max_sequence_length = model.image_rows();
  model.tie_embeddings = false;
  reader.require("qkv_bias", true, true);
  return model;
}

}  // namespace llmtrain
