// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe_io.h"
#include "parallel/run/run_directory.h"
#include "tests/parallel/run/captured_log.h"
#include "tests/parallel/run/run_recipe.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::run_recipe;
using test::TemporaryDirectory;

fs::path write_step(const fs::path& checkpoints, std::int64_t step, const std::string& began_from = "",
                    const Recipe& recipe = run_recipe("/runs")) {
  const std::array<float, 4> values{1, 2, 3, 4};
  const TensorSlice slice{"weight", "F32", {4}, {0}, {4}, values.data()};
  CheckpointState state;
  state.step = step;
  state.recipe = to_json(recipe);
  state.began_from = began_from;
  return write_checkpoint(checkpoints, state, std::span(&slice, 1), 0);
}

// The folder of the checkpoint.
std::optional<fs::path> resumed(const RunDirectory& directory) {
  const auto found = directory.checkpoint_to_resume();
  return found ? std::optional(found->folder()) : std::nullopt;
}

void damage(const fs::path& checkpoint) {
  for (const auto& entry : fs::directory_iterator(checkpoint))
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
}

TEST_CASE("auto resumes from the newest complete checkpoint and names the damaged ones") {
  const TemporaryDirectory folder;
  const RunDirectory directory(run_recipe(folder.path() / "run"));
  CHECK_FALSE(resumed(directory));
  const fs::path first = write_step(directory.checkpoints(), 1);
  CHECK(resumed(directory) == first);
  const fs::path second = write_step(directory.checkpoints(), 2);
  CHECK(resumed(directory) == second);
  damage(second);
  const test::CapturedLog messages;
  const auto found = resumed(directory);
  CHECK(found == first);
  CHECK_THAT(messages.text(), Catch::Contains(second.string()) && Catch::Contains("skipped"));
}

TEST_CASE("a run whose checkpoints are all damaged does not start over by itself") {
  const TemporaryDirectory folder;
  const RunDirectory directory(run_recipe(folder.path() / "run"));
  damage(write_step(directory.checkpoints(), 1));
  const test::CapturedLog messages;
  CHECK_THAT(error_of([&] { directory.checkpoint_to_resume(); }),
             Catch::StartsWith("65 " + directory.checkpoints().string()) && Catch::Contains("step-00000001") &&
                 Catch::Contains("--resume"));
}

TEST_CASE("resume accepts a checkpoint or a run directory") {
  const TemporaryDirectory folder;
  const fs::path other = folder.path() / "other";
  write_step(other / "checkpoints", 1);
  const fs::path newest = write_step(other / "checkpoints", 2);
  const auto resumed_from = [&](const fs::path& path) {
    const auto recipe = run_recipe(folder.path() / "run", {"checkpoint.resume=\"" + path.string() + "\""});
    return resumed(RunDirectory(recipe));
  };
  CHECK(resumed_from(other / "checkpoints" / "step-00000001") == other / "checkpoints" / "step-00000001");
  CHECK(resumed_from(other) == newest);
  damage(newest);
  const test::CapturedLog messages;
  CHECK(resumed_from(other) == other / "checkpoints" / "step-00000001");
  CHECK_THAT(error_of([&] { resumed_from(newest); }), Catch::StartsWith("65 " + newest.string()));
}

TEST_CASE("resume names what is missing") {
  const TemporaryDirectory folder;
  fs::create_directories(folder.path() / "empty run" / "checkpoints");
  const auto error_of_resume = [&](const fs::path& path) {
    const auto recipe = run_recipe(folder.path() / "run", {"checkpoint.resume=\"" + path.string() + "\""});
    return error_of([&] { RunDirectory(recipe).checkpoint_to_resume(); });
  };
  const fs::path absent = folder.path() / "absent", empty = folder.path() / "empty run", file = folder.write("f", "");
  CHECK(error_of_resume(absent) == "66 " + absent.string() + ": checkpoint.resume names it, but it does not exist");
  // What others call the newest checkpoint.
  CHECK_THAT(error_of_resume(folder.path() / "latest"), Catch::EndsWith("does not exist; did you mean \"auto\"?"));
  CHECK(error_of_resume(empty) ==
        "66 " + empty.string() + ": checkpoint.resume names this run, but it contains no checkpoint");
  CHECK_THAT(error_of_resume(file), Catch::StartsWith("66 " + file.string()));
}

