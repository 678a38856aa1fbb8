// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/tensor_slice.h"
#include "tests/core/checkpoint/checkpoint_fixture.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kinds{"manifest.json", "tensors-00001-of-00002.safetensors",
                                     "tensors-00002-of-00002.safetensors"};

void replace(const fs::path& file, const std::string& bytes) {
  fs::remove(file);
  std::ofstream(file, std::ios::binary) << bytes;
}

// Two checkpoints: the newer one gets damaged, and the older one must be found instead.
class TwoCheckpoints {
 public:
  TwoCheckpoints() {
    older_.write(folder_.path(), 1);
    newer_.write(folder_.path(), 2);
  }

  const fs::path& path() const { return folder_.path(); }
  fs::path newer() const { return path() / "step-00000002"; }

  // Replaces a file of the newer checkpoint by `bytes` and returns whether that was detected.
  void check_detected(const std::string& name, const std::string& bytes) const {
    const fs::path file = newer() / name;
    const std::string before = read_file(file);
    replace(file, bytes);
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(path(), skipped);
    replace(file, before);

    REQUIRE(found == path() / "step-00000001");
    REQUIRE(skipped.size() == 1);
    REQUIRE_THAT(skipped.front(), Catch::Contains(file.string()));
  }

 private:
  test::TemporaryDirectory folder_;
  test::SampleCheckpoint older_{1};
  test::SampleCheckpoint newer_{2};
};

TEST_CASE("a flipped bit is detected anywhere in a checkpoint", "[one-thread]") {
  const TwoCheckpoints two;
  std::mt19937 random(20240501);
  for (const std::string& name : kinds) {
    const std::string bytes = read_file(two.newer() / name);
    for (int i = 0; i < 200; ++i) {
      const std::size_t offset = random() % bytes.size();
      const unsigned bit = random() % 8;
      INFO(name << " byte " << offset << " bit " << bit);
      std::string damaged = bytes;
      damaged[offset] = static_cast<char>(static_cast<unsigned char>(damaged[offset]) ^ (1U << bit));
      two.check_detected(name, damaged);
    }
  }
}

TEST_CASE("a file truncated at any byte is detected, and one that is longer", "[one-thread]") {
  const TwoCheckpoints two;
  for (const std::string& name : kinds) {
    const std::string bytes = read_file(two.newer() / name);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      INFO(name << " cut to " << length << " of " << bytes.size());
      two.check_detected(name, bytes.substr(0, length));
    }
    INFO(name << " with a byte more");
    two.check_detected(name, bytes + '\0');
    two.check_detected(name, bytes + ' ');
  }
}

TEST_CASE("a flipped bit in latest still leads to a complete checkpoint") {
  const TwoCheckpoints two;
  const std::string bytes = read_file(two.path() / "latest");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    INFO("bit " << bit);
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(static_cast<unsigned char>(damaged[bit / 8]) ^ (1U << bit % 8));
    replace(two.path() / "latest", damaged);
    std::vector<std::string> skipped;
    const auto found = test::find_checkpoint(two.path(), skipped);
    REQUIRE(found);
    // A flipped bit may make it name the other checkpoint or remove the end of the line; neither damages a checkpoint.
    REQUIRE((found == two.newer() || skipped.empty()));
  }
}

TEST_CASE("a missing file, a link and a pipe are refused by name") {
  const TwoCheckpoints two;
  const fs::path file = two.newer() / kinds[1];
  const fs::path away = two.path() / "away";
  fs::rename(file, away);
  const auto reason = [&two] {
    std::vector<std::string> skipped;
    CHECK(test::find_checkpoint(two.path(), skipped) == two.path() / "step-00000001");
    return skipped.empty() ? std::string() : skipped.front();
  };
  CHECK_THAT(reason(), Catch::Contains(file.string() + ": the manifest names this file, but it does not exist"));
  fs::create_symlink(away, file);
  CHECK_THAT(reason(), Catch::Contains("is not a regular file"));
  fs::remove(file);
  fs::create_directory(file);
  CHECK_THAT(reason(), Catch::Contains("is not a regular file"));
}

TEST_CASE("damage names the file and tensors in it") {
  const TwoCheckpoints two;
  std::ofstream(two.newer() / kinds[1], std::ios::app) << "x";
  try {
    CheckpointReader(two.newer()).verify();
    FAIL("it was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    CHECK_THAT(error.what(), Catch::Contains(kinds[1]) && Catch::Contains("layers.0.attention.query.weight") &&
                                 Catch::Contains("3 tensors"));
  }
}

