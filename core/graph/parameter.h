// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/element_type.h"

namespace llmtrain {

enum class Initialization { normal, ones, zeros };

// How ranks divide a parameter along one axis of its shape, which consists of `units` of equal size: heads, features or
// tokens of the vocabulary.
struct Split {
  enum class Kind {
    none,      // every rank has all of it
    even,      // equally many units for each rank
    repeated,  // likewise; where there are fewer units than ranks, neighbouring ranks hold copies of one
    padded,    // likewise; where the ranks do not divide the units, the last ranks have rows that nothing reads
  };
  Kind kind = Kind::none;
  std::size_t axis = 0;
  std::int64_t units = 1;

  bool operator==(const Split&) const = default;
};

// What a parameter shares with the one before it in its block.
enum class Joined {
  none,
  input,    // both multiply one input, which is in FP8 for both or for neither
  product,  // they are one matrix or bias of one product: adjacent in memory, of one precision, all frozen or none
};

// The low-rank adapter to a matrix.
struct MatrixAdapter {
  std::size_t a =
      0;  // the index in the graph of A [rank, input]; B [output, rank] follows it, and a magnitude [output], if any
  double scale = 0;    // what the product of both is multiplied by
  double dropout = 0;  // of its input, in training
  bool has_magnitude = false;
};

// Linear weights are [output, input], those of a layer's routed experts [experts, output, input]: one parameter per
// matrix for all of them, as grouped products need.
struct Parameter {
  std::string name{};        // "layers.3.attention.query.weight": the logical name everywhere
  std::string local_name{};  // "attention.query.weight": within its block, by which modules and operators find it
  std::vector<std::int64_t> shape{};
  // The blocks that read it, ascending: the one that it is of, and those that share it.
  std::vector<std::size_t> readers{};
  // The first axis counts routed experts: it is divided among `parallel.expert` ranks, and `split` is over
  // `parallel.expert_tensor` ranks instead of `parallel.tensor`.
  bool has_expert_axis = false;
  Split split{};
  // Every tensor rank has all of it and sees a part of the work on it, whether or not these ranks split the tokens: its
  // gradient is their sum.
  bool sums_over_ranks = false;
  Joined joined = Joined::none;
  Initialization initialization = Initialization::normal;
  double standard_deviation = 0;  // of `normal`
  bool decays = false;            // weight matrices and embeddings, not biases, norms, learned positions
  bool is_table = false;          // has a row for each token of the vocabulary or for each position
  // The weight matrix of a linear layer within a transformer layer, with an expert axis one matrix per expert: what FP8
  // levels store in FP8 (Peng et al., arXiv 2310.18313), what Muon trains (training.optimizer.name) and what may have
  // adapters, unless it is of experts. Embeddings, the head, routers, biases and norms are no such matrices.
  bool is_layer_matrix = false;
  bool is_high_precision = false;          // of these: the recipe keeps it in the compute type
  bool is_frozen = false;                  // never trained: has no gradient and no optimizer states
  bool is_packed = false;                  // of these: frozen, and kept in 4 bits (LoraBase::nf4)
  bool is_adapter = false;                 // A or B of a low-rank adapter
  bool is_saved_module = false;            // trained beside adapters, of a module that model.lora.modules_to_save names
  std::optional<MatrixAdapter> adapter{};  // to this matrix

  // Whether FP8 levels multiply and store it in FP8.
  bool takes_fp8() const { return is_layer_matrix && !is_high_precision; }

  std::int64_t elements() const { return element_count(shape); }
};

}  // namespace llmtrain
