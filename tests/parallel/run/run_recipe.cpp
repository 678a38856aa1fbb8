// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/run/run_recipe.h"

#include "core/base/error.h"

namespace llmtrain::test {

Recipe run_recipe(const std::filesystem::path& directory, std::vector<Override> overrides) {
  constexpr std::string_view text = R"({
    "model": {"architecture": "gpt2", "layers": 4, "hidden_size": 32, "heads": 2, "vocab_size": 256,
              "max_sequence_length": 16},
    "data": {"train": [{"path": "text.txt"}]},
    "batch": {"global": 8, "micro": 4},
    "training": {"steps": 10}
  })";
  overrides.push_back("log.directory=\"" + directory.string() + "\"");
  return parse_recipe(text, "test.json", "/data", overrides);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "no error";
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
}

}  // namespace llmtrain::test
