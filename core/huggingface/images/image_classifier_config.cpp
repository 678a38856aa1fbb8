// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/images/image_classifier_config.h"

#include <cstddef>
#include <string>

#include "core/base/file.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

Json list_of(const ColoursRecipe& colours) { return {colours.red, colours.green, colours.blue}; }

Json preprocessor_config(const ImagesRecipe& images, std::int64_t size) {
  constexpr int bilinear = 2;  // as Pillow numbers it
  const bool is_whole = images.fit == ImageFit::stretch;
  const Json square = {{"height", size}, {"width", size}};
  Json config;
  // A class that cuts out the middle behind its resizing.
  config["image_processor_type"] = is_whole ? "ViTImageProcessor" : "BitImageProcessor";
  config["do_resize"] = true;
  config["size"] = is_whole ? square : Json{{"shortest_edge", shorter_side(images, size)}};
  config["resample"] = bilinear;
  if (!is_whole) {
    config["do_center_crop"] = true;
    config["crop_size"] = square;
    config["do_convert_rgb"] = true;
  }
  config["do_rescale"] = true;
  config["rescale_factor"] = 1.0 / 255;
  config["do_normalize"] = true;
  config["image_mean"] = list_of(images.mean);
  config["image_std"] = list_of(images.deviation);
  return config;
}

// Their names, by number and back.
void add_classes(Json& config, const ClassifierRecipe& classifier) {
  for (std::size_t i = 0; i < classifier.classes.size(); ++i) {
    config["id2label"][std::to_string(i)] = classifier.classes[i];
    config["label2id"][classifier.classes[i]] = i;
  }
  if (classifier.of == ClassifiedPart::sequence) config["problem_type"] = "single_label_classification";
}

}  // namespace

void add_encoder_layers(Json& config, const ModelRecipe& model) {
  config["num_hidden_layers"] = model.layers;
  config["hidden_size"] = model.hidden_size;
  config["num_attention_heads"] = model.heads;
  config["intermediate_size"] = model.ffn_hidden_size;
  config["hidden_act"] = model.activation == Activation::gelu ? "gelu" : "gelu_new";
  config["layer_norm_eps"] = model.norm_eps;
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = model.dropout;
  if (model.classifier) add_classes(config, *model.classifier);
}

void add_vit(Json& config, const ModelRecipe& model) {
  const ImageInputRecipe& image = model.image.value();
  config["image_size"] = image.size;
  config["patch_size"] = image.patch;
  config["num_channels"] = image.channels;
  add_encoder_layers(config, model);
  config["qkv_bias"] = true;
  config["initializer_range"] = model.init_std;
}

void write_preprocessor_config(const std::filesystem::path& folder, const std::optional<ImagesRecipe>& images,
                               std::int64_t size, const std::filesystem::path& origin) {
  const std::filesystem::path theirs = origin / preprocessor_file;
  if (images)
    write_file_atomically(folder / preprocessor_file, preprocessor_config(*images, size).dump(2) + "\n");
  else if (!origin.empty() && path_exists(theirs))
    write_file_atomically(folder / preprocessor_file, read_text_file(theirs));
}

}  // namespace llmtrain
