// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/checkpoint/checkpoint_diff.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json side_as_json(const CheckpointReader& reader) {
  return {{"checkpoint", reader.folder().string()},
          {"step", reader.state().step},
          {"data_position", reader.state().data_position}};
}

std::string side_as_text(const CheckpointReader& reader) {
  return fmt::format("{}: step {}, data position {}\n", reader.folder().string(), reader.state().step,
                     reader.state().data_position);
}

}  // namespace

std::string difference_as_text(const CheckpointReader& first, const CheckpointReader& second,
                               const CheckpointDifference& difference) {
  std::string text = side_as_text(first) + side_as_text(second);
  if (difference.tensors.empty())
    return text + fmt::format("all {} tensors have the same values\n", difference.compared);
  std::size_t width = 0;
  for (const TensorDifference& tensor : difference.tensors) width = std::max(width, tensor.name.size());
  text += fmt::format("{} tensors differ, of {} that both have\n", difference.tensors.size(), difference.compared);
  for (const TensorDifference& tensor : difference.tensors) {
    if (!tensor.reason.empty()) {
      text += fmt::format("  {:<{}}  {}\n", tensor.name, width, tensor.reason);
      continue;
    }
    text += fmt::format("  {:<{}}  {} of {} elements, by at most {:.3g}, relative {:.3g}\n", tensor.name, width,
                        tensor.differing, tensor.elements, tensor.largest, tensor.relative);
  }
  return text;
}

std::string difference_as_json(const CheckpointReader& first, const CheckpointReader& second,
                               const CheckpointDifference& difference) {
  Json json = {{"equal", difference.tensors.empty()},
               {"first", side_as_json(first)},
               {"second", side_as_json(second)},
               {"compared", difference.compared},
               {"tensors", Json::array()}};
  for (const TensorDifference& tensor : difference.tensors) {
    Json entry = {{"name", tensor.name}};
    if (!tensor.reason.empty()) {
      entry["reason"] = tensor.reason;
    } else {
      entry.update(Json{{"elements", tensor.elements},
                        {"differing", tensor.differing},
                        {"largest", number(tensor.largest)},
                        {"relative", number(tensor.relative)}});
    }
    json["tensors"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain::app
