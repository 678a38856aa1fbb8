// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/run_directory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/recipe/recipe_io.h"
#include "tests/parallel/run/run_recipe.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::run_recipe;
using test::TemporaryDirectory;

// The contents of a folder: {path: text}.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    files[fs::relative(entry.path(), folder).string()] = entry.is_directory() ? "/" : read_file(entry.path());
  return files;
}

std::string refusal_of(const Recipe& recipe) {
  return error_of([&] { const RunDirectory directory(recipe); });
}

TEST_CASE("a new folder is created, with its parents, the resolved recipe and folders for log and checkpoints") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "runs" / "first";
  const Recipe recipe = run_recipe(path);
  const RunDirectory directory(recipe);
  CHECK(directory.path() == path);
  CHECK(directory.checkpoints() == path / "checkpoints");
  CHECK(directory.log_file() == path / "log" / "rank-00000.log");
  CHECK(fs::is_directory(path / "checkpoints"));
  CHECK(fs::is_directory(path / "log"));
  CHECK(parse_recipe(read_file(path / "recipe.json"), "recipe.json", "/elsewhere") == recipe);
  CHECK_FALSE(directory.checkpoint_to_resume());
}

TEST_CASE("an empty folder and the leftovers of a killed start count as new") {
  const TemporaryDirectory folder;
  CHECK(refusal_of(run_recipe(folder.path())) == "no error");
  const TemporaryDirectory left;
  left.write(".lock", "");
  left.write("recipe.json.tmp", "{\"na");
  left.write("data-cache/vocabulary-rarity-0", "of a start that was killed later");
  fs::create_directories(left.path() / "log");
  fs::create_directories(left.path() / "checkpoints");
  CHECK(refusal_of(run_recipe(left.path(), {"checkpoint.resume=never"})) == "no error");
  CHECK(fs::exists(left.path() / "recipe.json"));
  CHECK_FALSE(fs::exists(left.path() / "recipe.json.tmp"));
}

TEST_CASE("a folder with other files is refused and nothing in it changes") {
  for (const char* name : {"thesis.tex", ".hidden", "metrics.jsonl", "recipe.json", "STOP", "data-cache", "log/old.txt",
                           "checkpoints/latest"}) {
    const TemporaryDirectory folder;
    folder.write(name, "keep me");
    const auto before = contents(folder.path());
    const std::string first = fs::path(name).begin()->string();
    CHECK(refusal_of(run_recipe(folder.path())) ==
          "2 " + folder.path().string() + ": contains " + first +
              " but no run; choose another --run-dir, a new or an empty folder");
    CHECK(contents(folder.path()) == before);
  }
}

TEST_CASE("a file in place of the folder is refused") {
  const TemporaryDirectory folder;
  const fs::path file = folder.write("run", "keep me");
  CHECK(refusal_of(run_recipe(file)) == "73 " + file.string() + ": is not a folder; choose another --run-dir");
  CHECK_THAT(refusal_of(run_recipe(file / "below")), Catch::StartsWith("73 " + (file / "below").string()));
  CHECK(read_file(file) == "keep me");
}

TEST_CASE("the same recipe resumes its run and leaves recipe.json unchanged") {
  const TemporaryDirectory folder;
  const Recipe recipe = run_recipe(folder.path() / "run");
  { const RunDirectory directory(recipe); }
  const auto before = contents(folder.path() / "run");
  const RunDirectory directory(recipe);
  CHECK(contents(folder.path() / "run") == before);
}