TEST_CASE("the same command again resumes from the run's own checkpoints, not from the one that resume names") {
  const TemporaryDirectory folder;
  const fs::path named = write_step(folder.path() / "other" / "checkpoints", 7);
  const Recipe recipe = run_recipe(folder.path() / "run", {"checkpoint.resume=\"" + named.string() + "\""});
  const RunDirectory directory(recipe);
  CHECK(resumed(directory) == named);
  CHECK(directory.began_from(directory.checkpoint_to_resume()) == named.string());
  const fs::path own = write_step(directory.checkpoints(), 8, named.string());
  CHECK(directory.began_from(directory.checkpoint_to_resume()) == named.string());
  const test::CapturedLog messages;
  CHECK(resumed(directory) == own);
  CHECK_THAT(messages.text(), Catch::Contains("continues from the newest, not from " + named.string()));
  damage(own);
  CHECK(resumed(directory) == named);
}

TEST_CASE("a run that stands elsewhere passes over no checkpoint that resume names") {
  const TemporaryDirectory folder;
  const fs::path run = folder.path() / "run", other = folder.path() / "other";
  const auto resume = [&](const fs::path& path) {
    return run_recipe(run, {"checkpoint.resume=\"" + path.string() + "\""});
  };
  const fs::path foreign = write_step(other / "checkpoints", 7);
  const RunDirectory directory(run_recipe(run));
  const fs::path early = write_step(directory.checkpoints(), 4), newest = write_step(directory.checkpoints(), 12);
  const std::string rest = "; to go on after step 12, set checkpoint.resume to \"auto\"";
  for (const fs::path& path : {foreign, other}) {
    const std::string refusal = error_of([&] { RunDirectory::check(resume(path)); });
    CHECK(refusal == "2 " + run.string() + ": this run stands after step 12 and did not begin with " + path.string() +
                         ", which checkpoint.resume (--resume) names; to start from that, choose a new --run-dir" +
                         rest);
  }
  CHECK_THAT(error_of([&] { RunDirectory::check(resume(early)); }),
             Catch::StartsWith("2 ") && Catch::Contains("or remove the checkpoints that follow it"));
  // Where it stands anyway.
  CHECK_NOTHROW(RunDirectory::check(resume(newest)));
  CHECK_NOTHROW(RunDirectory::check(resume(run)));
  // What it began with: the checkpoint, or its run; and the same command again, also from versions that noted nothing.
  write_step(directory.checkpoints(), 13, foreign.string());
  for (const fs::path& path :
       {foreign, other, other / ".", other / "checkpoints" / ".." / "checkpoints" / "step-00000007"})
    CHECK_NOTHROW(RunDirectory::check(resume(path)));
  CHECK_THAT(error_of([&] { RunDirectory::check(resume(early)); }), Catch::StartsWith("2 "));
  write_step(directory.checkpoints(), 14, "", resume(early));
  CHECK_NOTHROW(RunDirectory::check(resume(early)));
  CHECK_THAT(error_of([&] { RunDirectory::check(resume(foreign)); }), Catch::StartsWith("2 "));
  // With the newer ones removed it goes back.
  for (const char* step : {"step-00000012", "step-00000013", "step-00000014"})
    fs::remove_all(directory.checkpoints() / step);
  const test::CapturedLog messages;
  CHECK_NOTHROW(RunDirectory::check(resume(early)));
}

TEST_CASE("a checkpoint of another model with the same tensor shapes is refused, naming each key") {
  const TemporaryDirectory folder;
  const fs::path named = write_step(folder.path() / "other" / "checkpoints", 1);
  const Recipe recipe = run_recipe(
      folder.path() / "run",
      {"checkpoint.resume=\"" + named.string() + "\"", "model.heads=4", "model.norm_eps=0.001", "model.dropout=0.3"});
  const std::string refusal = error_of([&] { RunDirectory::check(recipe); });
  CHECK_THAT(refusal, Catch::StartsWith("2 /model/heads: is 4 in the recipe and 2 in " + named.string()));
  CHECK_THAT(refusal, Catch::Contains("/model/norm_eps") && !Catch::Contains("dropout"));
  CHECK_FALSE(fs::exists(recipe.log.directory));
}

TEST_CASE("a checkpoint with the states of another optimizer is refused") {
  const TemporaryDirectory folder;
  const fs::path named = write_step(folder.path() / "other" / "checkpoints", 1);
  const Recipe recipe = run_recipe(folder.path() / "run",
                                   {"checkpoint.resume=\"" + named.string() + "\"", "training.optimizer.name=muon"});
  const std::string refusal = error_of([&] { RunDirectory::check(recipe); });
  CHECK(refusal == "2 /training/optimizer/name: is \"muon\" in the recipe and \"adamw\" in " + named.string() +
                       ", whose states are of that optimizer; set it to \"adamw\", or start from the weights alone, "
                       "with training.init_from");
}

}  // namespace
}  // namespace llmtrain
