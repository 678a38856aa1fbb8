// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/data/images/augmentation.h"
#include "core/data/images/image_file.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_samples.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/images/small_images.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test::images {
namespace {

std::span<const std::byte> bytes_of(const std::vector<unsigned char>& file) { return std::as_bytes(std::span(file)); }

int expected(std::int64_t x, std::int64_t y, std::size_t colour) {
  const std::array<std::int64_t, 3> values{25 * x + 3 * y, 30 * y + x, 5 * x * y + 10};
  return static_cast<int>(values[colour] % 256);
}

// By how much the image is off at most.
int distance(const Image& image) {
  int most = 0;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x)
      for (std::size_t colour = 0; colour < 3; ++colour)
        most =
            std::max(most, std::abs(image.row(y)[static_cast<std::size_t>(3 * x) + colour] - expected(x, y, colour)));
  return most;
}

std::string text_of(const std::vector<unsigned char>& file) { return {file.begin(), file.end()}; }

// cat/a.png, cat/deep/b.jpg, dog/c.PNG, and what is passed over.
std::filesystem::path folder_of_images(const TemporaryDirectory& folder) {
  for (const char* const name : {"cat/a.png", "dog/c.PNG"}) folder.write(name, text_of(small_png));
  folder.write("cat/deep/b.jpg", text_of(small_jpeg));
  folder.write("cat/notes.txt", "no image");
  folder.write("cat/.hidden.png", "no image");
  folder.write(".thumbnails/d.png", "no image");
  folder.write("e.png", "beside the classes");
  return folder.path();
}

}  // namespace

TEST_CASE("images are decoded", "[images]") {
  const Image png = decode_image(bytes_of(small_png), "a.png");
  CHECK(png.height == 7);
  CHECK(png.width == 9);
  CHECK(distance(png) == 0);
  // Their colours are stored at half the resolution.
  CHECK(distance(decode_image(bytes_of(small_jpeg), "a.jpg")) < 160);
  CHECK(decode_image(bytes_of(small_progressive_jpeg), "a.jpg").width == 9);
}

TEST_CASE("files that are no whole images are refused by name", "[images]") {
  for (const auto* const file : {&small_png, &small_jpeg, &small_progressive_jpeg})
    for (std::size_t length = 0; length + 2 < file->size(); ++length) {
      // The last bytes of a PNG image are a check of no content.
      if (file == &small_png && length + 12 >= file->size()) continue;
      INFO(length);
      CHECK_THROWS_AS(decode_image(bytes_of(*file).first(length), "a"), Error);
    }
  require_error(ExitCode::bad_data, {"cat/a.png: it is neither a JPEG nor a PNG image"}, [&] {
    decode_image(bytes_of({'G', 'I', 'F', '8', '9', 'a'}), "cat/a.png");
  });
}

TEST_CASE("an image whose size would fill the memory is refused", "[images]") {
  std::vector<unsigned char> large = small_png;
  // The width and height of the header, whose checksum is left out of the question by libpng's own limit or ours.
  for (const std::size_t place : {16U, 20U}) large[place + 1] = 0x7F;
  CHECK_THROWS_AS(decode_image(bytes_of(large), "a.png"), Error);
}

