// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/checkpoint/checkpoint_inspect.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/base/printable.h"
#include "core/base/units.h"

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

struct File {
  std::string name;
  std::int64_t bytes = 0;
};

std::vector<File> files_of(const std::filesystem::path& folder) {
  std::vector<File> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.is_regular_file(failed)) {
      files.push_back({entry.path().filename().string(), static_cast<std::int64_t>(entry.file_size(failed))});
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

std::int64_t bytes_of(const std::vector<File>& files) {
  std::int64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  return bytes;
}

// The endings that checkpoints give to optimizer state, master weights, scales, the headroom of FP8 gradients,
// histories of FP8 operands and what may leave FP8, and the name of the loss scale.
bool is_optimizer_state(std::string_view name) {
  constexpr std::array<std::string_view, 9> endings = {
      ".master", ".m", ".v", ".scale", ".mu", ".amax_history", ".overflow", ".gradient_overflow", "loss_scale"};
  return std::any_of(endings.begin(), endings.end(), [name](std::string_view end) { return name.ends_with(end); });
}

std::int64_t parameters_of(const CheckpointReader& reader) {
  std::int64_t count = 0;
  for (const LogicalTensor& tensor : reader.tensors()) {
    if (is_optimizer_state(tensor.name)) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= size;
    count += elements;
  }
  return count;
}

// A checkpoint is data: its recipe may be anything. Control characters must not reach the terminal.
std::string recipe_name(const Json& recipe) {
  const auto name = recipe.is_object() ? recipe.find("name") : recipe.end();
  return name != recipe.end() && name->is_string() ? printable(name->get_ref<const std::string&>()) : "";
}

}  // namespace

std::string describe_as_text(const CheckpointReader& reader) {
  const auto files = files_of(reader.folder());
  const std::string name = recipe_name(reader.state().recipe);
  std::size_t width = 0;
  for (const LogicalTensor& tensor : reader.tensors()) width = std::max(width, tensor.name.size());

  std::string text = fmt::format("checkpoint     {}\nrecipe         {}\nstep           {}\ndata position  {} samples\n",
                                 reader.folder().string(), name, reader.state().step, reader.state().data_position);
  text += fmt::format("parameters     {}\ntensors        {}\nsize           {}\n", parameters_of(reader),
                      reader.tensors().size(), format_bytes(bytes_of(files)));
  if (const auto& base = reader.state().base)
    text += fmt::format("base           {}, whose weights are not in the checkpoint (fingerprint {})\n", base->source,
                        base->fingerprint.substr(0, 16));
  text += "\nfiles\n";
  for (const File& file : files) text += fmt::format("  {}  {}\n", file.name, format_bytes(file.bytes));
  text += "\ntensors\n";
  for (const LogicalTensor& tensor : reader.tensors()) {
    text += fmt::format("  {:<{}}  {:<4}  [{}]\n", tensor.name, width, tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  return text;
}

std::string describe_as_json(const CheckpointReader& reader) {
  const auto files = files_of(reader.folder());
  Json json = {{"checkpoint", reader.folder().string()},
               {"step", reader.state().step},
               {"data_position", reader.state().data_position},
               {"parameters", parameters_of(reader)},
               {"bytes", bytes_of(files)},
               {"base", nullptr},
               {"files", Json::array()},
               {"tensors", Json::array()},
               {"recipe", reader.state().recipe}};
  if (const auto& base = reader.state().base)
    json["base"] = {{"source", base->source}, {"fingerprint", base->fingerprint}};
  for (const File& file : files) json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  for (const LogicalTensor& tensor : reader.tensors()) {
    json["tensors"].push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain::app
