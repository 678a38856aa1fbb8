// SPDX-License-Identifier: Apache-2.0
// Models that read images, and their data.
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

constexpr std::int64_t file_channels = 3;

bool reads_images(const Recipe& recipe) {
  return is_image_classifier(recipe.model.architecture) && recipe.model.image.has_value();
}

Verdict check_image(const Recipe& recipe, const Known&) {
  const bool is_wanted = is_image_classifier(recipe.model.architecture);
  if (is_wanted == recipe.model.image.has_value()) return {};
  if (is_wanted)
    return Refusal{"null, and the model reads images",
                   "must be a section, such as {\"size\": 224}, where model.architecture is \"vit\" or \"resnet\"",
                   "{}"};
  return Refusal{"says which images are read, and this model reads tokens",
                 "needs model.architecture \"vit\" or \"resnet\"", "null"};
}

Verdict check_patch(const Recipe& recipe, const Known&) {
  // Another rule says so of what is no number of patches at all.
  if (!recipe.model.image || recipe.model.architecture == Architecture::resnet) return {};
  return must_divide(recipe.model.image->patch, recipe.model.image->size, "model.image.size");
}

// What follows from the images, and may be left out.
Verdict must_be(const Recipe& recipe, std::int64_t value, std::int64_t needed, std::string_view why) {
  if (!reads_images(recipe) || value == needed) return {};
  return Refusal{fmt::format("{} is another number than that of images", value),
                 fmt::format("must be {}, or left out, as {}", needed, why), std::to_string(needed)};
}

std::string_view rows_of_image(const Recipe& recipe) {
  return recipe.model.resnet ? "an image is one row" : "an image is a row for each patch and one for itself";
}

Verdict check_image_vocabulary(const Recipe& recipe, const Known&) {
  return must_be(recipe, recipe.model.vocab_size, 1, "images have no tokens");
}

Verdict check_image_rows(const Recipe& recipe, const Known&) {
  if (!reads_images(recipe)) return {};
  return must_be(recipe, recipe.model.max_sequence_length, recipe.model.image_rows(), rows_of_image(recipe));
}

Verdict check_image_length(const Recipe& recipe, const Known&) {
  if (!reads_images(recipe)) return {};
  return must_be(recipe, recipe.batch.sequence_length, recipe.model.image_rows(), rows_of_image(recipe));
}

Verdict check_image_tokens(const Recipe& recipe, const Known&) {
  if (!recipe.model.tie_embeddings || !is_image_classifier(recipe.model.architecture)) return {};
  return Refusal{"true, but images have no table of tokens",
                 "must be false where model.architecture is \"vit\" or \"resnet\"", "false"};
}

Verdict check_channels(const Recipe& recipe, const Known&) {
  if (!recipe.data.images || !recipe.model.image || recipe.model.image->channels == file_channels) return {};
  return Refusal{fmt::format("{} is another number than that of files", recipe.model.image->channels),
                 "must be 3 with data.images, whose pixels are red, green and blue", "3"};
}

Verdict check_images(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.images) {
    if (!is_image_classifier(recipe.model.architecture) || data.train.empty()) return {};
    return Refusal{
        "null, with which data are texts, and this model reads images",
        "must be a section, such as {\"classes\": [\"cat\", \"dog\"]}, where model.architecture is \"vit\" or "
        "\"resnet\""};
  }
  if (!is_image_classifier(recipe.model.architecture))
    return Refusal{"has images, and this model reads tokens", "needs model.architecture \"vit\" or \"resnet\"", "null"};
  return must_be_alone(data, "images in folders",
                       {{"denoising", data.denoising.has_value()},
                        {"labels", data.labels.has_value()},
                        {"pairs", data.pairs.has_value()}});
}

Verdict check_image_classes(const Recipe& recipe, const Known&) {
  const auto& images = recipe.data.images;
  return images ? must_name_classes(images->classes) : Verdict{};
}

