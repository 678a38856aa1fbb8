// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/checkpoint_saver.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/tensor_slice.h"
#include "parallel/comm/communicator.h"
#include "tests/parallel/run/captured_log.h"
#include "tests/parallel/run/full_disk.h"
#include "tests/parallel/run/run_recipe.h"
#include "tests/support/child_process.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TemporaryDirectory;

enum class Mode { synchronous, asynchronous };

CheckpointRecipe recipe_of(Mode mode) {
  CheckpointRecipe recipe;
  recipe.async = mode == Mode::asynchronous;
  return recipe;
}

Communicator& alone() {
  static const std::shared_ptr<Communicator> communicator = make_solo_communicator();
  return *communicator;
}

CheckpointState state_of(std::int64_t step) {
  CheckpointState state;
  state.step = step;
  state.data_position = 8 * step;
  state.recipe = {{"name", "test"}};
  return state;
}

// A model of one weight in two slices and one bias, whose memory changes from step to step.
class Model {
 public:
  void train(float step) {
    std::iota(weight_.begin(), weight_.end(), step);
    std::fill(bias_.begin(), bias_.end(), step);
  }
  std::vector<TensorSlice> slices() const {
    return {{"weight", "F32", {2, half}, {0, 0}, {1, half}, weight_.data()},
            {"weight", "F32", {2, half}, {1, 0}, {1, half}, weight_.data() + half},
            {"bias", "F32", {3}, {0}, {3}, bias_.data()}};
  }
  bool is_in(const fs::path& folder) const {
    const CheckpointReader reader(folder);
    reader.verify();
    std::vector<float> weight(weight_.size()), bias(bias_.size());
    reader.read_box("weight", {{0, 0}, {2, half}}, std::as_writable_bytes(std::span(weight)));
    reader.read_box("bias", {{0}, {3}}, std::as_writable_bytes(std::span(bias)));
    return weight == weight_ && bias == bias_;
  }

 private:
  static constexpr std::int64_t half = 50'000;
  std::vector<float> weight_ = std::vector<float>(2 * half);
  std::vector<float> bias_ = std::vector<float>(3);
};

std::optional<fs::path> newest(const fs::path& checkpoints) {
  std::vector<std::string> skipped;
  const auto found = open_newest_checkpoint(checkpoints, skipped);
  return found ? std::optional(found->folder()) : std::nullopt;
}

std::size_t checkpoints_in(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.is_directory() ? 1 : 0;
  return count;
}

TEST_CASE("without async a checkpoint is on disk when write() returns") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::synchronous), alone());
  Model model;
  model.train(1);
  saver.write(state_of(1), model.slices());
  REQUIRE(newest(folder.path()) == folder.path() / "step-00000001");
  CHECK(model.is_in(folder.path() / "step-00000001"));
}

TEST_CASE("with async the checkpoint has the contents of memory at the call of write()") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  Model saved, model;
  saved.train(1);
  model.train(1);
  saver.write(state_of(1), model.slices());
  for (float step = 2; step < 50; ++step) model.train(step);  // concurrently with the writing thread
  saver.finish();
  CHECK(saved.is_in(folder.path() / "step-00000001"));
  CHECK_FALSE(model.is_in(folder.path() / "step-00000001"));
}

TEST_CASE("checkpoints larger than the memory that was prepared, and after others, have all that was written") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  Model model;
  const std::vector<TensorSlice> slices = model.slices();
  saver.prepare(std::span(slices).first(1));
  for (std::int64_t step = 1; step <= 3; ++step) {
    model.train(static_cast<float>(step));
    saver.write(state_of(step), slices);
    saver.finish();
    CHECK(model.is_in(newest(folder.path()).value()));
  }
}

TEST_CASE("the memory may be freed once write() has returned") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  Model same;
  same.train(3);
  {
    Model model;
    model.train(3);
    saver.write(state_of(3), model.slices());
  }
  saver.finish();
  CHECK(same.is_in(folder.path() / "step-00000003"));
}

TEST_CASE("the last checkpoint takes no memory for a copy") {
  const TemporaryDirectory folder;
  constexpr std::int64_t count = 8'000'000;  // 32 MB
  const std::vector<float> weight(count, 1.5F);
  const std::vector<TensorSlice> slices{{"weight", "F32", {count}, {0}, {count}, weight.data()}};
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  const double before = test::resident_megabytes();
  saver.write(state_of(1), slices, nullptr, CheckpointSaver::Kind::last);
  saver.finish();
  CHECK(test::resident_megabytes() - before < 16);
  CHECK(newest(folder.path()) == folder.path() / "step-00000001");
}

TEST_CASE("the state is written with the tensors") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  CheckpointState state = state_of(5);
  state.skipped = {.total = 4, .in_a_row = 1, .rollbacks = 2};
  // Numbers whose shortest decimal form has 17 digits, or an exponent.
  state.recent = {.losses = {2.3141592653589793, 1e-300, 0.1 + 0.2}, .gradient_norms = {1, 2.5e17, 1.0 / 3}};
  saver.write(state, Model().slices());
  saver.finish();
  const CheckpointReader reader(folder.path() / "step-00000005");
  CHECK(reader.state().skipped == state.skipped);
  CHECK(reader.state().recent == state.recent);
  CHECK(reader.state().step == 5);
  CHECK(reader.state().data_position == 40);
  CHECK(reader.state().recipe["name"] == "test");
}

