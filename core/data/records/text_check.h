// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace llmtrain {

// Throws Error(bad_data) where a file that begins with these bytes is no text: by what other formats begin with, a NUL
// byte among the first 8 KiB (the sign that grep and git use), or bytes that are not UTF-8 beside control characters
// that no text has. Text in an encoding of a byte a character passes.
void require_text(const std::filesystem::path& file, std::string_view beginning);

}  // namespace llmtrain
