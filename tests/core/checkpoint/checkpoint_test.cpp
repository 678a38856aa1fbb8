// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
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

std::optional<fs::path> find_quietly(const fs::path& checkpoints) {
  std::vector<std::string> skipped;
  const auto found = test::find_checkpoint(checkpoints, skipped);
  CHECK(skipped.empty());
  return found;
}

TEST_CASE("a checkpoint is read back as it was written") {
  const TemporaryDirectory folder;
  const fs::path checkpoints = folder.path() / "run" / "checkpoints";
  SampleCheckpoint sample(3);
  const fs::path written = sample.write(checkpoints, 100);

  CHECK(written == checkpoints / "step-00000100");
  CHECK(names_in(checkpoints) == std::set<std::string>{"latest", "step-00000100"});
  CHECK(read_file(checkpoints / "latest") == "step-00000100\n");
  const CheckpointReader reader(written);
  reader.verify();
  CHECK(reader.state().step == 100);
  CHECK(reader.state().data_position == 96);
  CHECK(reader.state().seed == -5);
  CHECK(reader.state().recipe.dump() == R"({"name":"sample","model":{"layers":2,"norm_eps":1e-05}})");
  CHECK(reader.find("layers.0.attention.query.bias")->scale == 0.125);
  CHECK(reader.find("layers.0.attention.query.bias")->dtype == "BF16");
  CHECK(reader.find("absent") == nullptr);
  CHECK(sample.is_in(written));
}

TEST_CASE("slices are written to several files within the size limit") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  const auto names = names_in(sample.write(folder.path(), 1));
  // 96, 10 and 12 bytes; the next quarter would pass 120.
  CHECK(names == std::set<std::string>{"manifest.json", "tensors-00001-of-00002.safetensors",
                                       "tensors-00002-of-00002.safetensors"});
}

TEST_CASE("any range of a sharded tensor can be read") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(0);
  const CheckpointReader reader(sample.write(folder.path(), 1));
  for (std::int64_t begin = 0; begin <= 48; ++begin)
    for (std::int64_t end = begin; end <= 48; ++end) {
      std::vector<unsigned char> bytes(static_cast<std::size_t>(end - begin));
      test::read_range(reader, "embedding.weight.m", begin, end, std::as_writable_bytes(std::span(bytes)));
      for (std::int64_t i = begin; i < end; ++i) REQUIRE(bytes[static_cast<std::size_t>(i - begin)] == i);
    }
}

TEST_CASE("an invalid request is an error, not a crash") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(0);
  const CheckpointReader reader(sample.write(folder.path(), 1));
  std::vector<std::byte> bytes(8);
  CHECK_THROWS_AS(reader.read_box("absent", {}, bytes), Error);
  CHECK_THROWS_AS(reader.read_box("scalar", {{0}, {2}}, bytes), Error);
  CHECK_THROWS_AS(reader.read_box("scalar", {{-1}, {1}}, bytes), Error);
  CHECK_THROWS_AS(reader.read_box("scalar", {}, std::span(bytes).first(7)), Error);
}

TEST_CASE("a checkpoint without tensors is valid") {
  const TemporaryDirectory folder;
  const fs::path written = write_checkpoint(folder.path(), {}, {}, 0);
  CheckpointReader(written).verify();
  CHECK(written.filename() == "step-00000000");
}

TEST_CASE("slices that do not make up their tensor are refused before anything is written") {
  const TemporaryDirectory folder;
  const float value[4] = {};
  const auto refused = [&](std::vector<TensorSlice> slices) {
    try {
      write_checkpoint(folder.path() / "checkpoints", {}, slices, 0);
      FAIL("it was written");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::internal_error);
    }
    CHECK(fs::is_empty(folder.path()));
  };
  refused({{"a", "F32", {4}, {0}, {2}, value}});
  refused({{"a", "F32", {4}, {0}, {4}, value}, {"a", "F32", {4}, {0}, {4}, value}});
  refused({{"a", "F32", {4}, {0}, {2}, value}, {"a", "BF16", {4}, {2}, {2}, value}});
  refused({{"a", "F32", {4}, {2}, {4}, value}});
  refused({{"a", "F32", {2, 2}, {0}, {4}, value}});
  refused({{"a", "float", {4}, {0}, {4}, value}});
  refused({{"", "F32", {4}, {0}, {4}, value}});
  refused({{"a", "F32", {4}, {0}, {4}, value, std::numeric_limits<double>::infinity()}});
}

TEST_CASE("only the newest checkpoints are kept, and the one just written") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  for (const std::int64_t step : {10, 20, 30}) sample.write(folder.path(), step, 2);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000020", "step-00000030"});
  sample.write(folder.path(), 5, 2);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000005", "step-00000020", "step-00000030"});
  sample.write(folder.path(), 123456789, 0);
  CHECK(names_in(folder.path()).contains("step-123456789"));
  CHECK(names_in(folder.path()).size() == 5);
}

