// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// What readers of foreign files do with any bytes: they accept them, or throw Error(bad_data). Anything else ends the
// process, as does an accepted file that is not what its reader promises. Called by libFuzzer (libfuzzer_target.cpp,
// scripts/fuzz), and for the files of tests/fuzz/corpus by a unit test.
namespace llmtrain::fuzz {

void safetensors(std::string_view bytes);
void manifest(std::string_view bytes);
void token_index(std::string_view bytes);

}  // namespace llmtrain::fuzz
