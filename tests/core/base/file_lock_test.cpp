// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "tests/support/temporary_directory.h"

namespace llmtrain {

TEST_CASE("many hold a shared lock on a file at once, or one an exclusive one, until its descriptors are closed") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "file";
  OpenFile first = open_file(path, O_RDWR | O_CREAT);
  const OpenFile second = open_file(path, O_RDONLY), folder = open_file(directory.path(), O_RDONLY);
  REQUIRE((first && second && folder));
  CHECK(try_lock(*first, FileLock::shared) == FileLocking::held);
  CHECK(try_lock(*second, FileLock::shared) == FileLocking::held);
  CHECK(try_lock(*second, FileLock::exclusive) == FileLocking::taken);
  OpenFile copy = first;
  first.reset();
  CHECK(try_lock(*second, FileLock::exclusive) == FileLocking::taken);
  copy.reset();
  CHECK(try_lock(*second, FileLock::exclusive) == FileLocking::held);
  CHECK(try_lock(*folder, FileLock::exclusive) == FileLocking::held);
}

TEST_CASE("a file that cannot be opened is none, and what is no file has no locks") {
  const test::TemporaryDirectory directory;
  CHECK_FALSE(open_file(directory.path() / "none", O_RDONLY));
  CHECK(errno == ENOENT);
  CHECK(try_lock(-1, FileLock::shared) == FileLocking::without);
}

}  // namespace llmtrain
