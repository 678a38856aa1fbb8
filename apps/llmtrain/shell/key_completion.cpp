// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/key_completion.h"

#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/schema_keys.h"
#include "parallel/plan/profile/named_file.h"

namespace llmtrain::app {

Completions complete_setting(const std::string& written) {
  Completions completions;
  const auto equals = written.find('=');
  for (const SchemaKey& key : schema_keys()) {
    const auto add = [&](const std::string& value) { completions.words.push_back({key.path + "=" + value, ""}); };
    if (equals == std::string::npos) {
      completions.words.push_back({key.path + "=", key.description});
    } else if (key.path == written.substr(0, equals)) {
      for (const std::string& word : key.words) add(word);
      if (key.path == "cluster.profile")
        for (const std::string& name : names_in(profiles_folder())) add(name);
      if (key.path == "cluster.program")
        for (const std::string& name : names_in(programs_folder())) add(name);
      if (key.path.ends_with(".path")) completions.files = CompletedFiles::files;
    }
  }
  return completions;
}

}  // namespace llmtrain::app
