// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/checkpoint_saver.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "core/checkpoint/finite_weights.h"
#include "core/machine/host_name.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Slices = std::span<const TensorSlice>;

Retention retention(const CheckpointRecipe& recipe) { return {recipe.keep, recipe.keep_every, recipe.keep_best}; }

std::size_t total_bytes(Slices slices) {
  std::int64_t total = 0;
  for (const TensorSlice& slice : slices) total += bytes_of(slice);
  return static_cast<std::size_t>(total);
}

// Copies the slices' data to `memory`, one after another, and makes the slices point there.
void move_into(std::byte* memory, std::vector<TensorSlice>& slices) {
  for (TensorSlice& slice : slices) {
    const auto count = static_cast<std::size_t>(bytes_of(slice));
    if (count > 0) std::memcpy(memory, slice.data, count);
    slice.data = memory;
    memory += count;
  }
}

// Between listings, so that waiting does not load the file system.
constexpr std::chrono::milliseconds listing_interval{50};

// A name that no other run uses, on this host or another one.
std::string unique_name() {
  return "shared-" + std::to_string(::getpid()) + "-" +
         std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
}

// Lists the parent folder instead of looking the name up: network file systems cache for a while that a name does not
// exist.
bool appears(const fs::path& token, std::chrono::milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (true) {
    std::error_code error;
    for (fs::directory_iterator entry(token.parent_path(), error), last; !error && entry != last;
         entry.increment(error))
      if (entry->path().filename() == token.filename()) return true;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(listing_interval);
  }
}

}  // namespace

void check_shared_folder(Communicator& communicator, const fs::path& checkpoints, std::chrono::milliseconds patience) {
  const bool is_first = communicator.rank() == 0;
  const std::string host = share_text(communicator, host_name());
  // A name that clear_leftovers() recognises, so that a killed run leaves nothing for ever.
  const fs::path token = checkpoint_aside(checkpoints, 0, share_text(communicator, unique_name()));
  run_together(communicator, [&] {
    if (!is_first) return;
    make_checkpoint_folder(checkpoints);
    clear_leftovers(checkpoints);
    make_checkpoint_folder(token);
  });
  const auto failure = first_failure(communicator, error_of([&] {
                                       if (appears(token, patience)) return;
                                       throw Error(ExitCode::cannot_write,
                                                   checkpoints.string() + ": on host " + host_name() +
                                                       ", files written by the first rank (on host " + host +
                                                       ") do not appear; all ranks read and write in one folder: "
                                                       "choose a --run-dir on a file system that all nodes share");
                                     }));
  // On failure too: the run ends, and the folder should be as before.
  if (is_first) discard_checkpoint(token);
  if (failure) throw Error(*failure);
}

struct CheckpointSaver::Save {
  Save(const CheckpointState& given, Slices given_slices, std::shared_ptr<const void> given_memory, Kind given_kind,
       std::function<void()> given_fill)
      : kind(given_kind),
        state(given),
        slices(given_slices.begin(), given_slices.end()),
        memory(std::move(given_memory)),
        fill(std::move(given_fill)),
        writer(slices) {}

  enum class Phase { writing, committing };

  // Collective: determines the number of this rank's first file and the total size. Files are numbered by rank, so that
  // no two ranks write the same name.
  void agree_on_files(Communicator& communicator) {
    const auto files = exchange_numbers(communicator, static_cast<std::int64_t>(writer.files()));
    const auto own = files.begin() + communicator.rank();
    numbers.first = static_cast<std::size_t>(std::accumulate(files.begin(), own, std::int64_t{0}));
    numbers.total = static_cast<std::size_t>(std::accumulate(files.begin(), files.end(), std::int64_t{0}));
    const auto each = exchange_numbers(communicator, writer.bytes());
    bytes = std::accumulate(each.begin(), each.end(), std::int64_t{0});
  }

  Kind kind;
  CheckpointState state;
  std::vector<TensorSlice> slices;
  std::shared_ptr<const void> memory;
  std::function<void()> fill;
  PartWriter writer;
  FileNumbers numbers;
  std::int64_t bytes = 0;  // of all ranks
  fs::path aside;
  Clock::time_point start = Clock::now();
  Phase phase = Phase::writing;
  CheckpointPart part;  // valid once it is written
};

