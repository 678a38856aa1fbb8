// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_part.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/tensor_slice.h"
#include "tests/core/checkpoint/checkpoint_fixture.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::SampleCheckpoint;
using test::TemporaryDirectory;

constexpr std::size_t writers = 4;

std::optional<fs::path> newest(const fs::path& checkpoints) {
  std::vector<std::string> skipped;
  return test::find_checkpoint(checkpoints, skipped);
}

// The sample's slices, distributed over several writers.
class Team {
 public:
  explicit Team(const SampleCheckpoint& sample) : state_(sample.state()) {
    for (std::size_t i = 0; i < sample.slices().size(); ++i) slices_[i % writers].push_back(sample.slices()[i]);
  }

  // All write at the same time, and report what they wrote as they would over a network.
  std::vector<CheckpointPart> write(const fs::path& aside) const {
    std::vector<PartWriter> parts;
    FileNumbers numbers;
    std::vector<std::size_t> first;
    for (const auto& slices : slices_) {
      parts.emplace_back(slices, 60);
      first.push_back(numbers.total);
      numbers.total += parts.back().files();
    }
    std::vector<std::string> reported(writers);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < writers; ++i)
      threads.emplace_back([&, i] { reported[i] = manifest_text(parts[i].write(aside, {first[i], numbers.total})); });
    for (std::thread& thread : threads) thread.join();
    std::vector<CheckpointPart> written;
    for (const std::string& text : reported) written.push_back(parse_manifest(text, "a part", Coverage::part));
    return written;
  }

  CheckpointState state(std::int64_t step) const {
    CheckpointState state = state_;
    state.step = step;
    return state;
  }

 private:
  CheckpointState state_;
  std::vector<TensorSlice> slices_[writers];
};

ExitCode code_of(const std::function<void()>& call, const std::string& message) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains(message));
    return error.code();
  }
  return ExitCode::done;
}

TEST_CASE("four writers make one checkpoint, which is not visible before it is complete") {
  const TemporaryDirectory folder;
  const SampleCheckpoint sample(3);
  const Team team(sample);
  const fs::path aside = checkpoint_aside(folder.path(), 7, "4711");
  const auto parts = team.write(aside);
  CHECK(names_in(folder.path()) == std::set<std::string>{"step-00000007.tmp-4711"});
  CHECK_FALSE(newest(folder.path()));

  const fs::path written = commit_checkpoint(folder.path(), aside, team.state(7), parts, 0);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000007"});
  CHECK(newest(folder.path()) == written);
  CHECK(CheckpointReader(written).state().seed == -5);
  CHECK(sample.is_in(written));
  CHECK(names_in(written).count("tensors-00001-of-00005.safetensors") == 1);
  CHECK(names_in(written).count("tensors-00005-of-00005.safetensors") == 1);
}

TEST_CASE("readers that share the files see all damage together, and each file once") {
  const TemporaryDirectory folder;
  const SampleCheckpoint sample(3);
  const Team team(sample);
  const fs::path aside = checkpoint_aside(folder.path(), 1, "1");
  const auto parts = team.write(aside);
  const CheckpointReader reader(commit_checkpoint(folder.path(), aside, team.state(1), parts, 0));
  for (std::size_t i = 0; i < 3; ++i) reader.verify({i, 3});
  std::ofstream(reader.folder() / "tensors-00003-of-00005.safetensors", std::ios::app) << "x";
  std::vector<bool> found;
  for (std::size_t i = 0; i < 3; ++i)
    found.push_back(code_of([&] { reader.verify({i, 3}); }, "00003") == ExitCode::bad_data);
  CHECK(found == std::vector<bool>{false, false, true});
}

TEST_CASE("if a part is missing there is no checkpoint, and the earlier one stays") {
  const TemporaryDirectory folder;
  SampleCheckpoint earlier(1);
  earlier.write(folder.path(), 1);
  const SampleCheckpoint sample(2);
  const Team team(sample);
  const fs::path aside = checkpoint_aside(folder.path(), 2, "1");
  auto parts = team.write(aside);
  const auto commit = [&] { commit_checkpoint(folder.path(), aside, team.state(2), parts, 1); };

  const std::vector<CheckpointPart> all = parts;
  parts.pop_back();
  CHECK(code_of(commit, "do not cover") == ExitCode::internal_error);
  parts.push_back(parts.front());
  CHECK(code_of(commit, "") == ExitCode::internal_error);
  parts = all;
  parts[1].tensors.back().dtype = "I8";  // the tensor in quarters
  CHECK(code_of(commit, "differ") == ExitCode::internal_error);
  parts = all;
  fs::remove(aside / "tensors-00002-of-00005.safetensors");
  CHECK(code_of(commit, "tensors-00002-of-00005.safetensors: does not exist here") == ExitCode::cannot_write);
  CHECK(newest(folder.path()) == folder.path() / "step-00000001");

  discard_checkpoint(aside);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000001"});
  CHECK(earlier.is_in(folder.path() / "step-00000001"));
}