TEST_CASE("a step can be rewritten") {
  const TemporaryDirectory folder;
  SampleCheckpoint first(1);
  SampleCheckpoint second(2);
  first.write(folder.path(), 7);
  second.write(folder.path(), 7);
  CHECK(second.is_in(folder.path() / "step-00000007"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000007"});
}

TEST_CASE("leftovers of a killed write are removed, files of the user are not") {
  const TemporaryDirectory folder;
  folder.write("step-00000003.tmp-77/tensors-00001-of-00001.safetensors", "half");
  folder.write("step-00000001.tmp-removed/manifest.json", "half");
  folder.write("notes.tmp-1/mine", "x");
  folder.write("step-best/mine", "x");
  SampleCheckpoint sample(1);
  sample.write(folder.path(), 4, 1);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "notes.tmp-1", "step-00000004", "step-best"});
}

TEST_CASE("the checkpoint that latest names is found, or without it the newest") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  for (const std::int64_t step : {1, 2, 3}) sample.write(folder.path(), step);
  CHECK(find_quietly(folder.path()) == folder.path() / "step-00000003");
  folder.write("latest", "step-00000002\n");
  CHECK(find_quietly(folder.path()) == folder.path() / "step-00000002");
  fs::remove(folder.path() / "latest");
  CHECK(find_quietly(folder.path()) == folder.path() / "step-00000003");
}

TEST_CASE("latest is only a hint") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  for (const std::int64_t step : {1, 2}) sample.write(folder.path(), step);
  const std::vector<std::string> texts{"",       "step-00000009\n",  "../../etc",
                                       "step-2", "step-00000002/..", std::string(5000, 'x')};
  for (const std::string& text : texts) {
    INFO(text);
    folder.write("latest", text);
    std::vector<std::string> skipped;
    CHECK(test::find_checkpoint(folder.path(), skipped) == folder.path() / "step-00000002");
    REQUIRE(skipped.size() == 1);
    CHECK_THAT(skipped.front(), Catch::Contains("latest"));
  }
}

TEST_CASE("no checkpoint is found if there is none") {
  const TemporaryDirectory folder;
  CHECK_FALSE(find_quietly(folder.path()));
  CHECK_FALSE(find_quietly(folder.path() / "absent"));
  std::vector<std::string> skipped;
  const auto file = folder.write("file", "x");
  CHECK_THROWS_AS(test::find_checkpoint(file, skipped), Error);
}

TEST_CASE("a checkpoint under another step's name is skipped") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  sample.write(folder.path(), 1);
  fs::copy(folder.path() / "step-00000001", folder.path() / "step-00000002", fs::copy_options::recursive);
  folder.write("latest", "step-00000002\n");
  std::vector<std::string> skipped;
  CHECK(test::find_checkpoint(folder.path(), skipped) == folder.path() / "step-00000001");
  REQUIRE(skipped.size() == 1);
  CHECK_THAT(skipped.front(), Catch::Contains("holds step 1"));
}

TEST_CASE("a verification error unrelated to the checkpoint ends the search") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  for (const std::int64_t step : {1, 2}) sample.write(folder.path(), step);
  std::vector<std::string> skipped;
  const auto refuse = [](ExitCode code) {
    return [code](const CheckpointReader& reader) {
      if (reader.state().step == 2) throw Error(code, "refused");
    };
  };
  CHECK(test::find_checkpoint(folder.path(), skipped, refuse(ExitCode::bad_data)) == folder.path() / "step-00000001");
  CHECK(skipped == std::vector<std::string>{"refused"});
  CHECK_THROWS_WITH(test::find_checkpoint(folder.path(), skipped, refuse(ExitCode::rank_lost)), "refused");
}

TEST_CASE("a checkpoint that was set aside for its successor counts until the successor exists") {
  const TemporaryDirectory folder;
  SampleCheckpoint first(1);
  SampleCheckpoint second(2);
  first.write(folder.path(), 7);
  fs::rename(folder.path() / "step-00000007", folder.path() / "step-00000007.replaced");
  CHECK(find_quietly(folder.path()) == folder.path() / "step-00000007.replaced");
  clear_leftovers(folder.path());
  CHECK(first.is_in(folder.path() / "step-00000007"));

  second.write(folder.path() / "other", 7);
  fs::rename(folder.path() / "other" / "step-00000007", folder.path() / "aside");
  put_checkpoint_in_two_steps(folder.path() / "aside", folder.path() / "step-00000007");
  CHECK(second.is_in(folder.path() / "step-00000007"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "other", "step-00000007"});
}

TEST_CASE("steps and folder names convert both ways") {
  CHECK(checkpoint_name(100) == "step-00000100");
  CHECK(checkpoint_name(1234567890) == "step-1234567890");
  CHECK(checkpoint_step("step-1234567890") == 1234567890);
  for (const std::string name :
       {"", "step-", "step-1", "step-000000001", "step--0000001", "step-00000001x", "Step-00000001"}) {
    INFO(name);
    CHECK_FALSE(checkpoint_step(name));
  }
}

