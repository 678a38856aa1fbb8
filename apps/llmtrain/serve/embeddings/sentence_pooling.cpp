// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/embeddings/sentence_pooling.h"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_file.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;
using JsonValue = nlohmann::json;

struct PoolingWord {
  const char* key;   // true where texts are pooled so; files since sentence-transformers 5.4 have the word instead
  const char* word;  // of `pooling_mode`
  std::optional<TextPooling> pooling;
};

constexpr PoolingWord pooling_words[] = {
    {"pooling_mode_cls_token", "cls", TextPooling::first},
    {"pooling_mode_mean_tokens", "mean", TextPooling::mean},
    {"pooling_mode_lasttoken", "lasttoken", TextPooling::last},
    {"pooling_mode_max_tokens", "max", {}},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
    {"pooling_mode_weightedmean_tokens", "weightedmean", {}},
};

// "Pooling" of "sentence_transformers.models.Pooling": releases differ in what is before it.
std::string class_of(const JsonValue& module, const fs::path& file) {
  if (!module.is_object() || !module.contains("type") || !module["type"].is_string())
    throw Error(ExitCode::bad_data, file.string() + ": /type: is missing of a module; a class is needed");
  const auto type = module["type"].get<std::string>();
  return type.substr(type.rfind('.') + 1);
}

// A folder within the model's, and nothing above it.
fs::path path_of(const JsonValue& module, const fs::path& file) {
  const JsonValue path = module.value("path", JsonValue());
  const fs::path name = path.is_string() ? path.get<std::string>() : "";
  if (name.empty() || name.has_parent_path() || name == "..")
    throw Error(ExitCode::bad_data,
                fmt::format("{}: /path: is {} of the module that pools; the name of a folder beside "
                            "the file is needed, as in \"1_Pooling\"",
                            file.string(), path.is_string() ? quoted_text(name.string()) : "none"));
  return name;
}

// The words of all that the file asks for: what each makes is put one behind the other there. None asks for the mean.
std::vector<std::string> words_in(const JsonValue& config) {
  if (const auto mode = config.find("pooling_mode"); mode != config.end()) {
    std::vector<std::string> words;
    for (const JsonValue& word : mode->is_array() ? *mode : JsonValue::array({*mode}))
      words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
    return words;
  }
  std::vector<std::string> words;
  for (const PoolingWord& known : pooling_words)
    if (config.value(known.key, JsonValue()) == JsonValue(true)) words.emplace_back(known.word);
  return words.empty() ? std::vector<std::string>{"mean"} : words;
}

std::optional<TextPooling> pooling_named(const std::string& word) {
  for (const PoolingWord& known : pooling_words)
    if (word == known.word) return known.pooling;
  return {};
}

}  // namespace

std::optional<fs::path> pooling_config_in(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  if (!path_exists(file)) return {};
  const auto modules = parse_json<JsonValue>(read_text_file(file), file.string());
  std::optional<fs::path> config;
  for (const JsonValue& module : modules) {
    const std::string name = class_of(module, file);
    if (name == "Pooling")
      config = folder / path_of(module, file) / "config.json";
    else if (name != "Transformer" && name != "Normalize")
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: has the module {}, which this version does not run: vectors would be others than "
                              "sentence-transformers'; Transformer, Pooling and Normalize are known",
                              file.string(), quoted_text(name)));
  }
  return config;
}

TextPooling read_pooling(const fs::path& file) {
  const auto config = parse_json<JsonValue>(read_text_file(file), file.string());
  if (!config.is_object()) throw Error(ExitCode::bad_data, file.string() + ": is not a JSON object");
  const std::vector<std::string> words = words_in(config);
  const std::optional<TextPooling> pooling = words.size() == 1 ? pooling_named(words.front()) : std::nullopt;
  if (pooling) return *pooling;
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " and ") + quoted_text(word);
  throw Error(ExitCode::bad_data, fmt::format("{}: pools texts by {}; one of \"mean\", \"cls\" and \"lasttoken\" is "
                                              "supported, and --pooling says another one in place of the file's",
                                              file.string(), all));
}

}  // namespace llmtrain::app
