// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/tokenizer/generation_defaults.h"

namespace llmtrain {

// What a folder of transformers says of a model besides its weights and its vocabulary.
struct ModelMarks {
  // What chat templates know by these names: "bos_token", "eos_token", "pad_token" and the like, as transformers'
  // special_tokens_map has them.
  std::map<std::string, std::string> special_tokens;
  // Ids of which each ends a text that is generated: of generation_config.json, else of config.json.
  std::vector<std::int64_t> ends;
  GenerationDefaults generation;
};

// Files that the folder lacks say nothing. Throws Error(bad_data) that names the file and the place.
ModelMarks read_model_marks(const std::filesystem::path& folder);

struct NamedTemplate {
  std::string name;  // "default" for one that has no name
  std::string source;

  bool operator==(const NamedTemplate&) const = default;
};

// The folder beside a chat_template.jinja with templates that have names: NAME.jinja.
inline constexpr const char* named_templates_folder = "additional_chat_templates";

// The chat templates in a file of Jinja, together with those that have names where it is a chat_template.jinja, or in a
// tokenizer_config.json, as a text or as a list of them with names. Throws Error(missing_input) and Error(bad_data).
std::vector<NamedTemplate> read_chat_templates(const std::filesystem::path& file);

// Copies the folder of templates with names, where `from` has one. Throws Error(cannot_write).
void copy_named_templates(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace llmtrain