TEST_CASE("another recipe is refused with each key that differs, and nothing changes") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  { const RunDirectory directory(run_recipe(path)); }
  const auto before = contents(path);
  CHECK(refusal_of(run_recipe(path, {"seed=7", "model.architecture=gpt-rope", "data.train.0.path=\"/other/text.txt\"",
                                     "parallel.zero_stage=1", "training.clip_norm=2"})) ==
        "2 " + path.string() +
            ": contains the run of another recipe; choose another --run-dir, or set these keys to the run's values:"
            "\n  /seed: 7, in the run 1234; the order of the data and dropout follow from it"
            "\n  /model/architecture: \"gpt-rope\", in the run \"gpt2\"; the run's weights are of its model"
            "\n  /model/position: \"rope\", in the run \"learned\"; the run's weights are of its model"
            "\n  /model/tie_embeddings: false, in the run true; the run's weights are of its model"
            "\n  /data/train/0/path: \"/other/text.txt\", in the run \"/data/text.txt\"; "
            "the run's position in its data counts the samples of these files"
            "\n  /training/clip_norm: 2.0, in the run 1.0; all updates of a run are clipped alike");
  CHECK(contents(path) == before);
}

TEST_CASE("keys whose change would falsify the run are compared") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  { const RunDirectory directory(run_recipe(path)); }
  for (const char* change :
       {"name=other", "model.layers=5", "model.dropout=0.1", "data.shuffle=false", "batch.sequence_length=8",
        "training.clip_norm=0", "training.init_from=\"hf:/gpt2\"", "training.optimizer.beta2=0.99",
        "precision.compute=bf16", "data.train.1={\"path\":\"more.txt\"}",
        "data.tokenizer={\"huggingface\":\"tokenizer.json\"}", "model.moe={\"experts\":4}"}) {
    INFO(change);
    const std::string key = std::string(change).substr(0, std::string(change).find_first_of(".="));
    CHECK_THAT(refusal_of(run_recipe(path, {change})),
               Catch::StartsWith("2 ") && Catch::Contains("another recipe") && Catch::Contains("\n  /" + key));
  }
}

TEST_CASE("a run resumes with other steps, rates and settings, and in another layout") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  { const RunDirectory directory(run_recipe(path)); }
  const auto before = contents(path);
  for (const char* change : {"$schema=recipe.schema.json",
                             "description=\"second try\"",
                             "batch.micro=2",
                             "batch.global=16",
                             "training.steps=11",
                             "training.learning_rate.peak=0.001",
                             "training.learning_rate.schedule=constant",
                             "training.evaluate_batches=2",
                             "data.validation.0={\"path\":\"more.txt\"}",
                             "training.skip_limit=3",
                             "parallel.pipeline=2",
                             "parallel.zero_stage=1",
                             "pipeline.loops=2",
                             "pipeline.balance=[2,2]",
                             "memory.recompute=full",
                             "kernels.attention=math",
                             "cluster.nodes=2",
                             "cluster.device=cpu",
                             "launch.watchdog_seconds=10",
                             "checkpoint.every=5",
                             "checkpoint.async=false",
                             "log.every=10",
                             "log.tensorboard=false"}) {
    INFO(change);
    std::vector<Override> overrides{change};
    if (std::string(change).starts_with("pipeline.balance")) overrides.emplace_back("parallel.pipeline=2");
    CHECK(refusal_of(run_recipe(path, overrides)) == "no error");
    CHECK(contents(path) == before);
  }
}

TEST_CASE("recipe.json becomes that of the steps that follow, and each former one stays") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  const auto kept = [&](const char* name) { return parse_recipe(read_file(path / name), name, "/"); };
  const Recipe first = run_recipe(path), second = run_recipe(path, {"training.steps=20"}),
               third = run_recipe(path, {"training.steps=30"});
  {
    RunDirectory directory(first);
    CHECK_FALSE(directory.former_recipe());
    directory.keep_recipe(0);
  }
  {
    RunDirectory directory(first);
    CHECK(directory.former_recipe() == first);
    const auto before = contents(path);
    directory.keep_recipe(10);
    CHECK(contents(path) == before);
  }
  {
    RunDirectory directory(second);
    CHECK(directory.former_recipe() == first);
    directory.keep_recipe(10);
    CHECK(kept("recipe.json") == second);
    CHECK(kept("recipe-until-step-00000010.json") == first);
  }
  // The second recipe has done no step that a checkpoint holds: the first one reached step 10.
  RunDirectory directory(third);
  directory.keep_recipe(10);
  CHECK(kept("recipe.json") == third);
  CHECK(kept("recipe-until-step-00000010.json") == first);
}

