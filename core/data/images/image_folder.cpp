// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_folder.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/data/images/image_file.h"

namespace llmtrain {
namespace {

using std::filesystem::path;

bool is_hidden(const path& file) { return file.filename().string().starts_with("."); }

std::vector<path> sorted(std::vector<path> paths) {
  std::ranges::sort(paths, {}, [](const path& each) { return each.string(); });
  return paths;
}

[[noreturn]] void fail(const path& folder, const std::error_code& error) {
  throw Error(ExitCode::missing_input, folder.string() + ": the folder cannot be read: " + error.message());
}

std::vector<std::string> class_names(const path& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (each->is_directory() && !is_hidden(each->path())) found.push_back(each->path().filename().string());
  if (error) fail(folder, error);
  if (found.empty())
    throw Error(ExitCode::bad_data, folder.string() + ": it has no folders; put the images of each class into one");
  std::ranges::sort(found);
  return found;
}

std::vector<path> images_below(const path& folder) {
  std::error_code error;
  std::vector<path> found;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (Walk each(folder, error), end; !error && each != end; each.increment(error)) {
    if (is_hidden(each->path())) {
      each.disable_recursion_pending();
      continue;
    }
    if (each->is_regular_file() && is_image_name(each->path())) found.push_back(each->path());
  }
  if (error) fail(folder, error);
  if (found.empty())
    throw Error(
        ExitCode::bad_data,
        folder.string() + ": a class without images; put .jpg, .jpeg or .png files into its folder, or remove it");
  return sorted(std::move(found));
}

ImageFolder images_of(const path& folder, std::vector<std::string> classes) {
  ImageFolder result{std::move(classes), {}, {}};
  for (std::size_t label = 0; label < result.classes.size(); ++label) {
    const std::vector<path> images = images_below(folder / result.classes[label]);
    result.paths.insert(result.paths.end(), images.begin(), images.end());
    result.labels.resize(result.paths.size(), static_cast<std::int64_t>(label));
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> ImageFolder::counts() const {
  std::vector<std::int64_t> counts(classes.size());
  for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

ImageFolder list_images(const path& folder) { return images_of(folder, class_names(folder)); }

ImageFolder list_images(const path& folder, std::span<const std::string> classes) {
  const std::vector<std::string> found = class_names(folder);
  for (const std::string& name : found)
    if (std::ranges::count(classes, name) == 0)
      throw Error(ExitCode::bad_data, fmt::format("{}: its folder \"{}\" is none of the {} classes; name it as a "
                                                  "class, or remove it",
                                                  folder.string(), name, classes.size()));
  for (const std::string& name : classes)
    if (std::ranges::count(found, name) == 0)
      throw Error(ExitCode::bad_data, fmt::format("{}: it has no folder \"{}\", which is a class; put its images into "
                                                  "one, or remove the class",
                                                  folder.string(), name));
  return images_of(folder, {classes.begin(), classes.end()});
}

}  // namespace llmtrain
