// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/skipped_lines.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/file.h"
#include "core/json/json_memory.h"

namespace llmtrain {

std::filesystem::path skipped_lines_file(const std::filesystem::path& token_file) {
  return std::filesystem::path(token_file).replace_extension(".skipped.json");
}

void keep_skipped_lines(const std::filesystem::path& token_file, const BadLines& lines) {
  const std::filesystem::path file = skipped_lines_file(token_file);
  std::error_code ignored;
  if (lines.count() == 0) {
    std::filesystem::remove(file, ignored);
  } else {
    write_file_atomically(file, lines.json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
}

BadLines kept_skipped_lines(const std::filesystem::path& token_file) {
  const std::filesystem::path file = skipped_lines_file(token_file);
  if (!path_exists(file)) return BadLines(OnBadLine::skip);
  const std::string text = read_file(file);
  try {
    if (!is_too_large_json(text)) return BadLines::of_json(nlohmann::ordered_json::parse(text));
  } catch (const nlohmann::json::exception&) {
    // Someone else's.
  }
  return BadLines(OnBadLine::skip);
}

}  // namespace llmtrain
