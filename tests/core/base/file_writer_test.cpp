// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

std::string message_of(const std::filesystem::path& file) {
  try {
    FileWriter writer(file);
    const std::string megabyte(1 << 20, 'x');
    writer.write(megabyte.data(), megabyte.size());
    writer.close();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    return error.what();
  }
  return "no error";
}

TEST_CASE("A writer appends its pieces in order") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "file";
  FileWriter writer(file);
  writer.write("one ", 4);
  writer.write("", 0);
  writer.write("two", 3);
  writer.close();
  CHECK(read_file(file) == "one two");
}

TEST_CASE("A closed writer leaves its file, an abandoned one none") {
  const test::TemporaryDirectory directory;
  {
    FileWriter closed(directory.path() / "closed");
    closed.close();
    FileWriter abandoned(directory.path() / "abandoned");
    abandoned.write("text", 4);
  }
  CHECK(std::filesystem::exists(directory.path() / "closed"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "abandoned"));
}

TEST_CASE("A writer replaces what an earlier file held") {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("file", "a longer text than the next");
  FileWriter writer(file);
  writer.write("short", 5);
  writer.close();
  CHECK(read_file(file) == "short");
}

TEST_CASE("A writer names the file and the reason when it cannot create it") {
  const test::TemporaryDirectory directory;
  const std::string message = message_of(directory.path() / "absent" / "file");
  CHECK(message.find("absent/file: cannot be created: No such file or directory") != std::string::npos);
}

TEST_CASE("A file that is replaced whole is named by its own name, not by that of what replaces it") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "absent" / "page.html";
  CHECK_THROWS_WITH(write_file_atomically(file, "text"),
                    file.string() + ": cannot be created: No such file or directory");
}

TEST_CASE("A full disk is reported as such") {
  if (!std::filesystem::exists("/dev/full")) {
    WARN("no /dev/full here: the full disk is not tried");
    return;
  }
  // A symbolic link, because an abandoned writer removes the name that it was opened with.
  const test::TemporaryDirectory directory;
  const auto link = directory.path() / "link";
  std::filesystem::create_symlink("/dev/full", link);
  CHECK(message_of(link).find("link: cannot be written: No space left on device") != std::string::npos);
  CHECK(std::filesystem::exists("/dev/full"));
}

}  // namespace
}  // namespace llmtrain
