// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/data/inspect_images.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/llmtrain/standard_streams.h"
#include "core/base/long_work.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/images/describe_images.h"
#include "core/machine/processor.h"

namespace llmtrain::app {
namespace {

std::string as_json(const std::string& folder, const ImagesDescription& images) {
  nlohmann::ordered_json json = {{"folder", folder},
                                 {"format", "images of classes"},
                                 {"bytes", images.file_bytes},
                                 {"images", images.folder.paths.size()},
                                 {"classes", nlohmann::ordered_json::array()}};
  const std::vector<std::int64_t> counts = images.folder.counts();
  for (std::size_t i = 0; i < counts.size(); ++i)
    json["classes"].push_back({{"name", images.folder.classes[i]}, {"images", counts[i]}});
  json["smallest"] = {{"height", images.smallest.height}, {"width", images.smallest.width}};
  json["largest"] = {{"height", images.largest.height}, {"width", images.largest.width}};
  json["mean"] = images.mean;
  json["deviation"] = images.deviation;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string range_text(std::int64_t least, std::int64_t most) {
  return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
}

std::string as_text(const std::string& folder, const ImagesDescription& images) {
  std::string text = fmt::format("folder     {}\nformat     images of classes\nsize       {}\nimages     {}\n", folder,
                                 format_bytes(images.file_bytes), images.folder.paths.size());
  text += fmt::format("height     {}\nwidth      {}\n", range_text(images.smallest.height, images.largest.height),
                      range_text(images.smallest.width, images.largest.width));
  text += fmt::format("mean       {:.4f} {:.4f} {:.4f} of red, green and blue from 0 to 1\n", images.mean[0],
                      images.mean[1], images.mean[2]);
  text += fmt::format("deviation  {:.4f} {:.4f} {:.4f}\nclasses    {}\n", images.deviation[0], images.deviation[1],
                      images.deviation[2], images.folder.classes.size());
  const std::vector<std::int64_t> counts = images.folder.counts();
  const auto digits = std::to_string(std::ranges::max(counts)).size();
  for (std::size_t i = 0; i < counts.size(); ++i)
    text += fmt::format("  {:>{}}  {}\n", counts[i], digits, printable(images.folder.classes[i]));
  return text;
}

}  // namespace

void inspect_images(const std::string& folder, bool json) {
  const ReportShare report = WorkMonitor([] { return false; }, WorkMonitor::Lines::in_log).begin("reading " + folder);
  const ImagesDescription images = describe_images(folder, usable_cores(), report);
  json ? write_json(as_json(folder, images)) : write_result(as_text(folder, images));
}

}  // namespace llmtrain::app