void CheckpointSaver::log_warning(const std::string& text) { log().warn("{}", text); }

CheckpointSaver::CheckpointSaver(fs::path checkpoints, const CheckpointRecipe& recipe, Communicator& communicator,
                                 Warn warn, double long_wait)
    : checkpoints_(std::move(checkpoints)),
      recipe_(recipe),
      communicator_(communicator),
      warn_(std::move(warn)),
      writers_(std::to_string(::getpid())),
      long_wait_(long_wait) {
  // A single rank needs no agreement on folders and names.
  if (is_alone()) return;
  // All ranks write into one temporary folder, named after the first rank's process.
  writers_ = share_text(communicator, writers_);
}

CheckpointSaver::~CheckpointSaver() {
  try {
    if (is_alone()) finish();
    // With several ranks the commit is skipped: it is collective, and the other ranks may be gone.
    const auto failure = work_.valid() ? work_.get() : std::nullopt;
    if (failure) throw Error(*failure);
  } catch (const std::exception& error) {
    log().error("the last checkpoint was not saved: {}", error.what());
  }
}

void CheckpointSaver::prepare(Slices slices) { prepare(total_bytes(slices)); }

void CheckpointSaver::prepare(std::size_t bytes) {
  if (!recipe_.async || bytes <= staging_bytes_) return;
  make_staging(bytes);
  // Because the system provides a page when it is first written.
  std::memset(staging_.get(), 0, bytes);
}

std::byte* CheckpointSaver::room_for(std::int64_t next_step, std::size_t bytes) {
  finish_earlier(next_step);
  make_staging(bytes);
  return staging_.get();
}

void CheckpointSaver::make_staging(std::size_t bytes) {
  if (bytes <= staging_bytes_) return;
  finish();  // a write in progress reads the memory
  staging_.reset();
  // One block instead of one per slice, of which there may be thousands.
  staging_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  staging_bytes_ = bytes;
}

void CheckpointSaver::write(const CheckpointState& state, Slices slices, std::shared_ptr<const void> memory, Kind kind,
                            std::function<void()> fill) {
  finish_earlier(state.step);
  stall_.reset();
  const CallTime::Scope stall(stall_);
  auto save = std::make_unique<Save>(state, slices, std::move(memory), kind, std::move(fill));
  // Collectives run here, on the training thread: on the writing thread they could interleave with those of training.
  save->agree_on_files(communicator_);
  // Written under another name and renamed when complete: readers never see a partial checkpoint.
  save->aside = checkpoint_aside(checkpoints_, state.step, writers_);
  // The last checkpoint needs no copy: nothing changes its weights while it is written.
  if (recipe_.async && !save->memory && kind == Kind::regular) {
    prepare(save->slices);
    move_into(staging_.get(), save->slices);
    if (is_first())
      log().debug("checkpoint of step {}: copied in {}", state.step, format_duration(seconds_since(save->start)));
  }
  save_ = std::move(save);
  if (is_alone()) {
    save_->phase = Save::Phase::committing;
    start([this] {
      this->fill(*save_);
      fault_point(FaultPlace::save, 0, save_->state.step);
      require_finite_weights(save_->slices);
      write_checkpoint(checkpoints_, save_->state, save_->slices, retention(recipe_));
    });
  } else {
    start([this] {
      this->fill(*save_);
      fault_point(FaultPlace::save, communicator_.rank(), save_->state.step);
      require_finite_weights(save_->slices);
      save_->part = save_->writer.write(save_->aside, save_->numbers);
    });
  }
  if (!recipe_.async) finish();
}

void CheckpointSaver::fill(const Save& save) const {
  if (!save.fill) return;
  save.fill();
  if (is_first())
    log().debug("checkpoint of step {}: copied in {}", save.state.step, format_duration(seconds_since(save.start)));
}

// One save at a time: there is one memory for copies, and saves that take longer than their interval must not pile up.
void CheckpointSaver::finish_earlier(std::int64_t next_step) {
  if (!save_) return;
  const std::int64_t step = save_->state.step;
  const Clock::time_point start = Clock::now();
  finish();
  const double seconds = seconds_since(start);
  if (!is_first() || has_warned_of_waiting_ || seconds < long_wait_) return;
  has_warned_of_waiting_ = true;
  warn_(
      fmt::format("the checkpoint of step {} waited {} until that of step {} was on the disk: writing one takes longer "
                  "than checkpoint.every = {} steps; set it higher",
                  next_step, format_duration(seconds), step, recipe_.every));
}

