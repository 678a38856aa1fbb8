// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> image_fit_words = {"middle", "stretch"};
constexpr NumberRange ratio_range{0, 1000, RangeEnds::open_minimum};

void describe_colours(KeyVisitor& keys, ColoursRecipe& colours, NumberRange range) {
  keys.number({"red", "Of red."}, colours.red, range);
  keys.number({"green", "Of green."}, colours.green, range);
  keys.number({"blue", "Of blue."}, colours.blue, range);
}

void describe_augmentation(KeyVisitor& keys, ImageAugmentationRecipe& augmentation) {
  keys.number({"least_area", "Least share of an image's area that a part has."}, augmentation.least_area,
              {0, 1, RangeEnds::open_minimum});
  keys.number({"most_area", "Largest share of it."}, augmentation.most_area, {0, 1, RangeEnds::open_minimum});
  keys.number({"least_ratio", "Least width ÷ height of a part."}, augmentation.least_ratio, ratio_range);
  keys.number({"most_ratio", "Largest width ÷ height."}, augmentation.most_ratio, ratio_range);
  keys.number({"mirrored", "Probability that a part is mirrored."}, augmentation.mirrored, {0, 1});
}

}  // namespace

void describe_images(KeyVisitor& keys, ImagesRecipe& images) {
  keys.texts(
      {"classes", "Names of the classes, which are those of folders; the first is label 0.", "", Presence::required},
      images.classes, "a list of names");
  keys.choice({"fit",
               "What is seen of an image where nothing is drawn: its middle, cut out, or all of it, stretched to a "
               "square."},
              images.fit, image_fit_words);
  keys.automatic_integer(
      {"shorter_side", "With fit middle: pixels of the shorter side before that; auto: model.image.size × 8/7."},
      images.shorter_side, {1, 1 << 14});
  keys.section({"mean", "Subtracted from colours, which are numbers from 0 to 1."}, [&] {
    describe_colours(keys, images.mean, {0, 1});
  });
  keys.section({"deviation", "What colours are divided by after that."}, [&] {
    describe_colours(keys, images.deviation, {0, 1000, RangeEnds::open_minimum});
  });
  keys.optional_section({"augmentation",
                         "Training sees a random part of an image each time, perhaps mirrored; null: what evaluation "
                         "sees."},
                        images.augmentation,
                        [&](ImageAugmentationRecipe& augmentation) { describe_augmentation(keys, augmentation); });
}

}  // namespace llmtrain