TEST_CASE("a folder without a manifest is not a checkpoint") {
  const test::TemporaryDirectory folder;
  try {
    const CheckpointReader reader(folder.path());
    FAIL("it was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::missing_input);
  }
}

// A manifest with a correct hash of its own, as an attacker would write it.
std::string sealed(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return text + ",\n\"sha256\": \"" + hash.hexadecimal() + "\"\n}\n";
}

struct HostileManifest {
  std::string what;
  std::string before;
  std::string after;  // replaces `before`
  std::string message;
};

const std::string whole_manifest =
    R"({"format": "llmtrain checkpoint","version": 1,"step": 2,"data_position": 0,"seed": 0,"recipe": {},)"
    R"("tensors": [{"name":"w","dtype":"F32","shape":[4],"scale":1.0,)"
    R"("slices":[{"file":"a.safetensors","offset":[0],"shape":[4]}]}],)"
    R"("files": [{"name":"a.safetensors","bytes":16,)"
    R"("sha256":"0000000000000000000000000000000000000000000000000000000000000000"}])";

const std::vector<HostileManifest> hostile_manifests{
    {"a path upwards", "\"name\":\"a.safetensors\"", "\"name\":\"../a.safetensors\"", "does not list"},
    {"a path upwards, twice", "a.safetensors", "../../a.safetensors", "the plain name"},
    {"an absolute path", "a.safetensors", "/etc/a.safetensors", "the plain name"},
    {"a folder below", "a.safetensors", "b/a.safetensors", "the plain name"},
    {"a hidden file", "a.safetensors", ".a.safetensors", "the plain name"},
    {"another kind of file", "a.safetensors", "passwd", "the plain name"},
    {"an ending alone", "a.safetensors", ".safetensors", "the plain name"},
    {"a NUL in a name", "a.safetensors", "a\\u0000.safetensors", "the plain name"},
    {"another format", "llmtrain checkpoint", "other", "a \"format\" other"},
    {"a newer version", "\"version\": 1", "\"version\": 2", "version 2, this program reads version 1"},
    {"a negative step", "\"step\": 2", "\"step\": -2", "must be 0 or more"},
    {"a fractional step", "\"step\": 2", "\"step\": 2.5", "not a 64-bit integer"},
    {"a huge step", "\"step\": 2", "\"step\": 9223372036854775808", "not a 64-bit integer"},
    {"a text as step", "\"step\": 2", "\"step\": \"2\"", "not a 64-bit integer"},
    {"no seed", "\"seed\": 0,", "", "lacks the key \"seed\""},
    {"an unknown key", "\"seed\": 0", "\"seed\": 0,\"sead\":0", "unknown key \"sead\""},
    {"a key twice", "\"seed\": 0", "\"seed\": 0,\"seed\":0", "appears twice"},
    {"an unknown dtype", "\"F32\"", "\"F31\"", "has the dtype"},
    {"a dtype of half bytes", "\"F32\"", "\"F4\"", "has the dtype"},
    {"a negative size", "\"shape\":[4],\"scale\"", "\"shape\":[-4],\"scale\"", "impossible size"},
    {"a size that overflows", "\"shape\":[4],\"scale\"", "\"shape\":[4611686018427387904],\"scale\"",
     "impossible size"},
    {"a slice outside", "\"offset\":[0]", "\"offset\":[1]", "outside of its shape"},
    {"a slice far outside", "\"offset\":[0]", "\"offset\":[9223372036854775807]", "outside of its shape"},
    {"a slice of another rank", "\"offset\":[0]", "\"offset\":[0,0]", "outside of its shape"},
    {"a slice that is too small", "\"offset\":[0],\"shape\":[4]", "\"offset\":[0],\"shape\":[3]", "do not cover"},
    {"a scale that is no number", "\"scale\":1.0", "\"scale\":null", "not a number"},
    {"an empty name", "\"name\":\"w\"", "\"name\":\"\"", "no name"},
    {"a hash that is none", "\"sha256\":\"0", "\"sha256\":\"g", "an invalid SHA-256"},
    {"a negative file size", "\"bytes\":16", "\"bytes\":-16", "negative size"},
    {"tensors that are no array", "\"tensors\": [", "\"tensors\": {}, \"x\": [", "not an array"},
    {"a slice of no file", "\"file\":\"a.", "\"file\":\"b.", "does not list"},
    {"a deep recipe", "\"recipe\": {}", "\"recipe\": " + std::string(100'000, '[') + std::string(100'000, ']'),
     "64 levels"},
    {"no JSON", "\"recipe\": {}", "\"recipe\": {", "not strict JSON"},
};

std::string replace_all(std::string text, const std::string& before, const std::string& after) {
  for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos; at += after.size())
    text.replace(at, before.size(), after);
  return text;
}

TEST_CASE("a manifest made by hand is read, so that below each change itself is what is refused") {
  const test::TemporaryDirectory folder;
  folder.write("manifest.json", sealed(whole_manifest));
  CHECK(CheckpointReader(folder.path()).tensors().size() == 1);
}

TEST_CASE("hostile manifests are refused") {
  const test::TemporaryDirectory folder;
  for (const HostileManifest& hostile : hostile_manifests) {
    INFO(hostile.what);
    const std::string text = replace_all(whole_manifest, hostile.before, hostile.after);
    REQUIRE(text != whole_manifest);
    folder.write("manifest.json", sealed(text));
    try {
      const CheckpointReader reader(folder.path());
      FAIL_CHECK("it was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_data);
      CHECK_THAT(error.what(), Catch::Contains(hostile.message) && Catch::Contains("manifest.json"));
    }
  }
}

TEST_CASE("a manifest that misstates a file's contents is detected when it is read") {
  const test::TemporaryDirectory folder;
  folder.write("manifest.json", sealed(whole_manifest));
  const float values[4] = {1, 2, 3, 4};
  std::vector<std::byte> destination(16);
  const auto read = [&](std::vector<SafetensorsTensor> tensors) {
    write_safetensors(folder.path() / "a.safetensors", std::move(tensors));
    CheckpointReader(folder.path()).read_box("w", {{0}, {4}}, destination);
  };
  CHECK_NOTHROW(read({{"w", "F32", {4}, values}}));
  CHECK_THROWS_AS(read({{"v", "F32", {4}, values}}), Error);
  CHECK_THROWS_AS(read({{"w", "F32", {3}, values}}), Error);
  CHECK_THROWS_AS(read({{"w", "I32", {4}, values}}), Error);
}

}  // namespace
}  // namespace llmtrain