TEST_CASE("what a run repeats and what it began with is in the manifest") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  CHECK_FALSE(CheckpointReader(sample.write(folder.path(), 1)).state().evaluation_is_due);
  CHECK(read_file(folder.path() / "step-00000001" / "manifest.json").find("began_from") == std::string::npos);
  CheckpointState state = sample.state();
  state.step = 2;
  state.evaluation_is_due = true;
  state.began_from = "/runs/a/checkpoints/step-00000007";
  state.base = BaseModel{"hf:/models/a", std::string(64, 'a')};
  const CheckpointReader reader(write_checkpoint(folder.path(), state, sample.slices(), 0));
  CHECK(reader.state().evaluation_is_due);
  CHECK(reader.state().began_from == state.began_from);
  CHECK(reader.state().base == state.base);
  state.base->fingerprint = "abc";
  CHECK_THROWS_WITH(CheckpointReader(write_checkpoint(folder.path(), state, sample.slices(), 0)),
                    Catch::Contains("\"fingerprint\" that is no SHA-256"));
}

TEST_CASE("a checkpoint stays as long as it is read, and is removed when a later one is written") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  sample.write(folder.path(), 1, 1);
  std::vector<std::string> skipped;
  {
    const auto reader = open_newest_checkpoint(folder.path(), skipped);
    for (const std::int64_t step : {2, 3}) sample.write(folder.path(), step, 1);
    CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000001", "step-00000003"});
    CHECK(sample.is_in(reader->folder()));
    const CheckpointReader copy = *reader;  // keeps it, too
    reader->verify();
  }
  sample.write(folder.path(), 4, 1);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000004"});
  CHECK(skipped.empty());
}

TEST_CASE("the checkpoints with the lowest losses of their own steps are kept besides the newest") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  const auto write = [&](std::int64_t step, std::int64_t evaluated, double loss) {
    CheckpointState state = sample.state();
    state.step = step;
    state.evaluations = EvaluationHistory{evaluated, loss, 1, 0.25, 3, {{"a \"b\" ü", loss}, {"c", 1e300}}};
    const auto path = write_checkpoint(folder.path(), state, sample.slices(), Retention(1, 0, 2));
    CHECK(CheckpointReader(path).state().evaluations == state.evaluations);
  };
  write(10, 10, 2.5);
  write(20, 20, 1.5);
  write(30, 20, 1);  // an evaluation of another step says nothing of these weights
  write(40, 40, 2.5);
  write(50, 50, 3);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000010", "step-00000020", "step-00000050"});
  write(60, 60, 2);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000020", "step-00000060"});
}

TEST_CASE("a search beside a run that replaces its checkpoints finds one that stays, and calls none damaged") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  std::vector<std::int64_t> verified;
  sample.write(folder.path(), 1, 1);
  std::vector<std::string> skipped;
  const auto reader = open_newest_checkpoint(folder.path(), skipped, [&](const CheckpointReader& each) {
    const std::int64_t step = each.state().step;
    verified.push_back(step);
    sample.write(folder.path(), step + 1, 1);
    // As on a file system without locks.
    if (step < 3) fs::remove_all(each.folder());
    each.verify();
  });
  REQUIRE(reader);
  CHECK(verified == std::vector<std::int64_t>{1, 2, 3});
  CHECK(skipped.empty());
  sample.write(folder.path(), 5, 1);
  CHECK(reader->state().step == 3);
  CHECK(sample.is_in(reader->folder()));
}

TEST_CASE("what is being removed cannot be opened") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  const fs::path written = sample.write(folder.path(), 1);
  {
    const auto lease = CheckpointLease::to_remove(written);
    REQUIRE(lease);
    CHECK_THROWS_AS(CheckpointReader(written), CheckpointGone);
  }
  const CheckpointReader reader(written);
  CHECK_FALSE(CheckpointLease::to_remove(written));
}

TEST_CASE("a verification says how far it is, and ends where that throws") {
  const TemporaryDirectory folder;
  SampleCheckpoint sample(1);
  const CheckpointReader reader(sample.write(folder.path(), 1));
  std::vector<double> shares;
  reader.verify({}, [&](double share) { shares.push_back(share); });
  REQUIRE(shares.size() > 1);
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(shares.back() == Approx(1).epsilon(0.01));
  const auto stop = [](double) { throw stopped_while("verifying"); };
  CHECK_THROWS_WITH(reader.verify({}, stop), Catch::Contains("while verifying"));
  std::vector<std::string> skipped;
  CHECK_THROWS_WITH(
      open_newest_checkpoint(folder.path(), skipped, [&](const CheckpointReader& each) { each.verify({}, stop); }),
      Catch::Contains("while verifying"));
}

}  // namespace
}  // namespace llmtrain