TEST_CASE("what killed writers leave is removed by the next ones") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(2);
  Team(sample).write(checkpoint_aside(folder.path(), 2, "1"));
  CHECK_FALSE(newest(folder.path()));
  sample.write(folder.path(), 1);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000001"});
}

TEST_CASE("a writer whose slices are not inside their tensors is refused") {
  const float values[4] = {};
  const auto refused = [](const TensorSlice& slice) {
    return code_of([&] { PartWriter(std::span(&slice, 1)); }, "\"a\"") == ExitCode::internal_error;
  };
  CHECK(refused({"a", "F32", {4}, {2}, {4}, values}));
  CHECK(refused({"a", "F32", {2, 2}, {0}, {4}, values}));
  CHECK(refused({"a", "float", {4}, {0}, {4}, values}));
  CHECK_FALSE(refused({"a", "F32", {8}, {2}, {4}, values}));
  CHECK(bytes_of({"a", "F32", {8}, {2}, {4}, values}) == 16);
  CHECK(code_of([&] { bytes_of({"a", "float", {4}, {0}, {4}, values}); }, "\"a\"") == ExitCode::internal_error);
}

// Splits a tensor's elements into runs as ranks own them, each written as its boxes, and reads any run.
bool flat_ranges_come_back() {
  const auto shape =
      *rc::gen::resize(3, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 6)));
  const std::int64_t elements = element_count(shape);
  std::vector<std::int32_t> values(static_cast<std::size_t>(elements));
  std::iota(values.begin(), values.end(), 100);
  std::vector<std::int64_t> cuts{0, elements};
  for (int i = 0; i < 3; ++i) cuts.push_back(*rc::gen::inRange<std::int64_t>(0, elements + 1));
  std::sort(cuts.begin(), cuts.end());

  const TemporaryDirectory folder;
  const fs::path aside = checkpoint_aside(folder.path(), 1, "1");
  std::vector<CheckpointPart> parts;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<TensorSlice> slices;
    const std::int32_t* next = values.data() + cuts[i];
    for (const SliceBox& box : boxes_of_range(shape, cuts[i], cuts[i + 1])) {
      slices.push_back({"w", "I32", shape, box.offset, box.shape, next, 1});
      next += element_count(box.shape);
    }
    const PartWriter writer(slices);
    // As many numbers as writers; a name may be missing.
    parts.push_back(writer.write(aside, {i, cuts.size() - 1}));
  }
  const CheckpointReader reader(commit_checkpoint(folder.path(), aside, {}, parts, 0));
  const std::int64_t begin = *rc::gen::inRange<std::int64_t>(0, elements + 1);
  const std::int64_t end = *rc::gen::inRange<std::int64_t>(begin, elements + 1);
  std::vector<std::int32_t> read(static_cast<std::size_t>(end - begin));
  test::read_range(reader, "w", begin, end, std::as_writable_bytes(std::span(read)));
  RC_ASSERT(std::equal(read.begin(), read.end(), values.begin() + begin));
  return true;
}

TEST_CASE("flat ranges of several writers are read back, however they are split") {
  CHECK(rc::check("flat ranges", flat_ranges_come_back));
}

TEST_CASE("a box of a tensor can be read") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(0);
  const CheckpointReader reader(sample.write(folder.path(), 1));  // 8 × 6 numbers, counted from 0, in four slices
  std::vector<unsigned char> bytes(6);
  reader.read_box("embedding.weight.m", {{3, 2}, {3, 2}}, std::as_writable_bytes(std::span(bytes)));
  CHECK(bytes == std::vector<unsigned char>{20, 21, 26, 27, 32, 33});
  const auto refused = [&](const SliceBox& box) {
    return code_of([&] { reader.read_box("embedding.weight.m", box, std::as_writable_bytes(std::span(bytes))); },
                   "not a valid request") == ExitCode::internal_error;
  };
  CHECK(refused({{3, 2}, {3, 3}}));
  CHECK(refused({{7, 2}, {3, 2}}));
  CHECK(refused({{3}, {6}}));
}

}  // namespace
}  // namespace llmtrain