TEST_CASE("the next write waits for the previous one") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  std::vector<Model> saved(5);
  Model model;
  for (std::int64_t step = 1; step <= 4; ++step) {
    model.train(static_cast<float>(step));
    saved[static_cast<std::size_t>(step)] = model;
    saver.write(state_of(step), model.slices());
    if (step > 1)
      CHECK(saved[static_cast<std::size_t>(step - 1)].is_in(folder.path() /
                                                            fs::path("step-0000000" + std::to_string(step - 1))));
  }
  saver.finish();
  CHECK(saved[4].is_in(folder.path() / "step-00000004"));
  CHECK(newest(folder.path()) == folder.path() / "step-00000004");
}

TEST_CASE("that a write waits long for the previous one is said once") {
  const TemporaryDirectory folder;
  CheckpointRecipe recipe = recipe_of(Mode::asynchronous);
  recipe.every = 5;
  std::vector<std::string> said;
  CheckpointSaver saver(
      folder.path(), recipe, alone(), [&](const std::string& text) { said.push_back(text); }, 0);
  Model model;
  for (const std::int64_t step : {5, 10, 15}) {
    CHECK(said.size() == (step > 10 ? 1 : 0));
    saver.write(state_of(step), model.slices());
  }
  saver.finish();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Contains("the checkpoint of step 10 waited") &&
                               Catch::Contains("until that of step 5 was on the disk") &&
                               Catch::Contains("checkpoint.every = 5"));
  // Without async none waits beside training.
  said.clear();
  CheckpointSaver synchronous(
      folder.path(), recipe_of(Mode::synchronous), alone(), [&](const std::string& text) { said.push_back(text); }, 0);
  for (const std::int64_t step : {20, 25}) synchronous.write(state_of(step), model.slices());
  CHECK(said.empty());
}

TEST_CASE("the recipe's number of checkpoints is kept") {
  for (const Mode mode : {Mode::synchronous, Mode::asynchronous}) {
    for (const std::int64_t keep : {0, 1, 3}) {
      const TemporaryDirectory folder;
      CheckpointRecipe recipe = recipe_of(mode);
      recipe.keep = keep;
      CheckpointSaver saver(folder.path(), recipe, alone());
      for (std::int64_t step = 1; step <= 5; ++step) saver.write(state_of(step), Model().slices());
      saver.finish();
      CHECK(checkpoints_in(folder.path()) == static_cast<std::size_t>(keep == 0 ? 5 : keep));
    }
  }
}

TEST_CASE("checkpoints of steps that keep_every divides are kept besides") {
  const TemporaryDirectory folder;
  CheckpointRecipe recipe = recipe_of(Mode::asynchronous);
  recipe.keep = 1;
  recipe.keep_every = 3;
  CheckpointSaver saver(folder.path(), recipe, alone());
  for (std::int64_t step = 1; step <= 8; ++step) saver.write(state_of(step), Model().slices());
  saver.finish();
  for (std::int64_t step = 1; step <= 8; ++step)
    CHECK(fs::exists(folder.path() / fs::path("step-0000000" + std::to_string(step))) == (step % 3 == 0 || step == 8));
}

TEST_CASE("the log says what a checkpoint took, and when the next one is due") {
  const TemporaryDirectory folder;
  CheckpointRecipe recipe = recipe_of(Mode::asynchronous);
  recipe.every = 5;
  const test::CapturedLog captured;
  CheckpointSaver saver(folder.path(), recipe, alone());
  saver.write(state_of(10), Model().slices());
  saver.finish();
  CHECK_THAT(captured.text(), Catch::Contains("checkpoint of step 10: ") && Catch::Contains("/s); training waited "));
  CHECK_THAT(captured.text(), Catch::Contains("written to " + (folder.path() / "step-00000010").string()));
  CHECK_THAT(captured.text(), Catch::Contains(" for it; the next one is after step 15"));
}

TEST_CASE("the destructor waits until the checkpoint is on disk") {
  const TemporaryDirectory folder;
  Model model;
  model.train(1);
  CheckpointSaver(folder.path(), recipe_of(Mode::asynchronous), alone()).write(state_of(1), model.slices());
  CHECK(model.is_in(folder.path() / "step-00000001"));
}

TEST_CASE("with nothing to write finish() and the destructor return at once") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  saver.finish();
  saver.finish();
  CHECK(checkpoints_in(folder.path()) == 0);
}

TEST_CASE("without async a failure is thrown by its own write") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.write("file", ""), recipe_of(Mode::synchronous), alone());
  CHECK_THAT(error_of([&] { saver.write(state_of(1), Model().slices()); }),
             Catch::StartsWith("73 " + (folder.path() / "file").string()));
  CHECK(error_of([&] { saver.finish(); }) == "no error");
}

