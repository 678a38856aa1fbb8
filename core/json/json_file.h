// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace llmtrain {

// Strict JSON from an untrusted file: RFC 8259, no key twice in an object, at most 64 levels, at most most_json_memory
// (core/json/json_memory.h). Throws Error(bad_data) that names `file`. Json decides whether objects keep the order of
// their keys.
template <typename Json>
Json parse_json(std::string_view text, const std::string& file);

extern template nlohmann::json parse_json<nlohmann::json>(std::string_view, const std::string&);
extern template nlohmann::ordered_json parse_json<nlohmann::ordered_json>(std::string_view, const std::string&);

// The text of a file of at most 100 MB. Throws Error(missing_input), Error(bad_data).
std::string read_text_file(const std::filesystem::path& file);

// An untrusted text as it may appear in a message: in quotation marks, control characters escaped, truncated when long.
std::string quoted_text(std::string_view text);

}  // namespace llmtrain
