// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/schema_keys.h"

#include <nlohmann/json.hpp>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {
namespace {

using Schema = nlohmann::ordered_json;

void add_words(const Schema& schema, std::vector<std::string>& words) {
  for (const Schema& word : schema.value("enum", Schema::array()))
    words.push_back(word.is_string() ? std::string(word) : word.dump());
  if (schema.contains("const") && schema["const"].is_string()) words.push_back(schema["const"]);
  if (schema.value("type", Schema()) == "boolean") words.insert(words.end(), {"true", "false"});
  for (const Schema& choice : schema.value("oneOf", Schema::array())) add_words(choice, words);
}

void add_keys(const Schema& schema, const std::string& path, std::vector<SchemaKey>& keys) {
  const std::string below = path.empty() ? "" : path + ".";
  if (schema.contains("properties")) {
    for (const auto& [name, child] : schema["properties"].items()) add_keys(child, below + name, keys);
  } else if (schema.contains("items") && schema["items"].contains("properties")) {
    add_keys(schema["items"], below + "0", keys);
  } else {
    // A word, or an object with keys of its own: both can be set.
    SchemaKey key{path, schema.value("description", ""), {}, !schema.contains("default")};
    add_words(schema, key.words);
    keys.push_back(std::move(key));
    for (const Schema& choice : schema.value("oneOf", Schema::array()))
      if (choice.contains("properties")) add_keys(choice, path, keys);
  }
}

}  // namespace

std::vector<SchemaKey> schema_keys() {
  std::vector<SchemaKey> keys;
  add_keys(recipe_schema(), "", keys);
  return keys;
}

}  // namespace llmtrain::app
