// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view replaced_ending = ".replaced";
constexpr std::string_view aside_mark = ".tmp-";

[[noreturn]] void cannot_write(const fs::path& path, const std::string& what, const std::string& reason) {
  throw Error(ExitCode::cannot_write, path.string() + ": " + what + ": " + reason);
}

// Read completely before anything is renamed or removed: changing a folder while it is listed may skip entries.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  if (!entry_exists(folder)) return paths;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  if (error)
    throw Error(ExitCode::bad_data, folder.string() + ": its checkpoints cannot be listed: " + error.message());
  return paths;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) cannot_write(to, "cannot be put in place", error.message());
}

void remove_or_throw(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) cannot_write(path, "cannot be removed", error.message());
}

// The step of a name with an ending: "step-00000100.replaced".
std::optional<std::int64_t> leading_step(const std::string& name) {
  return checkpoint_step(name.substr(0, name.find('.')));
}

// Only names that this program gives: other files in the folder are not ours to remove.
bool is_aside(const std::string& name) { return leading_step(name) && name.find(aside_mark) != std::string::npos; }

bool is_replaced(const std::string& name) {
  return leading_step(name) && name == checkpoint_name(*leading_step(name)).append(replaced_ending);
}

fs::path without_ending(const fs::path& replaced) {
  const std::string text = replaced.string();
  return text.substr(0, text.size() - replaced_ending.size());
}

// Renamed first, so that a kill during the removal leaves no incomplete checkpoint under its name.
void remove_checkpoint(const fs::path& path) {
  const fs::path aside = path.string() + std::string(aside_mark) + "removed";
  remove_or_throw(aside);
  rename_or_throw(path, aside);
  remove_or_throw(aside);
}

// The step that `latest` names. None without the file, or when its content is invalid; `skipped` then has the reason.
std::optional<std::int64_t> latest_step(const fs::path& file, std::vector<std::string>& skipped) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return std::nullopt;
  try {
    std::string text = read_text_file(file);
    if (text.ends_with('\n')) text.pop_back();
    const auto step = checkpoint_step(text);
    if (!step) skipped.push_back(file.string() + ": does not contain the name of a checkpoint; it is ignored");
    return step;
    // `latest` is only a hint: without it the newest intact checkpoint is found by its name.
  } catch (const Error& refusal) {
    skipped.emplace_back(refusal.what());
    return std::nullopt;
  }
}

// The checkpoint if it is whole; else the reason is added to `skipped`. Throws CheckpointGone.
std::optional<CheckpointReader> whole_checkpoint(const CheckpointFolder& folder, std::vector<std::string>& skipped,
                                                 const VerifyCheckpoint& verify) {
  try {
    const CheckpointReader reader(folder.path);
    // A folder that was renamed by hand would resume at another step than its name promises.
    if (reader.state().step != folder.step)
      throw Error(ExitCode::bad_data, folder.path.string() + ": holds step " + std::to_string(reader.state().step) +
                                          ", which is not the step of its name");
    verify(reader);
    return reader;
  } catch (const CheckpointGone&) {
    throw;
  } catch (const Error& error) {
    // Other errors, such as a lost rank, do not mean that the checkpoint is damaged.
    if (error.code() != ExitCode::bad_data && error.code() != ExitCode::missing_input) throw;
    // On file systems without locks it may be removed while it is read.
    if (!entry_exists(folder.path)) throw CheckpointGone(folder.path);
    skipped.emplace_back(error.what());
    return std::nullopt;
  }
}

// As open_newest_checkpoint(), but throws CheckpointGone where the folder changed meanwhile.
std::optional<CheckpointReader> search_once(const fs::path& checkpoints, std::vector<std::string>& skipped,
                                            const VerifyCheckpoint& verify) {
  const auto latest = latest_step(checkpoints / "latest", skipped);
  std::vector<CheckpointFolder> folders = list_checkpoints(checkpoints);
  const auto named = [&latest](const CheckpointFolder& folder) { return latest && folder.step == *latest; };
  if (latest && std::none_of(folders.begin(), folders.end(), named)) {
    std::vector<std::string> ignored;
    if (latest_step(checkpoints / "latest", ignored) != latest)
      throw CheckpointGone(checkpoints / checkpoint_name(*latest));
    skipped.push_back((checkpoints / "latest").string() + ": names " + checkpoint_name(*latest) +
                      ", which does not exist");
  }
  // The one that `latest` names first, then the others from the newest to the oldest.
  std::stable_partition(folders.begin(), folders.end(), named);
  for (const CheckpointFolder& folder : folders)
    if (auto whole = whole_checkpoint(folder, skipped, verify)) return whole;
  return std::nullopt;
}

// The loss of the evaluation after the checkpoint's own step; none where there was none, or it cannot be read.
std::optional<double> own_loss(const CheckpointFolder& folder) {
  try {
    const auto history = CheckpointReader(folder.path).state().evaluations;
    return history && history->step == folder.step ? std::optional(history->loss) : std::nullopt;
  } catch (const Error& error) {
    log().warn("{}", error.what());
    return std::nullopt;
  }
}

