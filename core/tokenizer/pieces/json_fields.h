// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace llmtrain {

// Reads the fields of one section of a tokenizer's file; every mismatch is Error(bad_data) with the file and the
// field's place in it.
class JsonFields {
 public:
  // `place` is the section's JSON pointer. The file's path and the value outlive the object.
  JsonFields(const std::filesystem::path& file, const nlohmann::json& value, std::string place);

  // A value of `section`, which is an object, with a key of any characters.
  JsonFields(const JsonFields& section, const nlohmann::json& value, const std::string& key)
      : JsonFields(section.file_, value, section.place_ + "/" + key) {}

  const nlohmann::json& value() const { return value_; }
  const std::string& place() const { return place_; }
  std::string file() const { return file_.string(); }

  // Whether there is such a field and it is not null.
  bool has(const char* key) const;
  // A section or list; throws where it is missing.
  JsonFields section(const char* key) const;
  JsonFields element(std::size_t index) const;
  std::size_t size() const;  // of a list; throws where this is none
  std::string text(const char* key) const;
  std::int64_t whole_number(const char* key) const;
  bool flag(const char* key, bool missing) const;
  // Throws unless the flag is false or missing: what it asks for is not supported.
  void refuse_flag(const char* key) const;

  // Throws Error(bad_data): "FILE: PLACE: WHAT".
  [[noreturn]] void fail(std::string_view what) const;

 private:
  const nlohmann::json& at(const char* key) const;

  const std::filesystem::path& file_;
  const nlohmann::json& value_;
  std::string place_;
};

// A JSON file. Throws Error(missing_input) or Error(bad_data).
nlohmann::json read_json_file(const std::filesystem::path& file);

}  // namespace llmtrain
