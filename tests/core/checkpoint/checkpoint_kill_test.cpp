// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "tests/core/checkpoint/checkpoint_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::SampleCheckpoint;
using test::TemporaryDirectory;

void reset(const fs::path& from, const fs::path& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
}

// Kills `write` before each of its system calls in turn, each time on a fresh copy of `before`; `check` inspects what
// is left. Returns the number of calls.
int sweep(const fs::path& before, const fs::path& work, const std::function<void()>& write,
          const std::function<void()>& check) {
  for (int call = 0;; ++call) {
    reset(before, work);
    const bool killed = test::killed_at_system_call(call, write);
    INFO("killed in front of system call " << call);
    check();
    if (!killed) return call;
  }
}

TEST_CASE("killed at any point of a write, a whole checkpoint is found and the next write succeeds",
          "[one-thread][rights]") {
  if (!test::tracing_is_allowed()) return;
  const TemporaryDirectory folder;
  SampleCheckpoint older(1);
  SampleCheckpoint newer(2);
  older.write(folder.path() / "before", 1);
  const fs::path work = folder.path() / "work";
  bool was_older = false;
  bool was_newer = false;
  const auto check = [&] {
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(work, skipped);
    REQUIRE(found);
    const bool is_newer = found == work / "step-00000002";
    REQUIRE((is_newer ? newer : older).is_in(*found));
    (is_newer ? was_newer : was_older) = true;
    newer.write(work, 2, 1);
    REQUIRE(newer.is_in(work / "step-00000002"));
    REQUIRE(std::distance(fs::directory_iterator(work), {}) == 2);
  };
  const int calls = sweep(
      folder.path() / "before", work, [&] { newer.write(work, 2, 1); }, check);
  CHECK(calls > 20);
  CHECK(was_older);
  CHECK(was_newer);
}

TEST_CASE("killed at any point of writing a step again, the earlier or the later one is whole",
          "[one-thread][rights]") {
  if (!test::tracing_is_allowed()) return;
  const TemporaryDirectory folder;
  SampleCheckpoint earlier(1);
  SampleCheckpoint later(2);
  earlier.write(folder.path() / "before", 1);
  const fs::path work = folder.path() / "work";
  const auto check = [&] {
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(work, skipped);
    REQUIRE(skipped.empty());
    REQUIRE(found);
    REQUIRE((earlier.is_in(*found) || later.is_in(*found)));
  };
  sweep(
      folder.path() / "before", work, [&] { later.write(work, 1); }, check);
  CHECK(later.is_in(work / "step-00000001"));
}

TEST_CASE("killed at any point of the exchange in two steps, a checkpoint is found", "[one-thread][rights]") {
  if (!test::tracing_is_allowed()) return;
  const TemporaryDirectory folder;
  SampleCheckpoint earlier(1);
  SampleCheckpoint later(2);
  earlier.write(folder.path() / "before", 1);
  fs::rename(later.write(folder.path() / "other", 1), folder.path() / "before" / "step-00000001.tmp-1");
  const fs::path work = folder.path() / "work";
  const auto check = [&] {
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(work, skipped);
    REQUIRE(found);
    REQUIRE((earlier.is_in(*found) || later.is_in(*found)));
    clear_leftovers(work);
    REQUIRE(test::find_checkpoint(work, skipped) == work / "step-00000001");
    REQUIRE(std::distance(fs::directory_iterator(work), {}) == 2);
  };
  const auto write = [&] { put_checkpoint_in_two_steps(work / "step-00000001.tmp-1", work / "step-00000001"); };
  sweep(folder.path() / "before", work, write, check);
  CHECK(later.is_in(work / "step-00000001"));
}

void limit_file_size(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("the file size cannot be limited");
}

// What is wrong after a write of step 2 that should have failed; empty if nothing is.
std::string complaint_of_failed_write(const fs::path& checkpoints, const std::string& reason) {
  SampleCheckpoint newer(2);
  try {
    newer.write(checkpoints, 2);
    return "step 2 was written";
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.code() != ExitCode::cannot_write) return "another exit code: " + message;
    for (const std::string& part : {reason, checkpoints.string(), std::string("takes about"), std::string("are free")})
      if (message.find(part) == std::string::npos)
        return std::string("the message lacks ").append(part).append(": ").append(message);
  }
  for (const auto& entry : fs::directory_iterator(checkpoints))
    if (entry.path().filename() != "latest" && entry.path().filename() != "step-00000001")
      return "it left " + entry.path().string();
  std::vector<std::string> skipped;
  const auto found = test::find_checkpoint(checkpoints, skipped);
  return found == checkpoints / "step-00000001" && skipped.empty() ? "" : "step 1 is not whole any more";
}

TEST_CASE("a write that the system truncates at any byte leaves the earlier checkpoint and nothing else",
          "[one-thread]") {
  const TemporaryDirectory folder;
  SampleCheckpoint older(1);
  const fs::path written = older.write(folder.path(), 1);
  const auto manifest = fs::file_size(written / "manifest.json");
  for (rlim_t bytes = 0; bytes < manifest; bytes += 1 + bytes / 16) {
    INFO("files of at most " << bytes << " bytes");
    const std::string complaint = test::in_child([&]() -> std::string {
      std::signal(SIGXFSZ, SIG_IGN);
      limit_file_size(bytes);
      return complaint_of_failed_write(folder.path(), std::strerror(EFBIG));
    });
    INFO(complaint);
    CHECK(complaint.empty());
  }
}

TEST_CASE("a process that dies at any byte of a write leaves a complete checkpoint", "[one-thread]") {
  const TemporaryDirectory folder;
  SampleCheckpoint older(1);
  const fs::path written = older.write(folder.path(), 1);
  const auto manifest = fs::file_size(written / "manifest.json");
  for (rlim_t bytes = 0; bytes < manifest; bytes += 1 + bytes / 16) {
    INFO("dies at byte " << bytes);
    REQUIRE(test::in_child([&]() -> std::string {
              limit_file_size(bytes);
              SampleCheckpoint(2).write(folder.path(), 2);
              return "";
            }) == "killed by signal " + std::to_string(SIGXFSZ));
    std::vector<std::string> skipped;
    REQUIRE(test::find_checkpoint(folder.path(), skipped) == written);
    REQUIRE(skipped.empty());
  }
}

TEST_CASE("a full disk is an error with the numbers, and leaves the earlier checkpoint", "[rights]") {
  const TemporaryDirectory folder;
  const std::string result = test::in_child([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
      return "no right to mount";
    const fs::path checkpoints = folder.path() / "checkpoints";
    const fs::path filler = folder.path() / "filler";
    SampleCheckpoint(1).write(checkpoints, 1);
    std::ofstream stream(filler, std::ios::binary);
    while (stream.write(std::string(4096, 'x').data(), 4096).flush()) {
    }
    stream.close();
    fs::resize_file(filler, fs::file_size(filler) - 8192);  // two free pages: too few for three files
    return complaint_of_failed_write(checkpoints, std::strerror(ENOSPC));
  });
  INFO(result);
  if (result == "no right to mount")
    WARN("skipped: a full disk may not be mounted here");
  else
    CHECK(result.empty());
}

TEST_CASE("a location that cannot be written is an error that names it") {
  const TemporaryDirectory folder;
  const auto file = folder.write("checkpoints", "a file");
  try {
    SampleCheckpoint(1).write(file, 1);
    FAIL("it was written");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    CHECK_THAT(error.what(), Catch::Contains(file.string()));
  }
  CHECK(read_file(file) == "a file");
}

}  // namespace
}  // namespace llmtrain
