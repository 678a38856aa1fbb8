// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

template <typename Action>
ExitCode failure_of(const Action& action, const std::string& names) {
  try {
    action();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find(names) != std::string::npos);
    return error.code();
  }
  return ExitCode::done;
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_CASE("A file is read completely, including zero bytes") {
  const test::TemporaryDirectory directory;
  const std::string text = GENERATE(std::string(), std::string("one line\n"), std::string("a\0b\xff", 4));
  CHECK(read_file(directory.write("file", text)) == text);
}

TEST_CASE("Reading a file that does not exist is a missing input") {
  const test::TemporaryDirectory directory;
  const auto absent = directory.path() / "absent.txt";
  CHECK(failure_of([&] { read_file(absent); }, "absent.txt") == ExitCode::missing_input);
  CHECK(failure_of([&] { MappedFile mapped(absent); }, "absent.txt") == ExitCode::missing_input);
}

TEST_CASE("A path through a file is a missing input") {
  const test::TemporaryDirectory directory;
  const auto below = directory.write("file", "text") / "below";
  CHECK(failure_of([&] { read_file(below); }, "below") == ExitCode::missing_input);
}

TEST_CASE("Reading a folder is bad data") {
  const test::TemporaryDirectory directory;
  CHECK(failure_of([&] { read_file(directory.path()); }, "not a regular file") == ExitCode::bad_data);
  CHECK(failure_of([&] { MappedFile mapped(directory.path()); }, "not a regular file") == ExitCode::bad_data);
}

TEST_CASE("A mapped file shows the file's bytes") {
  const test::TemporaryDirectory directory;
  const MappedFile mapped(directory.write("file", "bytes"));
  REQUIRE(mapped.bytes().size() == 5);
  CHECK(std::memcmp(mapped.bytes().data(), "bytes", 5) == 0);
}

TEST_CASE("An empty file maps to no bytes") {
  const test::TemporaryDirectory directory;
  CHECK(MappedFile(directory.write("empty", "")).bytes().empty());
}

TEST_CASE("A moved mapping keeps its bytes and leaves the source empty") {
  const test::TemporaryDirectory directory;
  MappedFile first(directory.write("file", "bytes"));
  const auto* address = first.bytes().data();
  const MappedFile second(std::move(first));
  CHECK(second.bytes().data() == address);
  CHECK(second.bytes().size() == 5);
  CHECK(first.bytes().empty());  // NOLINT(bugprone-use-after-move): what the header promises
}

TEST_CASE("An atomic write creates the file and then replaces it") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "file";
  write_file_atomically(file, "first text");
  CHECK(read_file(file) == "first text");
  write_file_atomically(file, "second");
  CHECK(read_file(file) == "second");
  CHECK(entries(directory.path()) == 1);
}

TEST_CASE("An atomic write into a folder that does not exist fails") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "absent" / "file";
  CHECK(failure_of([&] { write_file_atomically(file, "text"); }, "file") == ExitCode::cannot_write);
  CHECK(entries(directory.path()) == 0);
}

TEST_CASE("An atomic write over a folder fails and leaves nothing behind") {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "file");
  CHECK(failure_of([&] { write_file_atomically(directory.path() / "file", "text"); }, "cannot be replaced") ==
        ExitCode::cannot_write);
  CHECK(entries(directory.path()) == 1);
}

// A file size limit simulates a full disk: write() fails in the middle.
TEST_CASE("A write that runs out of space keeps the old text and leaves nothing behind") {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("file", "old text");
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto code = failure_of([&] { write_file_atomically(file, std::string(5000, 'x')); }, "cannot be written");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(code == ExitCode::cannot_write);
  CHECK(read_file(file) == "old text");
  CHECK(entries(directory.path()) == 1);
}

TEST_CASE("A reader concurrent with a writer sees the old text or the new one") {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "file";
  const std::string texts[] = {std::string(100, 'a'), std::string(70'000, 'b')};
  write_file_atomically(file, texts[0]);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= 40; ++i) write_file_atomically(file, texts[i % 2]);
    done = true;
  });
  int torn = 0;
  while (!done) {
    const std::string seen = read_file(file);
    if (seen != texts[0] && seen != texts[1]) ++torn;
  }
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("A folder that does not exist cannot be flushed") {
  const test::TemporaryDirectory directory;
  CHECK(failure_of([&] { flush_directory(directory.path() / "absent"); }, "absent") == ExitCode::cannot_write);
  CHECK_NOTHROW(flush_directory(directory.path()));
  CHECK_NOTHROW(flush_directory(""));
}

}  // namespace
}  // namespace llmtrain
