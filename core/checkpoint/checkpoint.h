// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/long_work.h"
#include "core/checkpoint/checkpoint_lease.h"
#include "core/checkpoint/safetensors.h"
#include "core/recipe/recipe.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {

// A checkpoint is a folder with manifest.json and safetensors files. The manifest lists every logical tensor with its
// dtype, shape and scale, which slice of it is in which file, and a SHA-256 of each file. It does not mention ranks, so
// any layout reads any checkpoint. Links no LibTorch.

struct Manifest;  // core/checkpoint/manifest.h documents manifest.json
struct SliceBox;  // core/checkpoint/tensor_slice.h

// A contiguous slice of a logical tensor, in memory that the caller owns, or made by `content` when its turn comes. For
// a whole tensor `offset` is all zeros and `slice_shape` equals `shape`.
struct TensorSlice {
  std::string name;
  std::string dtype;  // safetensors' names: "F32", "BF16", "F16", "F64", "I64", …
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> slice_shape;
  const void* data = nullptr;
  double scale = 1;
  TensorContent content{};
};

// Bytes of the slice. Throws Error(internal_error) for a dtype or a shape without a size.
std::int64_t bytes_of(const TensorSlice& slice);

// Updates that were skipped because the gradient norm was not finite, or for a spike of it or the loss.
struct SkippedUpdates {
  std::int64_t total = 0;      // of the run
  std::int64_t in_a_row = 0;   // the last ones
  std::int64_t rollbacks = 0;  // times that the run has returned to a checkpoint for them

  bool operator==(const SkippedUpdates&) const = default;
};

// Loss and gradient norm of the last updates, the oldest first, by which spikes are found; both of one length, and
// empty where nothing looks for spikes.
struct RecentUpdates {
  std::vector<double> losses;
  std::vector<double> gradient_norms;

  bool operator==(const RecentUpdates&) const = default;
};

// What a run's evaluations have come to. A loss that is not finite counts as the largest number.
struct EvaluationHistory {
  std::int64_t step = 0;                               // of the newest one
  double loss = 0;                                     // of the newest one
  std::int64_t best_step = 0;                          // of the last one that was progress
  double best_loss = 0;                                // of the same
  std::int64_t without_progress = 0;                   // those since
  std::vector<std::pair<std::string, double>> sets{};  // of the newest one: losses of named sets of validation data

  bool operator==(const EvaluationHistory&) const = default;
};

// The model that adapters were trained over, where a checkpoint holds these without it.
struct BaseModel {
  std::string source;       // as training.init_from names it
  std::string fingerprint;  // base_fingerprint(), core/huggingface/adapted_base.h

  bool operator==(const BaseModel&) const = default;
};

struct CheckpointState {
  std::int64_t step = 0;           // training steps done
  std::int64_t data_position = 0;  // samples consumed
  std::int64_t seed = 0;           // all random streams follow from seed and step
  nlohmann::ordered_json recipe;   // the resolved recipe
  SkippedUpdates skipped{};
  RecentUpdates recent{};
  std::optional<std::int64_t> tokens{};  // trained on; none: all of the samples consumed
  std::vector<std::int64_t> samples{};   // of each training source, by which data_position counts; empty: unknown
  std::string began_from{};              // the checkpoint of another run with which this one began; empty: none
  bool evaluation_is_due = false;        // the one after this step was stopped: who goes on from here repeats it
  std::optional<EvaluationHistory> evaluations{};  // none: there were none
  std::optional<BaseModel> base{};                 // whose frozen parameters are left out; none: all are there
};

inline constexpr std::int64_t default_file_bytes = 5'000'000'000;

// Which checkpoints stay when one is written: the `newest` (0: all), and besides them those of steps that `every`
// divides (0: none), and the `best`, with the lowest losses of evaluations at their own steps (0: none; of equal ones
// the earlier).
struct Retention {
  Retention(std::int64_t given_newest, std::int64_t given_every = 0, std::int64_t given_best = 0)
      : newest(given_newest), every(given_every), best(given_best) {}

  std::int64_t newest;
  std::int64_t every;
  std::int64_t best;
};

