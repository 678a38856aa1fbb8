// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/document_marks.h"

#include <algorithm>

#include "core/base/file.h"

namespace llmtrain {
namespace {

// {"<s>": {"ids": [1], …}}, for the name that a template uses.
void append_ids(const JsonFields& special_tokens, const std::string& name, std::vector<TokenId>& ids) {
  const JsonFields list = special_tokens.section(name.c_str()).section("ids");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list.element(i).value().is_number_integer()) list.fail("is not a list of ids");
    ids.push_back(list.element(i).value().get<TokenId>());
  }
}

void add_template(const JsonFields& section, DocumentMarks& marks) {
  const JsonFields pieces = section.section("single");
  bool is_after = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces.element(i).has("Sequence")) {
      is_after = true;
    } else {
      const std::string name = pieces.element(i).section("SpecialToken").text("id");
      append_ids(section.section("special_tokens"), name, is_after ? marks.end : marks.begin);
    }
  }
}

void add_marks(const JsonFields& section, DocumentMarks& marks) {
  const std::string kind = section.text("type");
  if (kind == "Sequence") {
    const JsonFields processors = section.section("processors");
    for (std::size_t i = 0; i < processors.size(); ++i) add_marks(processors.element(i), marks);
  } else if (kind == "TemplateProcessing") {
    add_template(section, marks);
  } else if (kind != "ByteLevel") {  // which changes offsets alone
    section.fail("\"" + kind +
                 "\" is not supported; supported are ByteLevel, TemplateProcessing and a Sequence of them");
  }
}

// A string, or {"content": …} in older files; empty where there is none.
std::string configured_end(const std::filesystem::path& file) {
  const auto path = config_beside(file);
  if (!path_exists(path)) return "";
  const nlohmann::json config = read_json_file(path);
  const JsonFields fields(path, config, "");
  if (!fields.has("eos_token")) return "";
  const JsonFields token = fields.section("eos_token");
  return token.value().is_object() ? token.text("content") : fields.text("eos_token");
}

}  // namespace

std::filesystem::path config_beside(const std::filesystem::path& file) {
  return file.parent_path() / "tokenizer_config.json";
}

DocumentMarks document_marks(const std::filesystem::path& file, const JsonFields& root,
                             const std::vector<AddedToken>& added) {
  DocumentMarks marks;
  if (root.has("post_processor")) add_marks(root.section("post_processor"), marks);
  if (!marks.end.empty()) return marks;
  const std::string configured = configured_end(file);
  std::vector<std::string> names = {"<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>"};
  if (!configured.empty()) names = {configured};
  for (const std::string& name : names) {
    const auto token = std::ranges::find(added, name, &AddedToken::text);
    if (token == added.end()) continue;
    marks.end = {token->id};
    return marks;
  }
  if (!configured.empty())
    root.section("added_tokens").fail("has no \"" + configured + "\", the eos_token of tokenizer_config.json");
  return marks;
}

}  // namespace llmtrain
