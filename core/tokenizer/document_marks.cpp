// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/document_marks.h"

#include <algorithm>

#include "core/base/file.h"

namespace llmtrain {
namespace {

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

bool splits_special_tokens(const std::filesystem::path& file) {
  const auto path = config_beside(file);
  if (!path_exists(path)) return false;
  const nlohmann::json config = read_json_file(path);
  return JsonFields(path, config, "").flag("split_special_tokens", false);
}

DocumentMarks document_marks(const std::filesystem::path& file, const JsonFields& root, const TextTemplates& templates,
                             const std::vector<AddedToken>& added) {
  DocumentMarks marks;
  bool is_after = false;
  for (const TemplatePiece& piece : templates.single) {
    if (piece.kind != TemplatePiece::Kind::marks) is_after = true;
    std::vector<TokenId>& side = is_after ? marks.end : marks.begin;
    side.insert(side.end(), piece.marks.begin(), piece.marks.end());
  }
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
