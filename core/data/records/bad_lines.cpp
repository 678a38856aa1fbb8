// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/bad_lines.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/units.h"
#include "core/data/records/table_records.h"

namespace llmtrain {
namespace {

std::string place_of(const std::filesystem::path& file, std::int64_t line) {
  return fmt::format("{}: {} {}", file.string(), is_column_table(file) ? "row" : "line", line);
}

}  // namespace

BadLine::BadLine(const std::filesystem::path& file, std::int64_t line, std::string reason, const std::string& advice)
    : Error(ExitCode::bad_data, fmt::format("{} {}{}{}; correct it, or skip such lines with data.on_bad_line",
                                            place_of(file, line), reason, advice.empty() ? "" : "; ", advice)),
      place_(place_of(file, line)),
      reason_(std::move(reason)) {}

bool BadLines::next(RecordReader& reader, Record& record) {
  for (;;)
    if (const std::optional<bool> found = read([&] { return reader.next(record); })) return *found;
}

void BadLines::add(const Reason& more) {
  auto known = std::ranges::find(reasons_, more.reason, &Reason::reason);
  if (known == reasons_.end() && reasons_.size() == most_reasons) {
    known = reasons_.end() - 1;
    known->reason = other_reasons;
  }
  if (known == reasons_.end()) {
    reasons_.push_back(more);
  } else {
    known->count += more.count;
  }
}

void BadLines::add(const BadLines& later) {
  for (const Reason& reason : later.reasons_) add(reason);
}

std::int64_t BadLines::count() const {
  return std::transform_reduce(reasons_.begin(), reasons_.end(), std::int64_t{0}, std::plus<>(),
                               [](const Reason& reason) { return reason.count; });
}

std::vector<std::string> BadLines::sentences() const {
  std::vector<std::string> sentences;
  for (const Reason& each : reasons_)
    sentences.push_back(fmt::format("{} {} skipped (data.on_bad_line): \"{}\", first in {}",
                                    format_number_of(each.count, "line"), each.count == 1 ? "was" : "were", each.reason,
                                    each.first));
  return sentences;
}

Error BadLines::nothing_left(const std::string& path, const char* what) const {
  const auto skipped = sentences();
  return Error(ExitCode::bad_data,
               fmt::format("'{}': holds no {}{}{}", path, what, skipped.empty() ? "" : ": ", fmt::join(skipped, "; ")));
}

nlohmann::ordered_json BadLines::json() const {
  auto reasons = nlohmann::ordered_json::array();
  for (const Reason& each : reasons_)
    reasons.push_back({{"reason", each.reason}, {"count", each.count}, {"first", each.first}});
  return {{"count", count()}, {"reasons", std::move(reasons)}};
}

BadLines BadLines::of_json(const nlohmann::ordered_json& json) {
  BadLines lines(OnBadLine::skip);
  for (const auto& each : json.at("reasons"))
    lines.add({each.at("reason").get<std::string>(), each.at("count").get<std::int64_t>(),
               each.at("first").get<std::string>()});
  return lines;
}

}  // namespace llmtrain
