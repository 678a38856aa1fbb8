// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/run/metrics_log.h"
#include "tests/parallel/run/full_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::uint32_t unmasked(std::string_view bytes) {
  return std::rotl(static_cast<std::uint32_t>(little_endian(bytes)) - 0xA282EAD8u, 15);
}

// The records of an event file; an empty text represents a record with a wrong checksum.
std::vector<std::string> records_of(const fs::path& file) {
  std::vector<std::string> records;
  const std::string text = read_file(file);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t size = little_endian(rest.substr(0, 8));
    const std::string_view data = rest.substr(12, size);
    const bool sound =
        unmasked(rest.substr(8, 4)) == crc32c(rest.substr(0, 8)) && unmasked(rest.substr(12 + size, 4)) == crc32c(data);
    records.emplace_back(sound ? data : "");
    rest.remove_prefix(16 + size);
  }
  return records;
}

fs::path only_file(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    REQUIRE(found.empty());
    found = entry.path();
  }
  return found;
}

// The part of an event after its time, which is a field of nine bytes.
std::string without_time(const std::string& event) {
  REQUIRE(event.size() > 9);
  REQUIRE(event[0] == '\x09');
  return event.substr(9);
}

TEST_CASE("crc32c gives the published values") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  // RFC 3720, appendix B.4.
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  const std::string falling(rising.rbegin(), rising.rend());
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  CHECK(crc32c(rising) == 0x46DD794E);
  CHECK(crc32c(falling) == 0x113FDB5C);
}

TEST_CASE("an event file begins with its version and the step from which older points are invalid") {
  const TemporaryDirectory folder;
  const TensorboardWriter writer(folder.path(), 300);
  const auto records = records_of(only_file(folder.path()));
  REQUIRE(records.size() == 2);
  CHECK(without_time(records[0]) == std::string("\x10\x00\x1a\x0d", 4) + "brain.Event:2");
  CHECK(without_time(records[1]) == "\x10\xac\x02\x3a\x02\x08\x01");
}

TEST_CASE("a point is an event with its step, its tags and floats") {
  const TemporaryDirectory folder;
  TensorboardWriter writer(folder.path(), 0);
  writer.write(5, {{"a", 1.0}, {"bc", -2.5}});
  const auto records = records_of(only_file(folder.path()));
  REQUIRE(records.size() == 3);
  const std::string first(
      "\x0a\x08\x0a\x01"
      "a\x15\x00\x00\x80\x3f",
      10);
  const std::string second(
      "\x0a\x09\x0a\x02"
      "bc\x15\x00\x00\x20\xc0",
      11);
  CHECK(without_time(records[2]) == "\x10\x05\x2a\x15" + first + second);
}

TEST_CASE("a step above 2^32 is kept") {
  const TemporaryDirectory folder;
  TensorboardWriter writer(folder.path(), 0);
  writer.write(std::int64_t{1} << 40, {});
  const auto records = records_of(only_file(folder.path()));
  CHECK(without_time(records.back()) == std::string("\x10\x80\x80\x80\x80\x80\x20\x2a\x00", 9));
}

TEST_CASE("events contain the wall-clock time") {
  const TemporaryDirectory folder;
  const std::chrono::duration<double> before = std::chrono::system_clock::now().time_since_epoch();
  const TensorboardWriter writer(folder.path(), 0);
  const std::chrono::duration<double> after = std::chrono::system_clock::now().time_since_epoch();
  for (const std::string& record : records_of(only_file(folder.path()))) {
    const double time = std::bit_cast<double>(little_endian(record.substr(1, 8)));
    CHECK(time >= before.count());
    CHECK(time <= after.count());
  }
}

TEST_CASE("a file name contains time, host and process, and is never reused") {
  const TemporaryDirectory folder;
  const TensorboardWriter first(folder.path(), 0), second(folder.path(), 0), third(folder.path(), 0);
  std::array<char, 256> host{};
  REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
  const std::string middle = std::string(".") + host.data() + "." + std::to_string(::getpid()) + ".";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    CHECK_THAT(name, Catch::StartsWith("events.out.tfevents.1") || Catch::StartsWith("events.out.tfevents.2"));
    CHECK_THAT(name, Catch::Contains(middle));
    CHECK(records_of(entry.path()).size() == 2);
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("points are in the file as soon as they are written") {
  const TemporaryDirectory folder;
  TensorboardWriter writer(folder.path(), 0);
  for (std::int64_t step = 1; step <= 3; ++step) {
    writer.write(step, {{"loss", 1.0}});
    CHECK(records_of(only_file(folder.path())).size() == static_cast<std::size_t>(2 + step));
  }
}

TEST_CASE("on a full disk writing a point is an error that names the file, and no part of it remains") {
  const TemporaryDirectory folder;
  CHECK(test::in_child([&]() -> std::string {
          const std::string reason = test::limit_room(folder.path(), 8192);
          TensorboardWriter writer(folder.path(), 0);
          std::size_t written = 0;
          try {
            for (; written < 1000; ++written) writer.write(1, {{"train/loss", 1.0}});
            return "1000 points fit";
          } catch (const Error& error) {
            const std::string expected = only_file(folder.path()).string() + ": cannot be written: " + reason;
            if (error.code() != ExitCode::cannot_write) return "another exit code";
            if (!std::string_view(error.what()).starts_with(expected)) return error.what();
          }
          return records_of(only_file(folder.path())).size() == 2 + written ? "no error" : "another number of records";
        }) == "no error");
}

}  // namespace
}  // namespace llmtrain
