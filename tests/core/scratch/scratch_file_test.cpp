// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_file.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "tests/core/scratch/aligned_bytes.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    return error.what();
  }
  return "no error";
}

TEST_CASE("a scratch file reads as zeros, then as what was written, and nobody sees it") {
  const TemporaryDirectory directory;
  const fs::path folder = directory.path() / "new" / "folder";
  const ScratchFile file(folder, 2 * unit + 1, "/key");
  CHECK(file.bytes() == 3 * unit);
  CHECK(fs::is_empty(folder));
  const AlignedBytes ones(unit, 1), read(3 * unit, 9);
  file.write(unit, ones.bytes());
  file.read(0, read.bytes());
  for (std::size_t i = 0; i < read.bytes().size(); ++i)
    REQUIRE(static_cast<std::int64_t>(read.bytes()[i]) == (static_cast<std::int64_t>(i) / unit == 1 ? 1 : 0));
}

TEST_CASE("a disk's room is asked for before it is taken") {
  const TemporaryDirectory directory;
  struct statvfs state {};
  REQUIRE(::statvfs(directory.path().c_str(), &state) == 0);
  const auto free = static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
  const std::string message =
      message_of([&] { ScratchFile(directory.path(), free + (std::int64_t{1} << 40), "/memory/offload/folder"); });
  CHECK(message.starts_with("/memory/offload/folder: " + directory.path().string() + ": "));
  CHECK(message.find("has no room: No space left on device (errno 28); ") != std::string::npos);
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("a file that was cut, and one that may not be written, say so") {
  const TemporaryDirectory directory;
  const ScratchFile file(directory.path(), 2 * unit, "/key");
  const AlignedBytes bytes(2 * unit, 1);
  CHECK(message_of([&] { file.read(unit, bytes.bytes()); }).find("cannot be read: ") != std::string::npos);
  // The system's limit on the size of files stands for a disk that refuses a write in its middle.
  struct rlimit former {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &former) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { unit, former.rlim_max };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string message = message_of([&] { file.write(0, bytes.bytes()); });
  ::setrlimit(RLIMIT_FSIZE, &former);
  std::signal(SIGXFSZ, handler);
  CHECK(message.find("cannot be written: File too large (errno 27)") != std::string::npos);
}

TEST_CASE("a folder that cannot be made is named with its key") {
  const TemporaryDirectory directory;
  directory.write("file", "text");
  const std::string message = message_of([&] { ScratchFile(directory.path() / "file" / "folder", unit, "/key"); });
  CHECK(message.starts_with("/key: "));
  CHECK(message.find("folder") != std::string::npos);
}

}  // namespace
}  // namespace llmtrain::test
