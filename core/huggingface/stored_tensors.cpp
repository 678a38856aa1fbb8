// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/stored_tensors.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what + "; download or save the model again");
}

// Plain names only, so that an untrusted index cannot make us read other files.
bool is_plain_name(const std::string& name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const auto json = parse_json<nlohmann::json>(read_text_file(index), index.string());
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse(index, "has no object \"weight_map\"");
  std::map<std::string, std::string> files;
  for (const auto& item : json["weight_map"].items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : "";
    if (!is_plain_name(file))
      refuse(index, "places " + quoted_text(item.key()) + " in " + quoted_text(item.value().dump()) +
                        ", which is not the plain name of a .safetensors file in its folder");
    files.emplace(item.key(), file);
  }
  return files;
}

void add_file(StoredTensors& tensors, const fs::path& file) {
  std::error_code error;
  // Opening a pipe would block until it has a writer.
  if (path_exists(file) && !fs::is_regular_file(file, error)) refuse(file, "is not a regular file");
  const auto opened = std::make_shared<const SafetensorsFile>(file);
  for (const SafetensorsEntry& entry : opened->entries())
    if (!tensors.emplace(entry.name, StoredTensor{opened, &entry}).second)
      refuse(file, "holds " + quoted_text(entry.name) + ", which another file of the folder holds, too");
}

StoredTensors open_indexed(const fs::path& index) {
  StoredTensors tensors;
  const auto weight_map = read_weight_map(index);
  // Each file once, however many tensors it holds.
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  for (const std::string& file : files) add_file(tensors, index.parent_path() / file);
  for (const auto& [name, file] : weight_map) {
    const auto found = tensors.find(name);
    // Both directions are checked: an index that disagrees with its files is of another model.
    if (found == tensors.end() || found->second.file->path().filename() != file)
      refuse(index, "places " + quoted_text(name) + " in " + file + ", which does not hold it");
  }
  for (const auto& [name, tensor] : tensors)
    if (!weight_map.contains(name))
      refuse(index,
             "does not name " + quoted_text(name) + ", which " + tensor.file->path().filename().string() + " holds");
  return tensors;
}

}  // namespace

StoredTensors open_tensors(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  // In the order in which from_pretrained looks for them.
  if (path_exists(single)) {
    StoredTensors tensors;
    add_file(tensors, single);
    return tensors;
  }
  if (path_exists(index)) return open_indexed(index);
  const std::string advice = path_exists(folder / "pytorch_model.bin")
                                 ? "; it has pytorch_model.bin: save it again with safe_serialization=True"
                                 : "; a folder that save_pretrained wrote is needed";
  throw Error(ExitCode::missing_input,
              folder.string() + ": has neither model.safetensors nor model.safetensors.index.json" + advice);
}

}  // namespace llmtrain
