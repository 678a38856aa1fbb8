// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/scratch/scratch_stream.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// What of a rank's weights may be in memory while it is read alone (ZeRO-Inference; Aminabadi et al., arXiv
// 2207.00032, section 4.3): the others lie in a nameless file, from which each pass reads them layer by layer.
struct WeightMemory {
  std::int64_t bytes = 0;
  std::string folder;           // of the file
  double bytes_per_second = 0;  // that are read, at most; 0: as many as the disk gives
};

// Which stages' weights lie in such a file, and where. Layers that stay in memory lie evenly between the others, so
// that these are read while those compute. What is not of one layer, such as embeddings and head, stays.
struct StreamedWeights {
  // While a layer computes the next one is read.
  static constexpr std::int64_t buffers = 2;
  // Tokens of a prompt that a processor takes in in one pass.
  static constexpr std::int64_t prompt_chunk = 256;

  std::vector<ScratchBlock> blocks;  // of the stages; empty: in memory
  std::int64_t resident_bytes = 0;   // of weights that stay in memory
  std::int64_t largest_bytes = 0;    // of a streamed stage
  std::int64_t bytes_per_pass = 0;   // that each pass reads, whatever its rows, and the file has
  std::int64_t streamed_stages = 0;

  std::int64_t first_bytes() const;  // of the first streamed stage; 0 where none is
  std::int64_t memory_bytes() const { return resident_bytes + buffers * largest_bytes; }
};

// Where the weights of one of the stage's groups begin in its block; behind the last one: the block's bytes.
std::int64_t streamed_offset(const Partition& partition, std::size_t stage, std::size_t group);

// The recipe's model on one rank that reads it alone, or on ranks that share its layers, whatever ranks train it, with
// a stage for each block.
Partition partition_by_blocks(const Recipe& recipe, std::int64_t tensor_ranks = 1);

// As few layers as a memory of so many bytes asks for; 0: all of them. The partition has a stage for each block. Throws
// Error(bad_recipe) that names `flag` where even all are too few.
StreamedWeights streamed_weights(const Partition& partition, std::int64_t bytes, const std::string& flag);

// Why the weights of such a model cannot be streamed: the key, its value and what to do; empty: they can.
std::string not_streamed(const Recipe& recipe);

}  // namespace llmtrain
