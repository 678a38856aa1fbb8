// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/resize.h"

namespace llmtrain {

// What a folder of images holds.
struct ImagesDescription {
  ImageFolder folder;
  std::int64_t file_bytes = 0;
  ImageSize smallest{}, largest{};  // the extremes of heights, and of widths
  // By channel, over all pixels as numbers from 0 to 1: what data are normalised with.
  std::array<double, image_channels> mean{}, deviation{};
};

// Decodes all images, with as many threads as `threads`, at least 1; the result does not depend on how many. Throws
// what list_images() does, and Error(bad_data) that counts the files that are no images, and names the first of them.
ImagesDescription describe_images(const std::filesystem::path& folder, int threads,
                                  const ReportShare& report = report_nothing);

}  // namespace llmtrain