TEST_CASE("folders of images are classes", "[images]") {
  const TemporaryDirectory folder;
  const auto root = folder_of_images(folder);
  const ImageFolder images = list_images(root);
  CHECK(images.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(images.labels == std::vector<std::int64_t>{0, 0, 1});
  CHECK(images.paths == std::vector{root / "cat/a.png", root / "cat/deep/b.jpg", root / "dog/c.PNG"});
  CHECK(images.counts() == std::vector<std::int64_t>{2, 1});
  const std::vector<std::string> turned{"dog", "cat"}, other{"cat"}, more{"cat", "dog", "horse"};
  CHECK(list_images(root, turned).labels == std::vector<std::int64_t>{0, 1, 1});
  require_error(ExitCode::bad_data, {"its folder \"dog\" is none of the 1 classes"}, [&] { list_images(root, other); });
  require_error(ExitCode::bad_data, {"it has no folder \"horse\", which is a class"}, [&] { list_images(root, more); });
  std::filesystem::create_directory(root / "empty");
  require_error(ExitCode::bad_data, {"empty: a class without images"}, [&] { list_images(root); });
  require_error(ExitCode::bad_data, {"it has no folders"}, [&] { list_images(root / "cat/deep"); });
  require_error(ExitCode::missing_input, {"none: the folder cannot be read"}, [&] { list_images(root / "none"); });
}

TEST_CASE("views lie within images, and are as frequent as the view says", "[images]") {
  const ImageView view;
  const ImageSize image{300, 400};
  int mirrored = 0;
  double area = 0;
  constexpr int count = 4000;
  for (std::uint64_t key = 0; key < count; ++key) {
    const auto [box, is_mirrored] = drawn_view(view, key, image);
    REQUIRE(box.top >= 0);
    REQUIRE(box.left >= 0);
    REQUIRE(box.top + box.height <= image.height);
    REQUIRE(box.left + box.width <= image.width);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    // Each side is rounded to a pixel.
    REQUIRE(ratio > 0.74);
    REQUIRE(ratio < 1.35);
    mirrored += is_mirrored ? 1 : 0;
    area += static_cast<double>(box.height * box.width) / (300 * 400);
  }
  // Within five standard deviations: of a fair coin, and of the area as torchvision's get_params() draws it.
  CHECK(std::abs(mirrored - count / 2) < 5 * std::sqrt(count) / 2);
  CHECK(std::abs(area / count - 0.4332) < 5 * 0.2168 / std::sqrt(count));
}

// As a program in Python draws them, with SplitMix64's finaliser. Resumed runs rely on them.
TEST_CASE("views are what they have been", "[images]") {
  const auto view_of = [](std::uint64_t key) { return drawn_view({}, key, {300, 400}); };
  CHECK(view_of(7).box == ImageBox{147, 23, 147, 182});
  CHECK_FALSE(view_of(7).is_mirrored);
  CHECK(view_of(10).box == ImageBox{37, 129, 208, 243});  // the third that was tried
  CHECK(view_of(10).is_mirrored);
}

TEST_CASE("an image of an odd shape is shown in its largest middle part of an allowed ratio", "[images]") {
  ImageView view;
  view.area = {1, 1};
  CHECK(drawn_view(view, 1, {10, 1000}).box == ImageBox{0, 493, 10, 13});
  CHECK(drawn_view(view, 1, {1000, 10}).box == ImageBox{493, 0, 13, 10});
}

TEST_CASE("pixels are normalised by channel, and mirrored", "[images]") {
  const Image image = decode_image(bytes_of(small_png), "a.png");
  ImageView view;
  view.size = {7, 9};
  view.mean = {0.5, 0.25, 0};
  view.deviation = {0.5, 1, 2};
  view.evaluated_side = 7;
  std::vector<float> plain(3 * 7 * 9), mirrored(plain.size()), evaluated(3 * 7 * 7);
  write_training_pixels(view, image, {{0, 0, 7, 9}, false}, plain);
  write_training_pixels(view, image, {{0, 0, 7, 9}, true}, mirrored);
  view.size = {7, 7};
  write_evaluation_pixels(view, image, evaluated);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < 7; ++y)
      for (std::int64_t x = 0; x < 9; ++x) {
        const auto at = [&](std::int64_t column) { return c * 63 + static_cast<std::size_t>(9 * y + column); };
        const double value = (expected(x, y, c) / 255.0 - view.mean[c]) / view.deviation[c];
        REQUIRE(plain[at(x)] == Approx(value).margin(1e-6));
        REQUIRE(mirrored[at(8 - x)] == plain[at(x)]);
        // The middle: a column is left out at each side.
        if (x >= 1 && x <= 7) REQUIRE(evaluated[c * 49 + static_cast<std::size_t>(7 * y + x - 1)] == plain[at(x)]);
      }
}

TEST_CASE("samples of images are functions of key, number and draw", "[images]") {
  const TemporaryDirectory folder;
  ImageView view;
  view.size = {4, 4};
  view.evaluated_side = 5;
  const ImageFolder files = list_images(folder_of_images(folder));
  const ImageSamples samples(files, view, 5, 3), same(files, view, 5, 3), other(files, view, 5, 4);
  CHECK(samples.samples() == 3);
  CHECK(samples.sequences().front().length == 5);
  const auto read = [](const ImageSamples& of, std::int64_t number, std::optional<std::int64_t> draw) {
    std::vector<float> pixels(3 * 4 * 4);
    std::vector<std::int64_t> label(1, -1);
    FieldMemory memory;
    memory.set(BatchField::pixels, std::span(pixels));
    memory.set(BatchField::label, std::span(label));
    if (draw)
      of.read_drawn(number, *draw, memory);
    else
      of.read(number, memory);
    CHECK(label[0] == (number < 2 ? 0 : 1));
    return pixels;
  };
  CHECK(read(samples, 0, 7) == read(same, 0, 7));
  std::set<std::vector<float>> views;
  for (std::int64_t draw = 0; draw < 8; ++draw) views.insert(read(samples, 0, draw));
  CHECK(views.size() > 5);
  CHECK(read(samples, 0, 7) != read(other, 0, 7));
  CHECK(read(samples, 2, {}) == read(other, 2, {}));
  CHECK(read(samples, 2, {}) == read(samples, 0, {}));
}

}  // namespace llmtrain::test::images
