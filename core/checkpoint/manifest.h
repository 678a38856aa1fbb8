// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/tensor_slice.h"

namespace llmtrain {

// manifest.json, format version 1:
//   format         "llmtrain checkpoint"
//   version        1; a reader refuses others
//   step, data_position, seed, recipe    the CheckpointState
//   skipped        {total, in_a_row, rollbacks}: its SkippedUpdates; without it all are 0
//   recent         {losses, gradient_norms}: its RecentUpdates, finite numbers; without it there are none
//   tokens         those trained on, where a curriculum cuts samples; without it all of the samples consumed
//   began_from     the checkpoint of another run with which the run began, where there was one
//   evaluation_is_due    true where the evaluation after this step was stopped; else it is not there
//   evaluations    {step, loss, best_step, best_loss, without_progress}: its EvaluationHistory, where there was one;
//                  with named sets of validation data also "sets", the loss of each by its name
//   base           {source, fingerprint}: its BaseModel, where the frozen parameters of adapters' base are left out
//   tensors        [{name, dtype, shape, scale, slices: [{file, offset, shape}]}]: the slices cover the tensor, each
//                  element once; dtype is one of safetensors' names with whole bytes, scale a finite number; names have
//                  no control characters
//   files          [{name, bytes, sha256}]: regular files of the folder, no paths; sha256 of the whole file
//   sha256         of the manifest's own text up to this key, so that any changed bit is detected
// In a file, a slice has the name that slice_name() gives.
struct ManifestSlice {
  std::size_t file = 0;  // index into files
  SliceBox box;
};

struct ManifestFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  CheckpointState state;
  std::vector<LogicalTensor> tensors;
  std::vector<std::vector<ManifestSlice>> slices;  // of each tensor
  std::vector<ManifestFile> files;
  std::unordered_map<std::string, std::size_t> index;  // from a tensor's name into tensors and slices
};

// Whether the slices must cover their tensors; those of a part of a checkpoint only need to be within them.
enum class Coverage { whole, part };

// Fills the index and checks every rule above; `file` is named in messages. Throws Error(bad_data).
void check_manifest(Manifest& manifest, const std::string& file, Coverage coverage = Coverage::whole);

std::string manifest_text(const Manifest& manifest);

// Throws Error(bad_data) that names `file` and what is wrong with it.
Manifest parse_manifest(std::string_view text, const std::string& file, Coverage coverage = Coverage::whole);

}  // namespace llmtrain
