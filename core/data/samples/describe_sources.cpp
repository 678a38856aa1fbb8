// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/describe_sources.h"

#include <nlohmann/json.hpp>

namespace llmtrain {

nlohmann::ordered_json describe_sources(const Dataset& dataset, const std::vector<DataSource>& sources) {
  const auto samples = dataset.samples_by_source(), tokens = dataset.tokens_by_source();
  const auto paths = dataset.paths();
  const auto packed = dataset.packed();  // of conversations alone
  const auto left_out = dataset.left_out();
  auto described = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    nlohmann::ordered_json source = {
        {"path", sources[i].path}, {"files", paths[i].size()}, {"samples", samples[i]}, {"tokens", tokens[i]}};
    if (i < packed.size()) {
      source["documents"] = packed[i].documents;
      source["truncated"] = left_out[i].truncated;
      source["too_long"] = left_out[i].too_long;
      source["no_answer"] = left_out[i].no_answer;
    }
    source["bad_lines"] = left_out[i].bad_lines.json();
    described.push_back(std::move(source));
  }
  return described;
}

}  // namespace llmtrain
