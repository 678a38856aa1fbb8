// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/text_check.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {

using namespace std::string_literals;

TEST_CASE("What is no text is refused by what it is, with any tokenizer") {
  const TemporaryDirectory folder;
  std::mt19937 random(3);
  std::string bytes(200, '\0');
  for (char& byte : bytes) byte = static_cast<char>(1 + random() % 255);  // none is NUL
  const auto refused = [&](const std::string& name, const std::string& content, const std::string& what) {
    const auto file = folder.write(name, content + std::string(64, ' '));
    require_error(ExitCode::bad_data, {name + ": is " + what, "not read as text"},
                  [&] { open(file.string(), {.sequence_length = 4, .vocab_size = 256}); });
  };
  refused("a.npy", "\x93NUMPY\x01\x00v\x00{'descr': '<u2'}"s, "a NumPy array");
  refused("a.png", "\x89PNG\r\n\x1a\n"s, "a PNG image");
  refused("a.pdf", "%PDF-1.7\n", "a PDF document");
  refused("a.txt", "\x1f\x8b\x08\x00"s, "compressed by gzip");
  refused("b.txt", "\xff\xfeh\0i\0"s, "text in UTF-16");
  refused("a.dat", "text with a \0 byte"s, "a binary file");
  refused("random", bytes, "a binary file");
}

TEST_CASE("Text in any encoding of a byte a character passes, and a character that is cut") {
  CHECK_NOTHROW(require_text("a", ""));
  CHECK_NOTHROW(require_text("a", "\xe9t\xe9\r\n\tl'\xe9t\xe9\f"));
  CHECK_NOTHROW(require_text("a", std::string(8191, 'x') + "\xc3\xa9"));
  CHECK_NOTHROW(require_text("a", "\x1b[31mred\x01"));  // UTF-8, though with a control character
}

}  // namespace llmtrain::test
