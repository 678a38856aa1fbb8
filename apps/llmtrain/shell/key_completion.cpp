// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/key_completion.h"

#include <nlohmann/json.hpp>

#include "apps/llmtrain/profiles.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/named_file.h"

namespace llmtrain::app {
namespace {

using Schema = nlohmann::ordered_json;

// Calls visit(path, schema) for each key that is not a section; the first entry stands for those of a list.
template <class Visit>
void for_each_key(const Schema& schema, const std::string& path, const Visit& visit) {
  const std::string below = path.empty() ? "" : path + ".";
  if (schema.contains("properties")) {
    for (const auto& [name, child] : schema["properties"].items()) for_each_key(child, below + name, visit);
  } else if (schema.contains("items")) {
    for_each_key(schema["items"], below + "0", visit);
  } else {
    // A word, or an object with keys of its own: both can be set.
    visit(path, schema);
    for (const Schema& choice : schema.value("oneOf", Schema::array()))
      if (choice.contains("properties")) for_each_key(choice, path, visit);
  }
}

void add_values(Completions& completions, const std::string& path, const Schema& schema) {
  const auto add = [&](const std::string& value) { completions.words.push_back({path + "=" + value, ""}); };
  for (const Schema& word : schema.value("enum", Schema::array()))
    add(word.is_string() ? std::string(word) : word.dump());
  if (schema.contains("const") && schema["const"].is_string()) add(schema["const"]);
  if (schema.value("type", Schema()) == "boolean") {
    add("true");
    add("false");
  }
  for (const Schema& choice : schema.value("oneOf", Schema::array())) add_values(completions, path, choice);
}

}  // namespace

Completions complete_setting(const std::string& written) {
  Completions completions;
  const auto equals = written.find('=');
  for_each_key(recipe_schema(), "", [&](const std::string& path, const Schema& schema) {
    if (equals == std::string::npos) {
      completions.words.push_back({path + "=", schema.value("description", "")});
    } else if (path == written.substr(0, equals)) {
      add_values(completions, path, schema);
      if (path == "cluster.profile")
        for (const std::string& name : names_in(profiles_folder()))
          completions.words.push_back({path + "=" + name, ""});
      if (path == "cluster.program")
        for (const std::string& name : names_in(programs_folder()))
          completions.words.push_back({path + "=" + name, ""});
      if (path.ends_with(".path")) completions.files = CompletedFiles::files;
    }
  });
  return completions;
}

}  // namespace llmtrain::app
