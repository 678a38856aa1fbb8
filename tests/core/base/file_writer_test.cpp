// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <utility>

#include "core/base/append_file.h"
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
  const test::TemporaryDirectory directory;
  const auto file = directory.write("file", "earlier");
  // Files of 64 KiB are as full as a disk.
  rlimit former{};
  ::getrlimit(RLIMIT_FSIZE, &former);
  const rlimit small{64 << 10, former.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of(file);
  ::setrlimit(RLIMIT_FSIZE, &former);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(message, Catch::Contains("file: cannot be written: File too large"));
  CHECK(read_file(file) == "earlier");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "file.tmp"));
}

TEST_CASE("A file appears whole under its name") {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("file", "earlier");
  FileWriter writer(file);
  writer.write("later", 5);
  CHECK(read_file(file) == "earlier");
  writer.close();
  CHECK(read_file(file) == "later");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "file.tmp"));
}

TEST_CASE("What lies where a file is written aside is replaced, and where a link leads left alone") {
  const test::TemporaryDirectory directory;
  const auto other = directory.write("other", "of somebody else");
  const auto file = directory.path() / "file", aside = directory.path() / "file.tmp";
  const auto plant = GENERATE(0, 1, 2, 3);
  if (plant == 0) std::filesystem::create_symlink(other, aside);
  if (plant == 1) std::filesystem::create_symlink("missing", aside);
  if (plant == 2) std::filesystem::create_hard_link(other, aside);
  if (plant == 3) ::mkfifo(aside.c_str(), 0600);
  write_file_atomically(file, "text");
  CHECK(read_file(file) == "text");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
  CHECK(read_file(other) == "of somebody else");
  CHECK_FALSE(entry_exists(directory.path() / "missing"));
  CHECK_FALSE(entry_exists(aside));
}

TEST_CASE("A link of the file's own name is replaced itself") {
  const test::TemporaryDirectory directory;
  const auto other = directory.write("other", "of somebody else"), file = directory.path() / "file";
  std::filesystem::create_symlink(other, file);
  write_file_atomically(file, "text");
  CHECK(read_file(other) == "of somebody else");
  CHECK(read_file(file) == "text");
}

TEST_CASE("Devices, pipes and open files are not replaced") {
  const test::TemporaryDirectory directory;
  const auto pipe = directory.path() / "pipe", link = directory.path() / "link", open = directory.path() / "open";
  ::mkfifo(pipe.c_str(), 0600);
  std::filesystem::create_symlink("/dev/null", link);
  std::filesystem::create_symlink("/proc/self/fd/1", open);
  for (const auto& file : {pipe, link, open}) {
    CHECK_THROWS_WITH(write_file_atomically(file, "text"), file.string() + ": is not a regular file; name another one");
    CHECK(entry_exists(file));
  }
}

TEST_CASE("A file that is appended to is no link, pipe or folder") {
  const test::TemporaryDirectory directory;
  const auto other = directory.write("other", "of somebody else\n");
  const auto link = directory.path() / "link", lost = directory.path() / "lost", pipe = directory.path() / "pipe";
  std::filesystem::create_symlink(other, link);
  std::filesystem::create_symlink("missing", lost);
  ::mkfifo(pipe.c_str(), 0600);
  for (const auto& file : {link, lost})
    CHECK_THROWS_WITH(AppendFile(file), file.string() + ": is a link, which is not followed; remove it");
  CHECK_THROWS_WITH(AppendFile(pipe), pipe.string() + ": is not a regular file; remove it");
  CHECK_THROWS_WITH(AppendFile(directory.path()), Catch::Contains("cannot be created: Is a directory"));
  CHECK(read_file(other) == "of somebody else\n");
  CHECK_FALSE(entry_exists(directory.path() / "missing"));
}

TEST_CASE("A line that a process has left without its end is ended before the next one") {
  const test::TemporaryDirectory directory;
  for (const auto& [before, after] :
       {std::pair<const char*, const char*>{"", "next\n"}, {"one\n", "one\nnext\n"}, {"one\ntw", "one\ntw\nnext\n"}}) {
    const auto file = directory.write("file", before);
    AppendFile lines(file);
    lines.end_line();
    lines.append("next\n");
    CHECK(read_file(file) == after);
  }
}

}  // namespace
}  // namespace llmtrain
