// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/body/body.h"
#include "core/body/parts/relative_bias.h"
#include "core/graph/blocks/block_kind.h"
#include "core/graph/parameter.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Which axes of a body depend on the batch. Outputs begin with the first two, as do inputs and fields of rows of
// tokens, but for those of other rows, which have another axis of tokens in their place.
struct BatchAxes {
  body::AxisId sequences = 0, tokens = 0;
  std::size_t rows = 0;  // whose tokens: an index into Batch::rows
  // Further axes of tokens, such as those of a source, or of the same tokens as keys of a bias.
  struct More {
    body::AxisId axis = 0;
    std::size_t rows = 0;

    bool operator==(const More&) const = default;
  };
  std::vector<More> more{};

  // All axes of tokens, that of outputs first.
  std::vector<More> all() const;
  // Whose tokens an input or a field has, by its second axis.
  std::size_t rows_of(const body::BodyTensor& tensor) const;

  bool operator==(const BatchAxes&) const = default;
};

// A field of bodies that no sample has: the position of each row in its document, or in its sequence where that is one
// document.
inline constexpr std::string_view positions_field = "positions";
// Another one: the buckets of relative positions [queries, keys] (core/body/parts/relative_bias.h).
inline constexpr std::string_view buckets_field = "relative_buckets";

// And one of floating-point numbers [sequences, tokens]: 0 for the rows of a sequence's first document, and behind it,
// where padding is, so low a number that a softmax leaves nothing of a logit to which it is added.
inline constexpr std::string_view padding_field = "padding";

// What a block computes that is written as a body. Immutable, and shared by the blocks that are alike.
struct BodyDescription {
  body::Body body;  // its axes of the batch have any extents
  BatchAxes axes;
  // What its parameters are, in the order in which they are stored: with a local name, that of the body's parameter, a
  // shape of as many elements, and what is said of them beside. Whole on every tensor rank.
  std::vector<Parameter> parameters{};
  // Those parameters of the body that are of an earlier block.
  struct Shared {
    std::string local_name;  // in the body
    std::string block, parameter;
  };
  std::vector<Shared> shared{};
  // The values that its inputs are, by name; none: it has one at most, which the block before makes.
  std::vector<std::string> reads{};
  // The terms of the loss that it raises: of the outputs that a cross-entropy makes, in their order.
  struct Loss {
    std::string name;
    double coefficient = 1;
  };
  std::vector<Loss> losses{};
  // Whether its losses are of classes, of which evaluation counts how many are told right from the logits.
  bool tells_classes = false;
  std::optional<body::RelativeBuckets> buckets{};  // where it reads them
  bool is_unit = false;                            // Block::is_unit
  std::vector<BlockField> fields{};                // that it reads of the samples: BodySettings says which
};

// A block that is what a body says (core/body/body.h).
struct BodySettings {
  static constexpr bool reads_in_backward = true;
  static constexpr bool runs_again = true;

  // Throws Error(internal_error) where it does not fit together: names a field that there is none of, or parameters
  // that are not the body's.
  explicit BodySettings(BodyDescription of_block);

  std::shared_ptr<const BodyDescription> description;
  std::span<const BlockField> fields;  // of the description
  std::int64_t hidden_size = 0;        // of its first output, or where that is a loss of its first input

  // Whether they compute the same: names of other blocks do not matter.
  bool operator==(const BodySettings& other) const;
};

// The elements that each row of tokens has of a tensor: its extents behind the axes of the batch.
std::vector<std::int64_t> row_features(const body::Body& body, body::TensorId tensor);
// By output of the body, whether it is the losses of rows: made by a cross-entropy.
std::vector<bool> are_losses(const body::Body& body);
// The logits of which a cross-entropy makes this output.
body::TensorId logits_of(const body::Body& body, body::TensorId losses);

void write_graph(GraphWriter& writer, const BodySettings& settings);
void write_operators(OperatorWriter& writer, const BodySettings& settings);

// The body with the attention kernel that is asked for: math passes scores through memory.
body::Body with_attention(body::Body body, AttentionKernel kernel);
// The body, with the extents of a batch, with what takes most memory in so many pieces. Queries of attention, which
// keeps to documents, stay together.
body::Body in_pieces(const body::Body& filled, std::int64_t chunks);

}  // namespace llmtrain
