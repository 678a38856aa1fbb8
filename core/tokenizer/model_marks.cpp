// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/model_marks.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/json/json_file.h"
#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// SPECIAL_TOKENS_ATTRIBUTES of transformers.
constexpr std::array<const char*, 7> token_names = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

// A token is a text, or {"content": …}; null says that there is none.
void add_tokens(const JsonFields& fields, std::map<std::string, std::string>& tokens) {
  for (const char* name : token_names) {
    if (!fields.value().contains(name)) continue;
    tokens.erase(name);
    if (!fields.has(name)) continue;
    const JsonFields token = fields.section(name);
    tokens[name] = token.value().is_object() ? token.text("content") : fields.text(name);
  }
}

std::map<std::string, std::string> special_tokens_in(const fs::path& folder) {
  std::map<std::string, std::string> tokens;
  bool is_new = false;
  // A tokenizer_config.json with "added_tokens_decoder" stands alone; before there was one, the other file counted.
  if (const fs::path file = folder / "tokenizer_config.json"; path_exists(file)) {
    const nlohmann::json config = read_json_file(file);
    const JsonFields fields(file, config, "");
    add_tokens(fields, tokens);
    is_new = config.contains("added_tokens_decoder");
  }
  if (const fs::path file = folder / "special_tokens_map.json"; !is_new && path_exists(file)) {
    const nlohmann::json map = read_json_file(file);
    add_tokens({file, map, ""}, tokens);
  }
  return tokens;
}

// Nothing where the file or its "eos_token_id" is missing.
std::vector<std::int64_t> ends_in(const fs::path& file) {
  if (!path_exists(file)) return {};
  const nlohmann::json config = read_json_file(file);
  const JsonFields fields(file, config, "");
  if (!fields.has("eos_token_id")) return {};
  const JsonFields ends = fields.section("eos_token_id");
  if (!ends.value().is_array()) return {fields.whole_number("eos_token_id")};
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends.element(i).value().is_number_unsigned()) ends.fail("is not a list of ids");
    ids.push_back(ends.element(i).value().get<std::int64_t>());
  }
  return ids;
}

std::string template_text(const fs::path& file) {
  std::string text = read_text_file(file);
  if (!is_utf8(text)) throw Error(ExitCode::bad_data, file.string() + ": is not UTF-8, and no template of Jinja");
  return text;
}

std::vector<fs::path> named_templates_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / named_templates_folder, ignored))
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  return files;
}

std::vector<NamedTemplate> templates_of_config(const fs::path& file) {
  const nlohmann::json config = read_json_file(file);
  const JsonFields fields(file, config, "");
  const JsonFields written = fields.section("chat_template");
  if (!written.value().is_array()) return {{"default", fields.text("chat_template")}};
  std::vector<NamedTemplate> templates;
  for (std::size_t i = 0; i < written.size(); ++i)
    templates.push_back({written.element(i).text("name"), written.element(i).text("template")});
  return templates;
}

}  // namespace

ModelMarks read_model_marks(const fs::path& folder) {
  const fs::path generation = folder / "generation_config.json";
  ModelMarks marks{special_tokens_in(folder), ends_in(generation), read_generation_defaults(generation)};
  const fs::path config = folder / "config.json";
  if (marks.ends.empty()) marks.ends = ends_in(config);
  if (!marks.generation.decoder_start) marks.generation.decoder_start = read_generation_defaults(config).decoder_start;
  return marks;
}

std::vector<NamedTemplate> read_chat_templates(const fs::path& file) {
  if (file.extension() == ".json") return templates_of_config(file);
  std::vector<NamedTemplate> templates = {{"default", template_text(file)}};
  if (file.filename() != "chat_template.jinja") return templates;
  for (const fs::path& named : named_templates_in(file.parent_path()))
    templates.push_back({named.stem().string(), template_text(named)});
  return templates;
}

void copy_named_templates(const fs::path& from, const fs::path& to) {
  for (const fs::path& named : named_templates_in(from)) {
    create_folder(to / named_templates_folder);
    write_file_atomically(to / named_templates_folder / named.filename(), read_file(named));
  }
}

}  // namespace llmtrain
