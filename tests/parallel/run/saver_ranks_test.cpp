// SPDX-License-Identifier: Apache-2.0
// Ranks that write a checkpoint together, and failures on one of them.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "core/checkpoint/tensor_slice.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/run/checkpoint_saver.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::TemporaryDirectory;

constexpr int ranks = 4;
constexpr std::int64_t part = 1000;

CheckpointRecipe recipe_of(bool async) {
  CheckpointRecipe recipe;
  recipe.async = async;
  return recipe;
}

CheckpointState step_state(std::int64_t step) {
  CheckpointState state;
  state.step = step;
  state.recipe = {{"name", "test"}};
  return state;
}

// A quarter of a vector whose numbers encode step and position.
class Quarter {
 public:
  explicit Quarter(int rank) : begin_(rank * part), values_(part) {}
  TensorSlice at_step(std::int64_t step) {
    for (std::int64_t i = 0; i < part; ++i)
      values_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(begin_ + i + 10'000 * step);
    return {"w", "I32", {ranks * part}, {begin_}, {part}, values_.data()};
  }

 private:
  std::int64_t begin_;
  std::vector<std::int32_t> values_;
};

void check_contents(const fs::path& folder, std::int64_t step) {
  const CheckpointReader reader(folder);
  reader.verify();
  std::vector<std::int32_t> values(ranks * part);
  reader.read_box("w", {{0}, {ranks * part}}, std::as_writable_bytes(std::span(values)));
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == static_cast<std::int32_t>(i) + 10'000 * step);
}

// The error of each rank, as "73 message"; all ranks end alike.
template <class Work>
std::vector<std::string> errors_of(Work work) {
  std::vector<std::string> errors(ranks);
  LocalWorld(ranks).run([&](Communicator& communicator) {
    try {
      work(communicator);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(communicator.rank())] =
          std::to_string(static_cast<int>(error.code())) + " " + error.what();
    }
  });
  return errors;
}

void write(CheckpointSaver& saver, std::int64_t step, const TensorSlice& slice) {
  saver.write(step_state(step), std::span(&slice, 1));
}

}  // namespace

TEST_CASE("ranks write one checkpoint after the other", "[ranks]") {
  const bool async = GENERATE(false, true);
  const TemporaryDirectory folder;
  LocalWorld(ranks).run([&](Communicator& communicator) {
    CheckpointSaver saver(folder.path() / "checkpoints", recipe_of(async), communicator);
    Quarter quarter(communicator.rank());
    for (std::int64_t step = 1; step <= 5; ++step) {
      write(saver, step, quarter.at_step(step));
      saver.progress();
      quarter.at_step(100);  // the memory changes during the write
      saver.progress();
    }
    saver.finish();
  });
  const fs::path checkpoints = folder.path() / "checkpoints";
  CHECK(names_in(checkpoints) == std::set<std::string>{"latest", "step-00000003", "step-00000004", "step-00000005"});
  for (std::int64_t step = 3; step <= 5; ++step) check_contents(checkpoints / checkpoint_name(step), step);
}

TEST_CASE("a checkpoint completes between steps without any rank waiting for it", "[ranks]") {
  const TemporaryDirectory folder;
  LocalWorld(ranks).run([&](Communicator& communicator) {
    CheckpointSaver saver(folder.path(), recipe_of(true), communicator);
    Quarter quarter(communicator.rank());
    write(saver, 1, quarter.at_step(1));
    // All ranks poll at the same time, and continue together.
    bool there = false;
    while (!there) {
      saver.progress();
      std::uint8_t seen = fs::exists(folder.path() / "latest") ? 1 : 0;
      communicator.broadcast(communicator.world(), Purpose::control, {&seen, 1, ElementType::uint8}, 0).wait();
      there = seen == 1;
    }
    saver.finish();
  });
  check_contents(folder.path() / "step-00000001", 1);
}