TEST_CASE("a recipe that is changed before the first step leaves no former one") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  { const RunDirectory directory(run_recipe(path)); }
  RunDirectory directory(run_recipe(path, {"training.steps=20"}));
  directory.keep_recipe(0);
  for (const auto& entry : fs::directory_iterator(path))
    CHECK_THAT(entry.path().filename().string(), !Catch::StartsWith("recipe-until"));
}

TEST_CASE("a run whose experts take micro-batches as a whole does not resume with others") {
  for (const auto& [moe, resumes] : std::vector<std::pair<std::string, bool>>{
           {R"({"experts": 4})", false},
           {R"({"experts": 4, "capacity_factor": 0})", false},
           {R"({"experts": 4, "balance_coefficient": 0})", false},
           {R"({"experts": 4, "capacity_factor": 0, "balance_loss": "none"})", true},
           {R"({"experts": 4, "capacity_factor": 0, "balance_coefficient": 0})", true}}) {
    INFO(moe);
    const TemporaryDirectory folder;
    const fs::path path = folder.path() / "run";
    { const RunDirectory directory(run_recipe(path, {"model.moe=" + moe})); }
    const std::string refusal = refusal_of(run_recipe(path, {"model.moe=" + moe, "batch.micro=2"}));
    if (resumes) CHECK(refusal == "no error");
    if (!resumes) CHECK_THAT(refusal, Catch::Contains("\n  /batch/micro: 2, in the run 4"));
  }
}

TEST_CASE("resume=never refuses a folder with a run, whatever its recipe, and changes nothing") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "run";
  { const RunDirectory directory(run_recipe(path, {"checkpoint.resume=never"})); }
  const auto before = contents(path);
  for (const char* seed : {"seed=1234", "seed=7"})
    CHECK(
        refusal_of(run_recipe(path, {"checkpoint.resume=never", seed})) ==
        "2 " + path.string() +
            ": contains a run, and checkpoint.resume is \"never\"; choose another --run-dir, or set checkpoint.resume "
            "to \"auto\" to continue that run");
  CHECK(contents(path) == before);
}

TEST_CASE("an invalid recipe.json is refused and kept") {
  for (const char* text : {"", "{", "{\"model\": 1}", "[]"}) {
    const TemporaryDirectory folder;
    folder.write("recipe.json", text);
    folder.write("metrics.jsonl", "");
    CHECK_THAT(refusal_of(run_recipe(folder.path())),
               Catch::StartsWith("2 " + folder.path().string() + ": contains a recipe.json that is not a run's") &&
                   Catch::Contains("--run-dir"));
    CHECK(contents(folder.path()) == std::map<std::string, std::string>{{"metrics.jsonl", ""}, {"recipe.json", text}});
  }
}

TEST_CASE("a run that another process is training is refused until that process ends") {
  const TemporaryDirectory folder;
  const Recipe recipe = run_recipe(folder.path() / "run");
  const auto from_another_process = [&] { return test::in_child([&] { return refusal_of(recipe); }); };
  {
    const RunDirectory directory(recipe);
    const auto before = contents(folder.path() / "run");
    CHECK(from_another_process() == "2 " + (folder.path() / "run").string() +
                                        ": another process is training in it; wait until it ends, or choose another "
                                        "--run-dir");
    CHECK(contents(folder.path() / "run") == before);
  }
  CHECK(from_another_process() == "no error");
}

TEST_CASE("a folder is locked before there is a run in it, and gone if there never is one") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "runs" / "first";
  const Recipe recipe = run_recipe(path);
  {
    const RunFolderLock lock(recipe);
    fs::create_directories(path / "data-cache");
    CHECK_THAT(test::in_child([&] { return refusal_of(recipe); }),
               Catch::Contains("another process is training in it"));
  }
  CHECK(fs::is_empty(folder.path()));
  {
    const RunFolderLock lock(recipe);
    folder.write("runs/first/data-cache/tokens-1.bin.partial", "to go on with");
  }
  CHECK(contents(path) ==
        std::map<std::string, std::string>{{"data-cache", "/"}, {"data-cache/tokens-1.bin.partial", "to go on with"}});
  CHECK(refusal_of(recipe) == "no error");
}

