// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/scratch/scratch_file.h"
#include "core/scratch/scratch_reader.h"
#include "parallel/layout/streamed_weights.h"
#include "parallel/shard/states/sharded_parameters.h"

namespace llmtrain {

// The weights of a model that is only read, as far as they are not in its memory: they lie in a file, in the order of
// the layers, and are lent to a stage's parameters for as long as it computes, while the next stage's are being read.
// Each pass over the layers reads each of them once.
class WeightStream {
 public:
  // The program's flags, which messages name.
  static constexpr const char* memory_flag = "--weight-memory";
  static constexpr const char* folder_flag = "--weight-folder";

  // The partition outlives this. Throws as streamed_weights() and ScratchFile do.
  WeightStream(const Partition& partition, const WeightMemory& memory);

  const StreamedWeights& weights() const { return weights_; }
  const ScratchFile& file() const { return *file_; }
  bool streams(std::size_t stage) const { return weights_.blocks[stage].bytes > 0; }
  // Takes the place of the next of a streamed stage's groups, in their order; they outlive this. Their weights are
  // zero.
  void add(std::size_t stage, ShardedParameters& parameters);
  bool has(const ShardedParameters& parameters) const;

  // Lends the parameters what is in the file, calls `write`, which may write to it, and puts that into the file. Not
  // after the first pass.
  void write(ShardedParameters& parameters, const std::function<void()>& write);

  // Lends a stage its weights for as long as it lives, if they are in the file, and blocks until they are there. One at
  // a time; ascending stages do not wait for more than their own.
  class Use {
   public:
    // `stream`: null where all weights are in memory.
    Use(WeightStream* stream, std::size_t stage);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    WeightStream* stream_;
    std::size_t stage_;
  };

  // As ScratchReader's.
  std::int64_t bytes_used() const { return reader_->bytes_used(); }
  std::int64_t bytes_read() const { return reader_->bytes_read(); }

 private:
  struct Unit {
    ShardedParameters* parameters = nullptr;
    std::int64_t offset = 0;  // in the stage's block
  };

  void begin(std::size_t stage);
  void end(std::size_t stage);

  const Partition& partition_;
  StreamedWeights weights_;
  std::unique_ptr<ScratchFile> file_;
  at::Tensor memory_;  // of all buffers
  std::vector<std::span<std::byte>> buffers_;
  std::vector<std::vector<Unit>> units_;   // by stage
  std::vector<std::size_t> number_;        // of a stage's block among the reader's
  std::unique_ptr<ScratchReader> reader_;  // last: it reads into the others
};

}  // namespace llmtrain
