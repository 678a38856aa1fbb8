// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "tests/core/checkpoint/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::eight_bytes;
using test::safetensors_bytes_of;

struct Hostile {
  std::string what;
  std::string bytes;
  std::string message;  // fragment of the expected error
};

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "I32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

std::string file_of(const std::string& entries, std::size_t data) {
  return safetensors_bytes_of(std::string("{") + entries + "}", std::string(data, '\0'));
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string ones(int count) { return repeated("1,", count - 1).append("1"); }

std::string overlapping(int count) {
  std::string entries;
  for (int i = 0; i < count; ++i) entries += std::string(i == 0 ? "" : ",") + entry(std::to_string(i), "2,2", "0,16");
  return entries;
}

std::vector<Hostile> broken_frames() {
  return {
      {"no bytes", "", "the header's length alone takes 8"},
      {"seven bytes", "1234567", "the header's length alone takes 8"},
      {"a header's length alone", eight_bytes(2), "the file has 8 in all"},
      {"a header longer than the file", eight_bytes(60) + "{}", "the file has 10 in all"},
      {"a header of 2^64-1 bytes", eight_bytes(~0ULL) + "{}", "at most 100000000"},
      {"a header of 2^63 bytes", eight_bytes(1ULL << 63) + "{}", "at most 100000000"},
      {"a header over the limit", eight_bytes(100'000'001) + "{}", "at most 100000000"},
      {"an empty header", eight_bytes(0), "does not start with '{'"},
      {"not UTF-8", safetensors_bytes_of("\xff"), "does not start with '{'"},
      {"not UTF-8 inside", safetensors_bytes_of("{\"\xff\":1}"), "not UTF-8"},
      {"an overlong form", safetensors_bytes_of("{\"\xc0\x80\":1}"), "not UTF-8"},
      {"a surrogate", safetensors_bytes_of("{\"\xed\xa0\x80\":1}"), "not UTF-8"},
      {"a cut character", safetensors_bytes_of("{\"\xe2\x82"), "not UTF-8"},
      {"not JSON", safetensors_bytes_of("{x"), "was expected"},
      {"an object that does not end", safetensors_bytes_of("{"), "ends too early"},
      {"leading whitespace", safetensors_bytes_of(" {}"), "does not start with '{'"},
      {"a byte order mark", safetensors_bytes_of("\xef\xbb\xbf{}"), "does not start with '{'"},
      {"a trailing newline", safetensors_bytes_of("{}\n"), "other than spaces"},
      {"a second object", safetensors_bytes_of("{}{}"), "other than spaces"},
      {"a NUL and more", safetensors_bytes_of(std::string("{}\0{}", 5)), "other than spaces"},
      {"a trailing comma", safetensors_bytes_of(std::string("{") + entry("a", "", "0,4") + ",}", "1234"),
       "was expected"},
      {"an array", safetensors_bytes_of("[]"), "does not start with '{'"},
  };
}

std::vector<Hostile> broken_layouts() {
  return {
      {"ten tensors on one region", file_of(overlapping(10), 16), "the one before it ends at 16"},
      {"100000 tensors on one region", file_of(overlapping(100'000), 16), "the one before it ends at 16"},
      {"a hole at the start", file_of(entry("a", "1", "4,8"), 8), "the one before it ends at 0"},
      {"a hole between", file_of(entry("a", "1", "0,4") + "," + entry("b", "1", "8,12"), 12), "ends at 4"},
      {"a partial overlap", file_of(entry("a", "1", "0,4") + "," + entry("b", "1", "2,6"), 6), "ends at 4"},
      {"offsets the wrong way round", file_of(entry("a", "1", "4,0"), 4), "has the offsets 4 and 0"},
      {"end before begin at zero", file_of(entry("a", "0", "0,0") + "," + entry("b", "1", "0,4"), 3), "take 4 bytes"},
      {"too little data", file_of(entry("a", "2,2", "0,16"), 15), "take 16 bytes, 15 follow"},
      {"trailing bytes", file_of(entry("a", "2,2", "0,16"), 17), "take 16 bytes, 17 follow"},
      {"trailing bytes without tensors", file_of("", 1), "take 0 bytes, 1 follow"},
      {"zero elements with bytes", file_of(entry("a", "2,0", "0,16"), 16), "needs 0 bytes"},
      {"a shape larger than its bytes", file_of(entry("a", "2,3", "0,16"), 16), "needs 24 bytes"},
      {"a shape that overflows", file_of(entry("a", "2,18446744073709551614", "0,16"), 16), "2^63 or more"},
      {"a product that overflows", file_of(entry("a", "4294967296,4294967296,2", "0,16"), 16), "impossible size"},
      {"bits that overflow", file_of(entry("a", "4611686018427387904", "0,16"), 16), "impossible size"},
      {"a part of a byte", file_of(entry("a", "1", "0,1", "F4"), 1), "impossible size"},
      {"2^63 as an offset", file_of(entry("a", "1", "0,9223372036854775808"), 4), "needs 4 bytes"},
      {"2^64-1 as an offset", file_of(entry("a", "1", "18446744073709551615,3"), 4), "has the offsets"},
      {"2^64 as an offset", file_of(entry("a", "1", "0,18446744073709551616"), 4), "2^64 or more"},
      {"a negative offset", file_of(entry("a", "1", "-4,0"), 4), "whole number"},
      {"a negative zero", file_of(entry("a", "1", "-0,4"), 4), "whole number"},
      {"a fraction", file_of(entry("a", "1", "0,4.0"), 4), "was expected"},
      {"an exponent", file_of(entry("a", "1", "0,4e0"), 4), "was expected"},
      {"a leading zero", file_of(entry("a", "1", "0,04"), 4), "starts with 0"},
      {"three offsets", file_of(entry("a", "1", "0,4,4"), 4), "was expected"},
      {"one offset", file_of(entry("a", "1", "0"), 4), "was expected"},
      {"65 dimensions", file_of(entry("a", ones(65), "0,4"), 4), "more than 64 dimensions"},
  };
}

std::vector<Hostile> broken_entries() {
  const std::string good = entry("a", "1", "0,4");
  return {
      {"a name twice", file_of(good + "," + entry("a", "1", "4,8"), 8), "\"a\" appears twice"},
      {"a name twice, once escaped", file_of(good + "," + entry("\\u0061", "1", "4,8"), 8), "\"a\" appears twice"},
      {"an unknown dtype", file_of(entry("a", "1", "0,4", "F33"), 4), "unknown dtype (\"F33\")"},
      {"dtype in small letters", file_of(entry("a", "1", "0,4", "i32"), 4), "unknown dtype"},
      {"a tensor that is a number", file_of("\"a\":1", 0), "was expected"},
      {"no dtype", file_of(R"("a":{"shape":[1],"data_offsets":[0,4]})", 4), "lacks one of"},
      {"no shape", file_of(R"("a":{"dtype":"I32","data_offsets":[0,4]})", 4), "lacks one of"},
      {"no offsets", file_of(R"("a":{"dtype":"I32","shape":[1]})", 4), "lacks one of"},
      {"an unknown key", file_of(R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4],"x":1})", 4), "unknown key"},
      {"dtype twice", file_of(R"("a":{"dtype":"I32","dtype":"I32","shape":[1],"data_offsets":[0,4]})", 4), "twice"},
      {"shape is a number", file_of(R"("a":{"dtype":"I32","shape":1,"data_offsets":[0,4]})", 4), "was expected"},
      {"dtype is a number", file_of(R"("a":{"dtype":32,"shape":[1],"data_offsets":[0,4]})", 4), "was expected"},
      {"metadata that is a string", file_of("\"__metadata__\":\"pt\"", 0), "was expected"},
      {"metadata with a number", file_of(R"("__metadata__":{"format":1})", 0), "not a string"},
      {"metadata with an object", file_of(R"("__metadata__":{"format":{}})", 0), "not a string"},
      {"metadata twice", file_of(R"("__metadata__":{},"__metadata__":{})", 0), "appears twice"},
      {"a metadata key twice", file_of(R"("__metadata__":{"a":"1","a":"2"})", 0), "\"a\" appears twice"},
      {"a NUL in a name", file_of(entry("a\\u0000b", "1", "0,4"), 4), "control character"},
      {"a bare NUL in a name", file_of(entry(std::string("a\0b", 3), "1", "0,4"), 4), "control character"},
      {"an escape sequence of a terminal", file_of(entry("\\u001b[2J", "1", "0,4"), 4), "control character"},
      {"a broken escape", file_of(entry("\\x", "1", "0,4"), 4), "unknown escape"},
      {"a short escape", safetensors_bytes_of("{\"\\u12"), "broken escape"},
      {"an escape with a sign", file_of(entry("\\u+123", "1", "0,4"), 4), "broken escape"},
      {"half of a surrogate pair", file_of(entry("\\ud800", "1", "0,4"), 4), "surrogate"},
      {"the low half alone", file_of(entry("\\udc00", "1", "0,4"), 4), "surrogate"},
      {"a string that does not end", safetensors_bytes_of("{\"abc"), "does not end"},
      {"a backslash at the end", safetensors_bytes_of("{\"abc\\"), "does not end"},
      {"arrays a million deep", safetensors_bytes_of(std::string("{\"a\":") + std::string(1'000'000, '[')),
       "was expected"},
      {"objects a million deep", safetensors_bytes_of(repeated("{\"a\":", 1'000'000)), "unknown key"},
      {"shapes a million deep", file_of(entry("a", std::string(1'000'000, '['), "0,4"), 4), "whole number"},
      {"a million dimensions", file_of(entry("a", ones(1'000'000), "0,4"), 4), "more than 64"},
      {"too many tensors",
       file_of(std::string(R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})") +
                   repeated(R"(,"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})", 300'000),
               0),
       "more than 262144 tensors"},
  };
}

void check_refused(const std::vector<Hostile>& cases) {
  const test::TemporaryDirectory folder;
  for (const Hostile& hostile : cases) {
    INFO(hostile.what);
    const auto file = folder.write("hostile.safetensors", hostile.bytes);
    try {
      const SafetensorsFile opened(file);
      FAIL("it was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_data);
      CHECK_THAT(error.what(), Catch::Contains(hostile.message));
      CHECK_THAT(error.what(), Catch::Contains(file.string()));
    }
  }
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// The outcome of opening `file` in a process that may allocate `budget` more bytes than it has.
int open_within(const std::filesystem::path& file, std::size_t budget) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::size_t most = address_space() + budget;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(99);
    try {
      const SafetensorsFile opened(file);
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(static_cast<int>(error.code()));
    } catch (...) {
      ::_exit(98);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a safetensors file with a broken frame is refused") { check_refused(broken_frames()); }
TEST_CASE("a safetensors file whose tensors do not fill it is refused", "[one-thread]") {
  check_refused(broken_layouts());
}
TEST_CASE("a safetensors file with a broken entry is refused", "[one-thread]") { check_refused(broken_entries()); }

TEST_CASE("a huge hostile header needs no memory beyond the file's own", "[one-thread]") {
  constexpr std::size_t size = 30'000'000;
  constexpr std::size_t spare = 64U << 20;
  const test::TemporaryDirectory folder;
  const std::vector<Hostile> cases{
      {"spaces", std::string("{").append(size, ' '), ""},
      {"a number", std::string(R"({"a":{"shape":[)").append(size, '9'), ""},
      {"dimensions", std::string(R"({"a":{"shape":[)") + repeated("1,", size / 2), ""},
      {"tensors", std::string("{") + repeated(R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)", size / 52),
       ""},
  };
  for (const Hostile& hostile : cases) {
    INFO(hostile.what);
    const auto file = folder.write("hostile.safetensors", safetensors_bytes_of(hostile.bytes));
    CHECK(open_within(file, size + spare) == static_cast<int>(ExitCode::bad_data));
  }
}

TEST_CASE("a file of a few bytes that claims the largest header is refused without allocating it") {
  const test::TemporaryDirectory folder;
  const auto file = folder.write("tiny.safetensors", eight_bytes(1ULL << 62) + "{}");
  CHECK(open_within(file, 4U << 20) == static_cast<int>(ExitCode::bad_data));
}

TEST_CASE("a missing file and a folder are distinguished") {
  const test::TemporaryDirectory folder;
  const auto code = [](const std::filesystem::path& file) {
    try {
      const SafetensorsFile opened(file);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  CHECK(code(folder.path() / "absent.safetensors") == ExitCode::missing_input);
  CHECK(code(folder.path()) == ExitCode::bad_data);
}

}  // namespace llmtrain
