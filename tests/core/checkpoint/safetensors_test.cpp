// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/safetensors.h"

#include <rapidcheck.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "tests/core/checkpoint/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

// Files written by hand that the reference implementation accepts.
TEST_CASE("legal corner cases of safetensors are read") {
  const test::TemporaryDirectory folder;
  const auto open = [&folder](const std::string& header, const std::string& data = {}) {
    return SafetensorsFile(folder.write("legal.safetensors", test::safetensors_bytes_of(header, data)));
  };
  SECTION("no tensor") { CHECK(open("{}").entries().empty()); }
  SECTION("padding with spaces") { CHECK(open("{}      ").entries().empty()); }
  SECTION("whitespace inside") {
    const auto file = open("{ \"a\" :\n{\t\"shape\" : [ 2 ] ,\r\"dtype\":\"U8\", \"data_offsets\":[ 0 , 2 ]} }", "xy");
    REQUIRE(file.find("a") != nullptr);
    CHECK(static_cast<char>(file.bytes(*file.find("a"))[1]) == 'y');
  }
  SECTION("a scalar") {
    const auto file = open(R"({"a":{"dtype":"I16","shape":[],"data_offsets":[0,2]}})", "xy");
    CHECK(file.find("a")->shape.empty());
    CHECK(file.bytes(*file.find("a")).size() == 2);
  }
  SECTION("zero elements between others") {
    const auto file = open(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                           R"("z":{"dtype":"F32","shape":[3,0],"data_offsets":[1,1]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                           "xy");
    CHECK(file.bytes(*file.find("z")).empty());
    CHECK(static_cast<char>(file.bytes(*file.find("b"))[0]) == 'y');
    CHECK(file.find("c") == nullptr);
  }
  SECTION("half bytes that add up to whole bytes") {
    CHECK(open(R"({"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", "xyz").entries().size() == 1);
  }
  SECTION("escapes in names") {
    const auto file = open(R"({"\u00e9\ud83d\ude00\"\\\/":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})");
    CHECK(file.entries().front().name == "\u00e9\U0001F600\"\\/");
  }
  SECTION("a name with dots and slashes is only a name") {
    CHECK(open(R"({"../../etc/passwd":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})").entries().size() == 1);
  }
  SECTION("metadata") { CHECK(open(R"({"__metadata__":{"format":"pt","note":"x"}})").entries().empty()); }
}

TEST_CASE("bytes of a tensor are computed without overflow") {
  CHECK(safetensors_bytes("F32", std::vector<std::int64_t>{3, 4}) == 48);
  CHECK(safetensors_bytes("F6_E2M3", std::vector<std::int64_t>{4}) == 3);
  CHECK(safetensors_bytes("BF16", std::vector<std::int64_t>{}) == 2);
  CHECK_FALSE(safetensors_bytes("F6_E2M3", std::vector<std::int64_t>{1}));
  CHECK_FALSE(safetensors_bytes("F32", std::vector<std::int64_t>{-1}));
  CHECK_FALSE(safetensors_bytes("F32", std::vector<std::int64_t>{1LL << 62}));
  CHECK_FALSE(safetensors_bytes("float", std::vector<std::int64_t>{1}));
}

// The expected bytes follow from the format's description: wide elements first, then by name, header padded to 8 bytes.
TEST_CASE("a file is byte for byte what the reference writes") {
  const test::TemporaryDirectory folder;
  const auto file = folder.path() / "written.safetensors";
  const std::int32_t number = 7;
  const unsigned char small[] = {1, 2};
  const WrittenFile written = write_safetensors(
      file,
      {{"s", "U8", {2}, small}, {"y", "I32", {}, &number}, {"x", "I32", {1}, &number}, {"e", "F64", {0}, nullptr}});

  std::string header = R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},)"
                       R"("x":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
                       R"("y":{"dtype":"I32","shape":[],"data_offsets":[4,8]},)"
                       R"("s":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}})";
  while (header.size() % 8 != 0) header += ' ';
  const std::string expected = test::safetensors_bytes_of(header, std::string("\7\0\0\0\7\0\0\0\1\2", 10));
  const std::string bytes = read_file(file);
  CHECK(bytes == expected);
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  CHECK(written.sha256 == hash.hexadecimal());
  CHECK(written.bytes == static_cast<std::int64_t>(bytes.size()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

// Large enough to be hashed beside its writing.
TEST_CASE("a large file and its hash are those of its tensors") {
  const test::TemporaryDirectory folder;
  const auto file = folder.path() / "large.safetensors";
  std::vector<std::uint32_t> first(3 << 20), second(100'001);
  std::iota(first.begin(), first.end(), 1U);
  std::iota(second.begin(), second.end(), 7U);
  const auto check = [&](const TensorContent& content) {
    const std::int64_t size = std::ssize(second);
    const WrittenFile written = write_safetensors(
        file,
        {{"a", "U32", {3, 1 << 20}, first.data()}, {"b", "U32", {size}, content ? nullptr : second.data(), content}});
    CHECK(written.sha256 == sha256_of(read_file(file)));
    CHECK(written.bytes == static_cast<std::int64_t>(std::filesystem::file_size(file)));
    const SafetensorsFile read(file);
    CHECK(std::ranges::equal(read.bytes(*read.find("a")), std::as_bytes(std::span(first))));
    CHECK(std::ranges::equal(read.bytes(*read.find("b")), std::as_bytes(std::span(second))));
  };
  check({});
  check([&](const WriteBytes& write) {
    write(second.data(), 4);
    write(second.data() + 1, 4 * (second.size() - 1));
  });
}

// A file size limit simulates a full disk.
TEST_CASE("a large file for which there is no room is an error and leaves nothing behind") {
  const test::TemporaryDirectory folder;
  const std::vector<float> values(4 << 20, 1);
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1 << 20, before.rlim_max };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  ExitCode code = ExitCode::internal_error;
  try {
    write_safetensors(folder.path() / "large.safetensors", {{"a", "F32", {4 << 20}, values.data()}});
  } catch (const Error& error) {
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(code == ExitCode::cannot_write);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what a safetensors file cannot contain is not written") {
  const test::TemporaryDirectory folder;
  const float value = 1;
  const auto refused = [&](std::vector<SafetensorsTensor> tensors) {
    CHECK_THROWS_AS(write_safetensors(folder.path() / "x.safetensors", std::move(tensors)), Error);
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  refused({{"a", "F32", {1}, &value}, {"a", "F32", {1}, &value}});
  refused({{"a", "float", {1}, &value}});
  refused({{"a", "F32", {-1}, &value}});
  refused({{"a\n", "F32", {1}, &value}});
  refused({{"__metadata__", "F32", {1}, &value}});
  refused({{"a", "F32", {1}, nullptr}});
}

TEST_CASE("a file that cannot be written is an error that names it") {
  const test::TemporaryDirectory folder;
  const auto file = folder.path() / "absent" / "x.safetensors";
  try {
    write_safetensors(file, {});
    FAIL("it was written");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    CHECK_THAT(error.what(), Catch::Contains(file.string()));
  }
}

struct RandomTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;
};

RandomTensor random_tensor() {
  RandomTensor tensor;
  tensor.dtype = *rc::gen::element<std::string>("F32", "BF16", "F16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "C64");
  tensor.shape =
      *rc::gen::resize(5, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 5)));
  const auto size = static_cast<std::size_t>(*safetensors_bytes(tensor.dtype, tensor.shape));
  tensor.bytes = *rc::gen::container<std::vector<unsigned char>>(size, rc::gen::arbitrary<unsigned char>());
  return tensor;
}

std::string random_name() {
  return *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~'))) +
         *rc::gen::element<std::string>("", "\u00fc", "\u20ac", "\U0001F600");
}

bool round_trip() {
  const test::TemporaryDirectory folder;
  std::map<std::string, RandomTensor> tensors;
  const int count = *rc::gen::inRange(0, 8);
  for (int i = 0; i < count; ++i) tensors[random_name()] = random_tensor();
  std::vector<SafetensorsTensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
  for (auto& tensor : list)
    if (tensor.data == nullptr) tensor.data = &list;  // an empty vector may have no address

  const auto path = folder.path() / "random.safetensors";
  write_safetensors(path, list);
  const SafetensorsFile file(path);
  RC_ASSERT(file.entries().size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const SafetensorsEntry* entry = file.find(name);
    RC_ASSERT(entry != nullptr);
    RC_ASSERT(entry->dtype == tensor.dtype);
    RC_ASSERT(entry->shape == tensor.shape);
    const auto bytes = file.bytes(*entry);
    const auto expected = std::as_bytes(std::span(tensor.bytes));
    RC_ASSERT(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
  }
  return true;
}

TEST_CASE("random tensors survive a round trip") { CHECK(rc::check("write, then read", round_trip)); }

}  // namespace
}  // namespace llmtrain