TEST_CASE("a rank that cannot write stops all with one message, and the earlier checkpoint stays", "[ranks]") {
  const bool async = GENERATE(false, true);
  const TemporaryDirectory folder;
  const auto errors = errors_of([&](Communicator& communicator) {
    CheckpointSaver saver(folder.path(), recipe_of(async), communicator);
    Quarter quarter(communicator.rank());
    write(saver, 1, quarter.at_step(1));
    saver.finish();
    // A folder is in the place of rank 2's file.
    if (communicator.rank() == 2)
      fs::create_directories(checkpoint_aside(folder.path(), 2, std::to_string(::getpid())) /
                             "tensors-00003-of-00004.safetensors.tmp");
    communicator.barrier(communicator.world()).wait();
    write(saver, 2, quarter.at_step(2));
    saver.finish();
  });
  for (const std::string& error : errors) CHECK(error == errors.front());
  CHECK_THAT(errors.front(), Catch::StartsWith("73 rank 2: ") && Catch::Contains("tensors-00003-of-00004") &&
                                 Catch::Contains("takes about 16000 bytes") && Catch::Contains("are free there"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000001"});
  check_contents(folder.path() / "step-00000001", 1);
}

TEST_CASE("with on_failure \"continue\" all ranks go on without the checkpoint that one cannot write", "[ranks]") {
  const bool async = GENERATE(false, true);
  const TemporaryDirectory folder;
  std::vector<std::string> warnings;
  const auto errors = errors_of([&](Communicator& communicator) {
    CheckpointRecipe recipe = recipe_of(async);
    recipe.on_failure = SaveFailure::go_on;
    CheckpointSaver saver(folder.path(), recipe, communicator,
                          [&](const std::string& text) { warnings.push_back(text); });
    Quarter quarter(communicator.rank());
    if (communicator.rank() == 2)
      fs::create_directories(checkpoint_aside(folder.path(), 1, std::to_string(::getpid())) /
                             "tensors-00003-of-00004.safetensors.tmp");
    communicator.barrier(communicator.world()).wait();
    for (const std::int64_t step : {1, 2}) write(saver, step, quarter.at_step(step));
    saver.finish();
  });
  CHECK(errors == std::vector<std::string>(ranks));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(),
             Catch::StartsWith("the checkpoint of step 1 is missing: rank 2: ") && Catch::Contains("are free there"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000002"});
  check_contents(folder.path() / "step-00000002", 2);
}

TEST_CASE("if the first rank cannot install the checkpoint, all ranks fail", "[ranks]") {
  const bool async = GENERATE(false, true);
  const TemporaryDirectory folder;
  const auto errors = errors_of([&](Communicator& communicator) {
    CheckpointSaver saver(folder.path(), recipe_of(async), communicator);
    Quarter quarter(communicator.rank());
    TensorSlice slice = quarter.at_step(1);
    if (communicator.rank() == 3) slice.offset = {0};  // the first rank's place
    write(saver, 1, slice);
    saver.finish();
  });
  for (const std::string& error : errors) CHECK(error == errors.front());
  CHECK_THAT(errors.front(), Catch::StartsWith("1 the new checkpoint: tensor \"w\" has slices that do not cover"));
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("leftovers of ranks that fail during a write are removed by the next run", "[ranks]") {
  const TemporaryDirectory folder;
  const auto run = [&](bool fails) {
    LocalWorld(ranks).run([&](Communicator& communicator) {
      CheckpointSaver saver(folder.path(), recipe_of(true), communicator);
      Quarter quarter(communicator.rank());
      write(saver, 1, quarter.at_step(1));
      if (fails) throw Error(ExitCode::internal_error, "lost");
      saver.finish();
    });
  };
  CHECK_THROWS_WITH(run(true), Catch::Contains("lost"));
  CHECK_FALSE(fs::exists(folder.path() / "step-00000001"));
  run(false);
  CHECK(names_in(folder.path()) == std::set<std::string>{"latest", "step-00000001"});
}

TEST_CASE("ranks that do not share a folder are reported at once", "[ranks]") {
  const TemporaryDirectory folder;
  const auto errors = errors_of([&](Communicator& communicator) {
    const std::string own = communicator.rank() == 3 ? "elsewhere" : "shared";
    check_shared_folder(communicator, folder.path() / own, std::chrono::milliseconds(100));
  });
  for (const std::string& error : errors) CHECK(error == errors.front());
  CHECK_THAT(errors.front(), Catch::StartsWith("73 rank 3: " + (folder.path() / "elsewhere").string()) &&
                                 Catch::Contains("on host ") && Catch::Contains("--run-dir"));
  CHECK(fs::is_empty(folder.path() / "shared"));
  for (const std::string& error : errors_of([&](Communicator& communicator) {
         check_shared_folder(communicator, folder.path() / "shared", std::chrono::milliseconds(100));
       }))
    CHECK(error.empty());
}

}  // namespace llmtrain
