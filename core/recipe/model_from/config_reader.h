// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace llmtrain {

// Reads a config.json of transformers key by key and collects all problems, to report them together. What has a problem
// is read as its default, so that reading goes on. Keys are paths with slashes.
class ConfigReader {
 public:
  // `config` is an object, and outlives the reader; `file` is its name in messages.
  ConfigReader(const nlohmann::json& config, std::string file) : config_(config), file_(std::move(file)) {}

  // null counts as absent, as in transformers.
  const nlohmann::json* get(const std::string& key) const;
  // Whether the key is there, also with null.
  bool holds(const std::string& key) const;

  void problem(const std::string& key, const std::string& what);

  // From 1 to 2147483647. Without a default it is required.
  std::int64_t size(const std::string& key, std::optional<std::int64_t> otherwise = std::nullopt);
  double number(const std::string& key, double otherwise);
  bool boolean(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  // For switches of which only one value is supported.
  void require(const std::string& key, bool expected, bool otherwise);

  // Throws Error(bad_data) with all problems, if any.
  void finish() const;

  static std::string shown(const nlohmann::json& value);

 private:
  template <class Value>
  Value read(const std::string& key, bool (nlohmann::json::*is_kind)() const noexcept, const std::string& kind,
             const Value& otherwise);

  const nlohmann::json& config_;
  std::string file_;
  std::string problems_;
};

}  // namespace llmtrain