// Writes `<checkpoints>/step-00000100` (named after state.step) so that no reader ever sees an incomplete one: into a
// folder beside it, flushing every file; then renames that folder and replaces `<checkpoints>/latest`. Then removes all
// but those that `keep` names, never the one just written nor one that is being read. Leftovers of a killed write are
// removed first. Returns the folder. Throws Error(cannot_write) with path and reason (for a full disk, how much is
// needed and free) and leaves earlier checkpoints as they were; throws Error(internal_error) for slices that do not
// cover their tensors. A slice is never split over files; a new file is started when the current one would exceed
// `file_bytes`. One writer per folder at a time; checkpoint_part.h supports several.
std::filesystem::path write_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state,
                                       std::span<const TensorSlice> tensors, const Retention& keep,
                                       std::int64_t file_bytes = default_file_bytes);

// Writes a checkpoint that is no run's as `folder` itself, which does not exist or is empty, and only appears when it
// is complete. `add_files` may first write files of its own into the folder that it is given. Throws as
// write_checkpoint(), and what `add_files` and the contents of tensors throw.
void write_lone_checkpoint(const std::filesystem::path& folder, const CheckpointState& state,
                           std::span<const TensorSlice> tensors,
                           const std::function<void(const std::filesystem::path&)>& add_files,
                           std::int64_t file_bytes = default_file_bytes);

struct LogicalTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  double scale = 1;

  bool operator==(const LogicalTensor&) const = default;
};

class CheckpointReader {
 public:
  // Reads the manifest and checks its consistency, including that the slices cover every tensor. Throws
  // Error(missing_input) without a manifest, Error(bad_data) when it is malformed or names files outside the folder.
  // While a reader or a copy of it exists, a run beside it does not remove the checkpoint; throws CheckpointGone where
  // it just has.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointState& state() const;
  const std::vector<LogicalTensor>& tensors() const;
  const LogicalTensor* find(const std::string& name) const;

  // Compares size and SHA-256 of every file with the manifest, and its slices with what the file holds. Throws
  // Error(bad_data) that names the file and its tensors. Symbolic links are refused. When several readers share the
  // work, each verifies every `readers`-th file.
  struct VerifyShare {
    std::size_t reader = 0;
    std::size_t readers = 1;
  };
  void verify() const { verify(VerifyShare{}); }
  void verify(const VerifyShare& share, const ReportShare& report = report_nothing) const;

  // A box of the tensor into `destination` of exactly that many bytes. Reads no other elements and no other files.
  // Threads may read at the same time. Throws Error(bad_data) when the files are not what the manifest says (sizes and
  // shapes; only verify() compares hashes), Error(internal_error) for a tensor or a box that does not exist.
  void read_box(const std::string& name, const SliceBox& box, std::span<std::byte> destination) const;

 private:
  struct OpenFiles;
  std::filesystem::path folder_;
  CheckpointLease lease_;  // before the manifest is read
  std::shared_ptr<const Manifest> manifest_;
  std::shared_ptr<OpenFiles> open_;
};

// Verifies all files of a checkpoint; throws Error(bad_data) where it is damaged or incomplete.
using VerifyCheckpoint = std::function<void(const CheckpointReader&)>;
inline void verify_alone(const CheckpointReader& checkpoint) { checkpoint.verify(); }

// The newest intact checkpoint of the folder: the one that `latest` names if it verifies, else the newest other one
// that does. Those that are passed over are listed in `skipped` with the reason. None when there is none. A run may
// write and remove checkpoints meanwhile: what it has removed is no reason, and the search begins again. Throws
// Error(bad_data) when the folder exists and cannot be listed, and passes on what `verify` throws of another kind.
std::optional<CheckpointReader> open_newest_checkpoint(const std::filesystem::path& checkpoints,
                                                       std::vector<std::string>& skipped,
                                                       const VerifyCheckpoint& verify = verify_alone);

// The recipe of the run that wrote a checkpoint, changed by `overrides`. The manifest is data, so an unreadable recipe
// in it is Error(bad_data); mistakes in the overrides are Error(bad_recipe).
Recipe recipe_of(const CheckpointReader& checkpoint, const std::vector<Override>& overrides = {});

// Throws Error(bad_recipe) that names every key in which `model` computes something else than the model of the
// checkpoint: tensors of equal shapes do not imply the same model. Keys of training alone may differ: dropout, and of
// experts capacity, priority, losses and jitter. Throws what recipe_of() throws.
void check_same_model(const ModelRecipe& model, const CheckpointReader& checkpoint);

// The same for a model that starts from the weights of `origin`, the model of the file `source`: how rotary positions
// turn, and how far, may differ, too.
void check_origin(const ModelRecipe& model, const ModelRecipe& origin, const std::string& source);
void check_origin(const ModelRecipe& model, const CheckpointReader& checkpoint);

}  // namespace llmtrain
