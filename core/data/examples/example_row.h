// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/data/records/record_reader.h"
#include "core/json/json_text.h"

namespace llmtrain {

// A row of JSON Lines, JSON or a table that holds an example. What is wrong with it is a BadLine.
class ExampleRow {
 public:
  // `section` is the one of the recipe that names the keys of rows ("data.labels"); like `file`, it outlives this.
  // Throws BadLine where the record is no object.
  ExampleRow(const Record& record, const std::filesystem::path& file, std::string_view section);

  // What stands at a key of the row, or, where `key` begins with "/" and is no key, at this JSON pointer (RFC 6901):
  // "/translation/en". Throws BadLine, which calls it a `kind` and names the keys that there are.
  const Json& at(const std::string& key, std::string_view kind) const;
  std::string text_at(const std::string& key) const;
  // Tables hold a list as a text of JSON.
  Json list_at(const std::string& key) const;

  [[noreturn]] void fail(std::string reason, const std::string& advice = "") const;

 private:
  [[noreturn]] void fail_kind(const std::string& key, std::string_view kind) const;

  std::int64_t line_;
  const std::filesystem::path& file_;
  std::string_view section_;
  Json row_;
};

}  // namespace llmtrain
