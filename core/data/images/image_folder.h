// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace llmtrain {

// The images of a folder that has one for each class, as torchvision's ImageFolder: in the order of the classes, and of
// each in that of the paths, byte by byte. Folders of a class may have folders; files of other names than images have
// are passed over, and so are hidden ones and those beside the classes.
struct ImageFolder {
  std::vector<std::string> classes;
  std::vector<std::filesystem::path> paths;
  std::vector<std::int64_t> labels;  // of paths: the number of its class

  // By class.
  std::vector<std::int64_t> counts() const;
};

// With classes in the order of their folders' names.
// Throws Error(missing_input) where there is no such folder, and Error(bad_data) where it has no classes, or one of
// them no image.
ImageFolder list_images(const std::filesystem::path& folder);

// With these classes, whose order numbers them; throws Error(bad_data) also where the folder has another class, or
// lacks one.
ImageFolder list_images(const std::filesystem::path& folder, std::span<const std::string> classes);

}  // namespace llmtrain