// The steps of the `count` checkpoints with the lowest losses.
std::set<std::int64_t> best_steps(const std::vector<CheckpointFolder>& folders, std::int64_t count) {
  std::vector<std::pair<double, std::int64_t>> losses;
  if (count > 0)
    for (const CheckpointFolder& folder : folders)
      if (const auto loss = own_loss(folder)) losses.emplace_back(*loss, folder.step);
  std::ranges::sort(losses);
  losses.resize(std::min(losses.size(), static_cast<std::size_t>(count)));
  std::set<std::int64_t> steps;
  for (const auto& [loss, step] : losses) steps.insert(step);
  return steps;
}

}  // namespace

// Padded, so that names sort by step.
std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::optional<std::int64_t> checkpoint_step(std::string_view name) {
  constexpr std::string_view start = "step-";
  if (!name.starts_with(start)) return std::nullopt;
  const std::string_view digits = name.substr(start.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // The name must be the one that the step would get: no other number of zeros, no sign.
  if (error != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

void make_checkpoint_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error))
    cannot_write(folder, "cannot be created", error ? error.message() : "something else has this name");
}

std::vector<CheckpointFolder> list_checkpoints(const fs::path& checkpoints) {
  std::vector<CheckpointFolder> folders;
  for (const fs::path& path : entries_of(checkpoints)) {
    const std::string name = path.filename().string();
    // A write was killed between its two renames: the earlier checkpoint is still whole under this name.
    const bool counts = is_replaced(name) && !entry_exists(without_ending(path));
    const auto step = counts ? leading_step(name) : checkpoint_step(name);
    std::error_code error;
    if (step && fs::is_directory(path, error)) folders.push_back({*step, path});
  }
  std::sort(folders.begin(), folders.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return folders;
}

// Called before each write, when no other write can be under way in this folder.
void clear_leftovers(const fs::path& checkpoints) {
  for (const fs::path& path : entries_of(checkpoints)) {
    const std::string name = path.filename().string();
    if (is_aside(name)) remove_or_throw(path);
    if (!is_replaced(name)) continue;
    // With its successor in place the earlier checkpoint is obsolete; without, it gets its name back.
    if (entry_exists(without_ending(path)))
      remove_checkpoint(path);
    else
      rename_or_throw(path, without_ending(path));
  }
}

void put_checkpoint_in_place(const fs::path& aside, const fs::path& place) {
  if (!entry_exists(place)) {
    rename_or_throw(aside, place);
    flush_directory(place.parent_path());
    return;
  }
  // Exchanged in one call, so that at any moment one whole checkpoint has this name.
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    // Errors of a kernel or file system that cannot exchange; any other is a failure.
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
      cannot_write(place, "cannot be replaced", std::strerror(errno));
    put_checkpoint_in_two_steps(aside, place);
    return;
  }
  // The exchange is on the disk before `aside`, which is the earlier checkpoint now, is removed.
  flush_directory(place.parent_path());
  remove_or_throw(aside);
}

void put_checkpoint_in_two_steps(const fs::path& aside, const fs::path& place) {
  // Killed after the first rename, list_checkpoints() still finds the earlier one under its ".replaced" name.
  const fs::path replaced = place.string() + std::string(replaced_ending);
  rename_or_throw(place, replaced);
  rename_or_throw(aside, place);
  flush_directory(place.parent_path());
  remove_checkpoint(replaced);
}

void remove_old_checkpoints(const fs::path& checkpoints, const fs::path& written, const Retention& keep) {
  if (keep.newest == 0) return;
  std::vector<CheckpointFolder> folders = list_checkpoints(checkpoints);
  const std::set<std::int64_t> best = best_steps(folders, keep.best);
  for (std::size_t i = static_cast<std::size_t>(keep.newest); i < folders.size(); ++i) {
    // After a restart from an earlier step, the checkpoint just written need not be among the newest.
    if (folders[i].path.filename() == written.filename()) continue;
    if (keep.every > 0 && folders[i].step % keep.every == 0) continue;
    if (best.contains(folders[i].step)) continue;
    try {
      const auto lease = CheckpointLease::to_remove(folders[i].path);
      if (lease) remove_checkpoint(folders[i].path);
      if (!lease) log().debug("{}: is being read, and removed after a later checkpoint", folders[i].path.string());
    } catch (const Error& error) {
      log().warn("an old checkpoint was not removed: {}", error.what());
    }
  }
}

std::optional<CheckpointReader> open_newest_checkpoint(const fs::path& checkpoints, std::vector<std::string>& skipped,
                                                       const VerifyCheckpoint& verify) {
  // Each further search follows a checkpoint that was removed after it was listed; no run is that fast for long.
  constexpr int most_searches = 100;
  for (int search = 1;; ++search) {
    std::vector<std::string> reasons;
    try {
      auto newest = search_once(checkpoints, reasons, verify);
      skipped.insert(skipped.end(), reasons.begin(), reasons.end());
      return newest;
    } catch (const CheckpointGone&) {
      if (search == most_searches) throw;
    }
  }
}

}  // namespace llmtrain