Verdict check_side(const Recipe& recipe, const Known&) {
  const auto& images = recipe.data.images;
  if (!images || !images->shorter_side || !recipe.model.image) return {};
  const std::int64_t side = *images->shorter_side, size = recipe.model.image->size;
  if (images->fit == ImageFit::stretch)
    return Refusal{fmt::format("{} is of images of which the middle is cut out", side),
                   "must be \"auto\" where data.images.fit is \"stretch\"", "\"auto\""};
  if (side >= size) return {};
  return Refusal{fmt::format("{} is shorter than the middle that is cut out", side),
                 fmt::format("must be at least model.image.size ({})", size), std::to_string(size)};
}

Verdict must_be_at_least(double value, double least, const char* name) {
  if (value >= least) return {};
  return Refusal{number_words(value) + " is below the least",
                 fmt::format("must be at least data.images.augmentation.{} ({})", name, number_words(least)),
                 number_words(least)};
}

Verdict check_areas(const Recipe& recipe, const Known&) {
  if (!recipe.data.images || !recipe.data.images->augmentation) return {};
  const ImageAugmentationRecipe& drawn = *recipe.data.images->augmentation;
  return must_be_at_least(drawn.most_area, drawn.least_area, "least_area");
}

Verdict check_ratios(const Recipe& recipe, const Known&) {
  if (!recipe.data.images || !recipe.data.images->augmentation) return {};
  const ImageAugmentationRecipe& drawn = *recipe.data.images->augmentation;
  return must_be_at_least(drawn.most_ratio, drawn.least_ratio, "least_ratio");
}

Verdict check_image_tokenizer(const Recipe& recipe, const Known&) {
  if (!recipe.data.images || recipe.data.tokenizer.kind == TokenizerKind::bytes) return {};
  return Refusal{shown_text(recipe.data.tokenizer.file) + " makes tokens of texts", "must be left out with data.images",
                 "\"bytes\""};
}

Verdict check_image_lines(const Recipe& recipe, const Known&) {
  if (!recipe.data.images || recipe.data.on_bad_line == OnBadLine::stop) return {};
  return Refusal{"\"skip\" leaves out lines, and images have none", "must be \"stop\" with data.images", "\"stop\""};
}

}  // namespace

std::vector<Rule> image_rules() {
  const std::string_view architecture = "/model/architecture";
  return {
      {"/model/image", {architecture}, check_image},
      {"/model/image/patch", {architecture, "/model/image/size"}, check_patch},
      {"/model/image/channels", {"/data/images"}, check_channels},
      {"/model/vocab_size", {architecture, "/model/image"}, check_image_vocabulary},
      {"/model/max_sequence_length",
       {architecture, "/model/image", "/model/image/size", "/model/image/patch", "/model/resnet"},
       check_image_rows},
      {"/batch/sequence_length",
       {architecture, "/model/image", "/model/image/size", "/model/image/patch", "/model/resnet",
        "/model/max_sequence_length"},
       check_image_length},
      {"/model/tie_embeddings", {architecture}, check_image_tokens},
      {"/data/images/classes", {}, check_image_classes},
      {"/data/images/shorter_side", {"/data/images/fit", "/model/image/size"}, check_side},
      {"/data/images/augmentation/most_area", {"/data/images/augmentation/least_area"}, check_areas},
      {"/data/images/augmentation/most_ratio", {"/data/images/augmentation/least_ratio"}, check_ratios},
      {"/data/tokenizer", {"/data/images"}, check_image_tokenizer},
      {"/data/on_bad_line", {"/data/images"}, check_image_lines},
      {"/data/images",
       {architecture, "/data/train", "/data/fine_tuning", "/data/masking", "/data/labels", "/data/pairs",
        "/data/document_mask", "/data/curriculum/sequence_length", "/data/curriculum/vocabulary_rarity"},
       check_images},
  };
}

}  // namespace llmtrain
