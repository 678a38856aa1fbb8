// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/describe_images.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <future>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/data/images/image_file.h"

namespace llmtrain {
namespace {

// Whole numbers, whose sums do not depend on their order: of 2^40 pixels the squares fill 56 bits.
struct PixelSums {
  std::uint64_t pixels = 0;
  std::array<std::uint64_t, image_channels> sums{}, squares{};

  void add(const Image& image) {
    pixels += image.bytes.size() / image_channels;
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      const std::uint64_t byte = image.bytes[i];
      sums[i % image_channels] += byte;
      squares[i % image_channels] += byte * byte;
    }
  }
  void add(const PixelSums& other) {
    pixels += other.pixels;
    for (std::size_t channel = 0; channel < image_channels; ++channel) {
      sums[channel] += other.sums[channel];
      squares[channel] += other.squares[channel];
    }
  }
};

// What one file has come to.
struct ReadFile {
  ImageSize size;
  std::string problem;  // none: it is an image
};

class Reading {
 public:
  explicit Reading(const std::vector<std::filesystem::path>& paths) : paths_(paths), files_(paths.size()) {}

  // Reads files until none is left; any number of threads do so at once. Throws what `report` does.
  PixelSums read(const ReportShare& report) {
    PixelSums sums;
    for (std::size_t next = next_++; next < paths_.size(); next = next_++) {
      report(static_cast<double>(next) / static_cast<double>(paths_.size()));
      try {
        const Image image = read_image(paths_[next]);
        files_[next].size = {image.height, image.width};
        sums.add(image);
      } catch (const Error& error) {
        // Without what decodes no image is read.
        if (error.code() != ExitCode::bad_data) throw;
        files_[next].problem = error.what();
      }
    }
    return sums;
  }
  // Makes read() end early in all threads.
  void stop() { next_ = paths_.size(); }

  const std::vector<ReadFile>& files() const { return files_; }

 private:
  const std::vector<std::filesystem::path>& paths_;
  std::vector<ReadFile> files_;  // each thread writes those that it has read
  std::atomic<std::size_t> next_{0};
};

PixelSums read_with_threads(Reading& reading, int threads, const ReportShare& report) {
  std::vector<std::future<PixelSums>> others;
  for (int thread = 1; thread < threads; ++thread)
    others.push_back(std::async(std::launch::async, [&] { return reading.read(report_nothing); }));
  try {
    PixelSums sums = reading.read(report);
    for (std::future<PixelSums>& other : others) sums.add(other.get());
    return sums;
  } catch (...) {
    reading.stop();
    throw;  // the futures wait for their threads
  }
}

// All that is wrong is said at once: collections often have more than one such file.
void require_images(const std::vector<ReadFile>& files, const std::filesystem::path& folder) {
  constexpr std::size_t most_shown = 10;
  std::vector<std::string> problems;
  std::int64_t count = 0;
  for (const ReadFile& file : files) {
    if (file.problem.empty()) continue;
    if (problems.size() < most_shown) problems.push_back("\n  " + file.problem);
    ++count;
  }
  if (count == 0) return;
  throw Error(ExitCode::bad_data,
              fmt::format("{}: {} of {} cannot be read; mend or remove {}:{}{}", folder.string(), count,
                          format_number_of(std::ssize(files), "file"), count == 1 ? "it" : "them",
                          fmt::join(problems, ""), count > std::ssize(problems) ? "\n  …" : ""));
}

}  // namespace

ImagesDescription describe_images(const std::filesystem::path& folder, int threads, const ReportShare& report) {
  ImagesDescription description;
  description.folder = list_images(folder);
  const auto& paths = description.folder.paths;
  Reading reading(paths);
  const PixelSums sums = read_with_threads(reading, threads, report);
  require_images(reading.files(), folder);
  description.smallest = description.largest = reading.files().front().size;
  for (const ReadFile& file : reading.files()) {
    description.smallest.height = std::min(description.smallest.height, file.size.height);
    description.smallest.width = std::min(description.smallest.width, file.size.width);
    description.largest.height = std::max(description.largest.height, file.size.height);
    description.largest.width = std::max(description.largest.width, file.size.width);
  }
  for (const auto& path : paths) description.file_bytes += static_cast<std::int64_t>(std::filesystem::file_size(path));
  const auto count = static_cast<double>(sums.pixels);
  for (std::size_t channel = 0; channel < image_channels; ++channel) {
    const double mean = static_cast<double>(sums.sums[channel]) / count;
    const double square = static_cast<double>(sums.squares[channel]) / count;
    description.mean[channel] = mean / 255;
    description.deviation[channel] = std::sqrt(std::max(0.0, square - mean * mean)) / 255;
  }
  return description;
}

}  // namespace llmtrain
