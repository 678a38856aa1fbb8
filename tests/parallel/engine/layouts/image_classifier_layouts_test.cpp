// SPDX-License-Identifier: Apache-2.0
// Models of images: what one rank learns of files, whatever the layout, and plans that are what runs.
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/parallel/engine/layouts/learned_states.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/png_file.h"

namespace llmtrain::test {
namespace {

constexpr std::size_t image_side = 10;

// Dark on the left, dark at the top, or dark nowhere, and other colours in each file.
std::string image_of(int shape, int number) {
  std::vector<std::uint8_t> colours;
  for (std::size_t y = 0; y < image_side; ++y)
    for (std::size_t x = 0; x < image_side; ++x)
      for (int colour = 0; colour < 3; ++colour) {
        const bool is_dark = (shape == 0 && x < image_side / 2) || (shape == 1 && y < image_side / 2);
        colours.push_back(static_cast<std::uint8_t>((is_dark ? 20 : 150) + number * 7 % 60 + colour * 9 + x * y % 5));
      }
  return png_file(image_side, colours);
}

Overrides of_model(Architecture architecture) {
  if (architecture == Architecture::vit)
    return {"model.architecture=\"vit\"",
            "model.image={\"size\": 8, \"patch\": 2}",
            "model.max_sequence_length=17",
            "batch.sequence_length=17",
            "model.kv_heads=4",
            "model.layers=4"};
  return {"model.architecture=\"resnet\"",
          "model.image={\"size\": 32}",
          "model.resnet={\"stem_channels\": 8, \"groups\": 4, \"stages\": [{\"blocks\": 2, \"channels\": 8}, "
          "{\"blocks\": 2, \"channels\": 12}]}",
          "model.max_sequence_length=1",
          "batch.sequence_length=1",
          "model.layers=4",
          "model.hidden_size=12",
          "model.heads=1",
          "model.ffn_hidden_size=12",
          "model.kv_heads=1"};
}

class ImageSetting {
 public:
  explicit ImageSetting(Architecture architecture) {
    const std::vector<std::string> classes{"left", "top", "none"};
    for (int shape = 0; shape < 3; ++shape) {
      const std::string& name = classes[static_cast<std::size_t>(shape)];
      std::filesystem::create_directories(setting_.directory().path() / "images" / name);
      for (int number = 0; number < 9; ++number)
        setting_.directory().write("images/" + name + "/" + std::to_string(number) + ".png", image_of(shape, number));
    }
    const std::string sources = "=[{\"path\": \"" + (setting_.directory().path() / "images").string() + "\"}]";
    overrides_ = {"model.vocab_size=1",
                  "data.images={\"classes\": [\"left\", \"top\", \"none\"], \"augmentation\": {\"least_area\": 0.6}}",
                  "data.train" + sources, "data.validation" + sources};
    overrides_ = of_model(architecture) + overrides_;
  }

  const TrainingSetting& setting() const { return setting_; }
  const Overrides& overrides() const { return overrides_; }

 private:
  TrainingSetting setting_;
  Overrides overrides_;
};

// Nothing is clipped, so that a step is a function of each parameter's gradient alone.
const Overrides image_steps{"batch.micro=4", "training.clip_norm=0", "training.learning_rate.peak=0.01"};

struct Compute {
  Architecture architecture;
  Overrides overrides;
};

Learned learn(const ImageSetting& images, const RankCase& layout, std::int64_t steps = 3) {
  return learn_states(images.setting().recipe(images.overrides() + image_steps + layout.overrides), layout.ranks,
                      steps);
}

}  // namespace

TEST_CASE("a model of images learns the same bits on any pipeline, and has the same losses on data ranks and shards",
          "[ranks]") {
  const Compute compute =
      GENERATE(Compute{Architecture::vit, {}}, Compute{Architecture::vit, {"model.dropout=0.1"}},
               Compute{Architecture::vit, {"precision.compute=\"bf16\""}}, Compute{Architecture::resnet, {}},
               Compute{Architecture::resnet, {"precision.compute=\"bf16\""}});
  const ImageSetting images(compute.architecture);
  const std::vector<RankCase> layouts{
      {1, {"memory.recompute=\"selective\""}},
      {1, {"memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=2"}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.balance=\"blocks\""}},
  };
  const Learned expected =
      check_layouts([&](const RankCase& layout) { return learn(images, layout); }, compute.overrides, layouts);
  const Learned all = learn(images, {4, Overrides{zero(3), "parallel.pipeline=2"} + compute.overrides});
  CHECK(all.run.losses == expected.run.losses);
}

TEST_CASE("a model of images learns the same in pieces, but for rounding", "[ranks]") {
  const ImageSetting images(GENERATE(Architecture::vit, Architecture::resnet));
  const Run expected = learn(images, {1, {}}, 6).run;
  for (const Overrides& overrides : {Overrides{"memory.chunks=2"}, Overrides{"memory.chunks=3"}})
    check_close(learn(images, {1, overrides}, 6).run, expected, 1e-5, 1e-4);
}

TEST_CASE("a step of a model of images does what is planned, and takes the memory that is planned") {
  const auto architecture = GENERATE(Architecture::vit, Architecture::resnet);
  const ImageSetting images(architecture);
  std::vector<RankCase> layouts{
      {1, {}},
      {1, {"memory.recompute=\"selective\""}},
      {1, {"memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {4, {"parallel.pipeline=2", "pipeline.loops=2", zero(3)}},
      {2, {zero(1)}},
      {2, {zero(3)}},
      {1, {"memory.chunks=2"}},
  };
  // Pixels take most of the memory.
  if (architecture == Architecture::vit)
    layouts.push_back(
        {1, {"model.image={\"size\": 96, \"patch\": 32}", "model.max_sequence_length=10", "batch.sequence_length=10"}});
  for (const RankCase& layout : layouts)
    check_layout(images.setting(), {layout.ranks, images.overrides() + layout.overrides});
}

}  // namespace llmtrain::test
