// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/copy_tokenizer.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/json/json_file.h"
#include "core/recipe/model_from/model_files.h"
#include "core/tokenizer/model_marks.h"
#include "core/tokenizer/open_tokenizer.h"
#include "core/tokenizer/sentencepiece/sentencepiece_json.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_name = "tokenizer_config.json";
// Without a class transformers takes a tokenizer for the one of its model's type, with that one's pattern.
constexpr const char* any_tokenizer = "PreTrainedTokenizerFast";

void write_json(const fs::path& file, const nlohmann::ordered_json& value, int indentation) {
  write_file_atomically(file, value.dump(indentation) + "\n");
}

nlohmann::ordered_json read_ordered(const fs::path& file) {
  return parse_json<nlohmann::ordered_json>(read_text_file(file), file.string());
}

nlohmann::ordered_json config_of(const Tokenizer& tokenizer) {
  nlohmann::ordered_json config = {{"tokenizer_class", any_tokenizer}};
  const auto name = [&](const char* key, const std::vector<TokenId>& mark) {
    if (!mark.empty()) config[key] = tokenizer.decode(std::vector<std::int64_t>{mark.back()});
  };
  name("bos_token", tokenizer.marks().begin);
  name("eos_token", tokenizer.marks().end);
  return config;
}

void write_json_of_sentencepiece(const fs::path& file, const Tokenizer& tokenizer, const fs::path& folder) {
  const SentencePieceModel model = read_sentencepiece_model(read_file(file));
  if (const auto reason = reason_against_json(model)) {
    log().warn("{}: no tokenizer.json can be made of it, because {}: AutoTokenizer may make other ids of texts",
               file.string(), *reason);
    return;
  }
  if (!model.characters.empty())
    log().warn("{}: has a table of characters, which AutoTokenizer applies in another way to some accents and symbols",
               file.string());
  const auto piece = [&](std::int64_t id) { return model.pieces[static_cast<std::size_t>(id)].text; };
  const DocumentMarks& marks = tokenizer.marks();
  std::optional<std::int64_t> begin;
  if (!marks.begin.empty()) begin = marks.begin.front();
  write_json(folder / "tokenizer.json", json_of_sentencepiece(model, begin), -1);

  const fs::path written = folder / config_name;
  auto config = path_exists(written) ? read_ordered(written) : nlohmann::ordered_json::object();
  config["tokenizer_class"] = any_tokenizer;
  const auto name = [&](const char* key, const std::vector<TokenId>& mark) {
    if (!mark.empty() && !config.contains(key)) config[key] = piece(mark.front());
  };
  name("bos_token", marks.begin);
  name("eos_token", marks.end);
  if (!config.contains("unk_token")) config["unk_token"] = piece(unknown_id(model));
  config["split_special_tokens"] = !chat_template_in(folder).has_value();
  write_json(written, config, 2);
}

}  // namespace

void copy_tokenizer(const TokenizerRecipe& tokenizer, const fs::path& folder) {
  if (tokenizer.kind == TokenizerKind::bytes) return;
  const fs::path file = tokenizer.file;
  const bool is_json = tokenizer.kind == TokenizerKind::huggingface;
  write_file_atomically(folder / (is_json ? "tokenizer.json" : "tokenizer.model"), read_file(file));
  for (const char* name : {config_name, "special_tokens_map.json", "chat_template.jinja"})
    if (const auto beside = file.parent_path() / name; path_exists(beside))
      write_file_atomically(folder / name, read_file(beside));
  copy_named_templates(file.parent_path(), folder);
  if (!is_json)
    write_json_of_sentencepiece(file, *open_tokenizer(tokenizer), folder);
  else if (!path_exists(folder / config_name))
    write_json(folder / config_name, config_of(*open_tokenizer(tokenizer)), 2);
}

}  // namespace llmtrain