TEST_CASE("with async a failure is thrown by finish(), once") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.write("file", ""), recipe_of(Mode::asynchronous), alone());
  CHECK(error_of([&] { saver.write(state_of(1), Model().slices()); }) == "no error");
  CHECK_THAT(error_of([&] { saver.finish(); }), Catch::StartsWith("73 " + (folder.path() / "file").string()));
  CHECK(error_of([&] { saver.finish(); }) == "no error");
}

TEST_CASE("with async a failure is thrown by the next write, which writes nothing; the one after it does") {
  const TemporaryDirectory folder;
  const fs::path place = folder.write("place", "");
  CheckpointSaver saver(place, recipe_of(Mode::asynchronous), alone());
  saver.write(state_of(1), Model().slices());
  CHECK_THAT(error_of([&] { saver.write(state_of(2), Model().slices()); }), Catch::StartsWith("73 " + place.string()));
  fs::remove(place);
  saver.finish();
  CHECK_FALSE(fs::exists(place));
  saver.write(state_of(3), Model().slices());
  saver.finish();
  CHECK(newest(place) == place / "step-00000003");
}

TEST_CASE("with on_failure \"continue\" a regular checkpoint may be missing, the last one not") {
  for (const Mode mode : {Mode::synchronous, Mode::asynchronous}) {
    const TemporaryDirectory folder;
    const fs::path place = folder.write("place", "");
    CheckpointRecipe recipe = recipe_of(mode);
    recipe.every = 5;
    recipe.on_failure = SaveFailure::go_on;
    std::vector<std::string> warnings;
    CheckpointSaver saver(place, recipe, alone(), [&](const std::string& text) { warnings.push_back(text); });
    saver.write(state_of(5), Model().slices());
    saver.finish();
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings.front(), Catch::StartsWith("the checkpoint of step 5 is missing: " + place.string()) &&
                                     Catch::EndsWith("the next one is after step 10"));
    CHECK_FALSE(saver.longest_save());
    const Model model;
    CHECK_THAT(error_of([&] {
                 saver.write(state_of(7), model.slices(), nullptr, CheckpointSaver::Kind::last);
                 saver.finish();
               }),
               Catch::StartsWith("73 " + place.string()));
    fs::remove(place);
    saver.write(state_of(10), Model().slices());
    saver.finish();
    CHECK(newest(place) == place / "step-00000010");
    CHECK(warnings.size() == 1);
    // What is wrong with the state itself is no matter of the disk.
    auto slices = model.slices();
    slices.pop_back();
    slices.pop_back();
    CHECK_THAT(error_of([&] {
                 saver.write(state_of(15), slices);
                 saver.finish();
               }),
               Catch::StartsWith("1 "));
  }
}

TEST_CASE("a failure that was not retrieved is logged by the destructor") {
  const TemporaryDirectory folder;
  const test::CapturedLog messages;
  CheckpointSaver(folder.write("file", ""), recipe_of(Mode::asynchronous), alone())
      .write(state_of(1), Model().slices());
  CHECK_THAT(messages.text(),
             Catch::Contains("the last checkpoint was not saved: " + (folder.path() / "file").string()));
}

TEST_CASE("slices that do not cover their tensor are refused, and an unknown dtype before it is copied") {
  const TemporaryDirectory folder;
  CheckpointSaver saver(folder.path(), recipe_of(Mode::asynchronous), alone());
  const Model model;
  auto slices = model.slices();
  slices[2].dtype = "FLOAT";
  CHECK_THAT(error_of([&] { saver.write(state_of(1), slices); }), Catch::StartsWith("1 ") && Catch::Contains("bias"));
  slices = model.slices();
  slices.erase(slices.begin());
  saver.write(state_of(1), slices);
  CHECK_THAT(error_of([&] { saver.finish(); }), Catch::StartsWith("1 ") && Catch::Contains("weight"));
}

TEST_CASE("on a full disk the failure is reported and the earlier checkpoint stays intact") {
  for (const Mode mode : {Mode::synchronous, Mode::asynchronous}) {
    const TemporaryDirectory folder;
    CHECK(test::in_child([&]() -> std::string {
            const std::string reason = test::limit_room(folder.path(), 1 << 20);
            const fs::path checkpoints = folder.path() / "checkpoints";
            Model model;
            model.train(1);
            CheckpointSaver saver(checkpoints, recipe_of(mode), alone());
            saver.write(state_of(1), model.slices());
            saver.finish();
            const std::vector<float> large(1 << 19);
            const TensorSlice slice{"large", "F32", {1 << 19}, {0}, {1 << 19}, large.data()};
            const std::string error = error_of([&] {
              saver.write(state_of(2), std::span(&slice, 1));
              saver.finish();
            });
            if (!error.starts_with("73 ") || error.find(reason) == std::string::npos) return "threw " + error;
            if (newest(checkpoints) != checkpoints / "step-00000001") return "step 1 is not the newest";
            return model.is_in(checkpoints / "step-00000001") ? "no error" : "step 1 is damaged";
          }) == "no error");
  }
}

}  // namespace
}  // namespace llmtrain