void CheckpointSaver::progress() {
  if (!save_) return;
  const CallTime::Scope stall(stall_);
  // All ranks must agree that the writing is done before any of them starts the collective commit.
  const bool has_ended = work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const auto all = exchange_numbers(communicator_, has_ended ? 1 : 0);
  if (std::find(all.begin(), all.end(), 0) == all.end()) go_on();
}

void CheckpointSaver::finish() {
  const CallTime::Scope stall(stall_);
  while (save_) go_on();
}

// Without async the work is deferred and runs inside finish(), on the calling thread.
void CheckpointSaver::start(std::function<void()> work) {
  work_ = std::async(recipe_.async ? std::launch::async : std::launch::deferred,
                     [work = std::move(work)] { return error_of(work); });
}

void CheckpointSaver::go_on() {
  const auto own = work_.get();
  auto save = std::move(save_);  // a failure from here on ends this save
  if (const auto failure = failure_of(*save, own)) {
    if (!is_tolerable(*save, *failure)) throw Error(*failure);
    if (is_first())
      warn_(fmt::format("the checkpoint of step {} is missing: {}; training goes on (checkpoint.on_failure), and {}",
                        save->state.step, failure->what(), next_save(save->state.step)));
    return;
  }
  if (save->phase == Save::Phase::writing) return commit(std::move(save));
  const double seconds = seconds_since(save->start);
  // The longest and not the mean: a run near its time limit has to be sure that its last save fits.
  longest_save_ = std::max(longest_save_.value_or(0), seconds);
  if (is_first()) report(*save, seconds);
}

void CheckpointSaver::report(const Save& save, double seconds) const {
  const double rate = static_cast<double>(save.bytes) / seconds;
  log().debug("checkpoint of step {}: {} written to {} in {} ({}/s); training waited {} for it; {}", save.state.step,
              format_bytes(save.bytes), (checkpoints_ / checkpoint_name(save.state.step)).string(),
              format_duration(seconds), format_bytes(static_cast<std::int64_t>(rate)),
              format_duration(stall_.seconds()), next_save(save.state.step));
}

std::string CheckpointSaver::next_save(std::int64_t step) const {
  if (recipe_.every == 0) return "the next one is at the run's end";
  return "the next one is after step " + std::to_string((step / recipe_.every + 1) * recipe_.every);
}

bool CheckpointSaver::is_tolerable(const Save& save, const Error& failure) const {
  return recipe_.on_failure == SaveFailure::go_on && save.kind == Kind::regular &&
         failure.code() == ExitCode::cannot_write;
}

void CheckpointSaver::commit(std::unique_ptr<Save> save) {
  save->phase = Save::Phase::committing;
  // What the caller lent is written: free it before the next checkpoint brings its own.
  save->memory.reset();
  // Parts are exchanged as manifests, the format that checkpoints already define. Only the first rank commits: it
  // writes the manifest and renames the folder, so that readers see a complete checkpoint or none.
  const auto texts = gather_texts(communicator_, manifest_text(save->part));
  std::vector<CheckpointPart> parts;
  for (const std::string& text : texts) parts.push_back(parse_manifest(text, "a part of a checkpoint", Coverage::part));
  save_ = std::move(save);
  // On all ranks, though only the first one has something to write: go_on() is collective and shares its failure.
  start([this, parts = std::move(parts)] {
    fault_point(FaultPlace::commit, communicator_.rank(), save_->state.step);
    if (is_first()) commit_checkpoint(checkpoints_, save_->aside, save_->state, parts, retention(recipe_));
  });
}

// The same on all ranks, including the first rank's note on free space. What there is of the checkpoint is removed.
std::optional<Error> CheckpointSaver::failure_of(const Save& save, const std::optional<Error>& own) const {
  auto failure = first_failure(communicator_, own);
  if (!failure || is_alone()) return failure;
  std::string note;
  if (is_first()) {
    discard_checkpoint(save.aside);
    if (failure->code() == ExitCode::cannot_write) note = space_note(checkpoints_, save.bytes);
  }
  return Error(failure->code(), failure->what() + share_text(communicator_, note));
}

}  // namespace llmtrain
