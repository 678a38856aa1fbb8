// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/append_file.h"
#include "core/base/file.h"
#include "core/json/json_text.h"

namespace llmtrain::app {

// A file of the texts that `sample` writes, one JSON object per line, which a later call goes on with. This process
// alone holds it.
class SampleFile {
 public:
  // Keeps the texts of a file that is there, as far as each prompt has all of its `samples`, and cuts off what follows
  // them, such as half a line. Throws Error(bad_data) that names the line where it has a text of another prompt,
  // Error(cannot_write) where it cannot be written or somebody else writes it.
  SampleFile(const std::filesystem::path& file, const std::vector<Json>& prompts, std::int64_t samples);

  // The first prompt that has no texts.
  std::int64_t first_prompt() const { return kept_lines_ / samples_; }

  // Written at once. Throws Error(cannot_write).
  void append(std::string_view line) { end_.append(line); }

 private:
  // The bytes of the lines that are kept.
  std::int64_t keep(const std::string& content, const std::vector<Json>& prompts);

  std::filesystem::path file_;
  std::int64_t samples_;
  AppendFile end_;
  OpenFile held_;
  std::int64_t kept_lines_ = 0;
};

}  // namespace llmtrain::app
