// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "tests/fuzz/fuzz_inputs.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

// Feeds every file of a folder of tests/fuzz/corpus; a failure ends the process and names what failed.
void feed(const std::string& folder, void (*input)(std::string_view)) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "tests/fuzz/corpus" / folder)) {
    INFO(entry.path().string());
    const std::string bytes = read_file(entry.path());
    CHECK_NOTHROW(input(bytes));
    // And what is left of each when it is cut.
    for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 16)
      CHECK_NOTHROW(input(std::string_view(bytes).substr(0, size)));
    ++count;
  }
  CHECK(count > 5);
}

TEST_CASE("safetensors files of the corpus are accepted or refused") { feed("safetensors", fuzz::safetensors); }
TEST_CASE("manifests of the corpus are accepted or refused") { feed("manifest", fuzz::manifest); }
TEST_CASE("indices of the corpus are accepted or refused") { feed("token_index", fuzz::token_index); }

}  // namespace
}  // namespace llmtrain
