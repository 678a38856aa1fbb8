// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/image_processor.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

bool is_on(const JsonValue& config, const char* key, bool otherwise) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// A number for each colour; the default where there is none.
ColoursRecipe colours_of(const JsonValue& config, const char* key, const std::string& file) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return {};
  const auto is_number = [](const JsonValue& value) { return value.is_number(); };
  if (!found->is_array() || found->size() != 3 || !std::ranges::all_of(*found, is_number))
    throw Error(ExitCode::bad_data, file + ": /" + key + ": is no list of three numbers");
  return {found->at(0).get<double>(), found->at(1).get<double>(), found->at(2).get<double>()};
}

// Pixels of the shorter side, where the middle is cut out behind the resizing.
std::optional<std::int64_t> shorter_side_of(const JsonValue& config) {
  const auto size = config.find("size");
  if (size == config.end()) return std::nullopt;
  const JsonValue& side = size->is_object() && size->contains("shortest_edge") ? size->at("shortest_edge") : *size;
  if (!side.is_number_integer()) return std::nullopt;
  return side.get<std::int64_t>();
}

}  // namespace

std::optional<ImagesRecipe> image_processor_in(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "preprocessor_config.json";
  if (!path_exists(path)) return std::nullopt;
  const std::string file = path.string();
  const auto config = parse_json<JsonValue>(read_text_file(path), file);
  if (!config.is_object()) throw Error(ExitCode::bad_data, file + ": is not a JSON object");
  ImagesRecipe images;
  images.fit = is_on(config, "do_center_crop", false) ? ImageFit::middle : ImageFit::stretch;
  if (images.fit == ImageFit::middle) images.shorter_side = shorter_side_of(config);
  if (is_on(config, "do_normalize", true)) {
    images.mean = colours_of(config, "image_mean", file);
    images.deviation = colours_of(config, "image_std", file);
  } else {
    images.mean = {0, 0, 0};
    images.deviation = {1, 1, 1};
  }
  return images;
}

}  // namespace llmtrain