TEST_CASE("a start that fails leaves a run as it was") {
  const TemporaryDirectory folder;
  const Recipe recipe = run_recipe(folder.path());
  { const RunDirectory directory(recipe); }
  const auto before = contents(folder.path());
  { const RunFolderLock lock(recipe); }
  CHECK(contents(folder.path()) == before);
  {
    RunFolderLock lock(recipe);
    const RunDirectory directory(recipe, std::move(lock));
    CHECK(directory.former_recipe() == recipe);
    CHECK_THAT(test::in_child([&] { return refusal_of(recipe); }),
               Catch::Contains("another process is training in it"));
  }
  CHECK(contents(folder.path()) == before);
}

TEST_CASE("a process that is killed leaves no lock") {
  const TemporaryDirectory folder;
  const Recipe recipe = run_recipe(folder.path() / "run");
  CHECK(test::in_child([&]() -> std::string {
          const RunDirectory directory(recipe);
          std::raise(SIGKILL);
          return "alive";
        }) == "killed by signal " + std::to_string(SIGKILL));
  CHECK(refusal_of(recipe) == "no error");
}

TEST_CASE("of several processes that start at the same time in a new folder, one trains") {
  const TemporaryDirectory folder;
  constexpr int processes = 8;
  for (int round = 0; round < 10; ++round) {
    const Recipe recipe = run_recipe(folder.path() / std::to_string(round));
    std::array<int, 2> start{}, answer{}, end{};
    REQUIRE((::pipe(start.data()) == 0 && ::pipe(answer.data()) == 0 && ::pipe(end.data()) == 0));
    std::vector<pid_t> children;
    for (int i = 0; i < processes; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(start[1]);
        ::close(end[1]);
        char byte = 0;
        bool reported = ::read(start[0], &byte, 1) == 0;
        try {
          const RunDirectory directory(recipe);
          reported = reported && ::write(answer[1], "1", 1) == 1 && ::read(end[0], &byte, 1) == 0;
        } catch (const Error& error) {
          reported = reported && ::write(answer[1], error.code() == ExitCode::bad_recipe ? "0" : "?", 1) == 1;
        }
        ::_exit(reported ? 0 : 1);
      }
      children.push_back(child);
    }
    ::close(start[1]);
    std::string answers(processes, ' ');
    for (char& character : answers) REQUIRE(::read(answer[0], &character, 1) == 1);
    for (const int descriptor : {start[0], answer[0], answer[1], end[0], end[1]}) ::close(descriptor);
    for (const pid_t child : children) {
      int status = -1;
      REQUIRE(::waitpid(child, &status, 0) == child);
      CHECK(status == 0);
    }
    std::sort(answers.begin(), answers.end());
    CHECK(answers == "00000001");
    CHECK(refusal_of(recipe) == "no error");
  }
}

TEST_CASE("killed at any point of its start, the folder counts as new or as the run", "[rights]") {
  if (!test::tracing_is_allowed()) return;
  const TemporaryDirectory folder;
  bool killed = true;
  for (int call = 0; killed; ++call) {
    const Recipe recipe = run_recipe(folder.path() / std::to_string(call));
    killed = test::killed_at_system_call(call, [&] { const RunDirectory directory(recipe); });
    INFO("killed in front of system call " << call);
    REQUIRE(refusal_of(recipe) == "no error");
    REQUIRE(parse_recipe(read_file(fs::path(recipe.log.directory) / "recipe.json"), "recipe.json", "/") == recipe);
    CHECK((!killed || call < 1000));
  }
}

}  // namespace
}  // namespace llmtrain
