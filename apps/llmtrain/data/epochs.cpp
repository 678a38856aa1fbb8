// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/data/epochs.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint.h"
#include "core/data/samples/dataset.h"
#include "core/json/json_text.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/schedules/batch_sizes.h"
#include "core/token_files/tokenized_sources.h"
#include "parallel/run/run_beginning.h"
#include "parallel/run/run_directory.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_epochs(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_recipe, file + ": /training/epochs: " + what);
}

// Ranks that a launcher has started count at the same time, and two writers of one token file are refused: one of them
// tokenises meanwhile, and the others find its files then. Where a file system has no locks, they do not wait.
OpenFile lock_for_counting(const fs::path& folder, const DataCache::Stops& stops) {
  create_folder(folder);
  OpenFile file = open_file(folder / "counting.lock", O_RDWR | O_CREAT | O_NOFOLLOW);
  while (file && try_lock(*file, FileLock::exclusive) == FileLocking::taken) {
    if (stops()) throw stopped_while("waiting for another process that counts the samples of an epoch");
    constexpr std::chrono::milliseconds pause(20);
    std::this_thread::sleep_for(pause);
  }
  return file;
}

std::vector<fs::path> kept_token_files(const Recipe& recipe, const DataCache::Stops& stops, const std::string& role) {
  DataCache cache;
  cache.folder = RunDirectory::data_cache_of(recipe);
  check_sources(recipe.data.train, recipe.data.tokenizer, cache, role);
  check_sources(recipe.data.validation, recipe.data.tokenizer, cache, "/data/validation");
  cache.once = [&](const auto& make) {
    const OpenFile lock = lock_for_counting(cache.folder, stops);
    return make(stops);
  };
  return tokenized_sources(recipe.data.train, recipe.data.tokenizer, recipe.model.vocab_size, cache, role,
                           recipe.data.on_bad_line);
}

std::int64_t count_samples(const Recipe& recipe, const EpochCount& count) {
  const std::string role = "/data/train";
  TextFormat format = text_format(recipe);
  if (count.keeps_tokens && may_be_tokens(recipe.data)) format.tokenized = kept_token_files(recipe, count.stops, role);
  const WorkMonitor monitor(count.stops, WorkMonitor::Lines::in_log);
  return Dataset(recipe.data.train, format, recipe.batch.sequence_length, recipe.model.vocab_size, recipe.data.shuffle,
                 recipe.seed, role, monitor)
      .samples();
}

// The plans of a sweep ask for the same data again and again.
std::int64_t samples_of(const Recipe& recipe, const EpochCount& count) {
  static std::map<std::string, std::int64_t> counted;
  const std::string key = fmt::format("{}, {} of {}", to_json(recipe)["data"].dump(), recipe.batch.sequence_length,
                                      recipe.model.vocab_size);
  const auto known = counted.find(key);
  return known != counted.end() ? known->second : counted.emplace(key, count_samples(recipe, count)).first->second;
}

// With which the run goes on; not verified, as only its numbers are read.
std::optional<CheckpointReader> checkpoint_before(const Recipe& recipe) {
  const std::string& resume = recipe.checkpoint.resume;
  if (resume == "never") return std::nullopt;
  const auto newest_of = [](const fs::path& checkpoints) -> std::optional<CheckpointReader> {
    std::error_code failed;
    std::vector<std::string> damaged;
    if (!fs::is_directory(checkpoints, failed)) return std::nullopt;
    return open_newest_checkpoint(checkpoints, damaged, [](const CheckpointReader&) {});
  };
  if (auto own = newest_of(RunDirectory::checkpoints_of(recipe)); own || !names_checkpoint(resume)) return own;
  if (auto newest = newest_of(fs::path(resume) / "checkpoints")) return newest;
  return CheckpointReader(resume);
}

// Only then the number of steps follows from the recipe. Otherwise it would hang on the checkpoint that a run goes on
// from.
void require_batches_of_recipe(const std::string& file, const Recipe& recipe) {
  const auto before = checkpoint_before(recipe);
  if (!before) return;
  const CheckpointState& state = before->state();
  const BatchRecipe &batch = recipe.batch, former = recipe_of(*before).batch;
  const bool are_equal = former.global == batch.global && former.growth == batch.growth;
  // What a run reads after a roll-back follows the data that led to it.
  const bool is_in_place = state.data_position == BatchSizes(batch).samples_before(state.step);
  if (are_equal && (is_in_place || state.skipped.rollbacks > 0)) return;
  refuse_epochs(file,
                fmt::format("{} has read {} in {}, and later steps would read {} each{}: no number of steps is "
                            "known that ends its epochs; give training.steps",
                            before->folder().string(), format_number_of(state.data_position, "sample"),
                            format_number_of(state.step, "step"), batch.global, batch.growth ? " in the end" : ""));
}

}  // namespace

std::int64_t steps_of_epochs(const std::string& file, const Recipe& recipe, const EpochCount& count) {
  const double epochs = recipe.training.epochs.value();
  if (recipe.data.train.empty())
    refuse_epochs(file,
                  number_words(epochs) +
                      " epochs of no data: their steps follow from the samples of data.train, which names none; name "
                      "the data, or give training.steps");
  require_batches_of_recipe(file, recipe);
  const std::int64_t samples = samples_of(recipe, count);
  // What is below it is rounding, of 1.1 epochs of ten samples.
  constexpr double rounding = 1e-12;
  const double wanted = std::ceil(epochs * static_cast<double>(samples) * (1 - rounding));
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (wanted > exact) refuse_epochs(file, number_words(epochs) + " epochs have more samples than can be counted");
  const std::int64_t steps = BatchSizes(recipe.batch).steps_for(static_cast<std::int64_t>(wanted));
  log().debug("{} epochs of {} are {} of {}", number_words(epochs), format_number_of(samples, "sample"),
              format_number_of(steps, "step"), format_number_of(recipe.batch.global, "sequence"));
  return steps;
}

Recipe read_counted_recipe(const std::string& file, const std::vector<Override>& overrides, const EpochCount& count) {
  Recipe recipe = read_recipe(file, overrides);
  if (!recipe.training.counts_steps()) return recipe;
  // Read again, because defaults and rules follow from the steps.
  std::vector<Override> counted = overrides;
  counted.push_back(fmt::format("training.steps={}", steps_of_epochs(file, recipe, count)));
  counted.emplace_back("training.epochs=null");
  return read_recipe(file, counted);
}

}  // namespace llmtrain::app
