// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/graph/operators/operators.h"
#include "core/graph/operators/routed_load.h"

namespace llmtrain {

constexpr double fp32_bytes = 4;
constexpr double dropout_mask_bytes = 1;                     // per element, as other programs keep it
constexpr const char* ends_exchange = "embedding and head";  // what their exchanges are of

// Writes the operators of one block: the context that its parts need, and the operators common to all kinds of blocks.
// Functions that append an operator return it for further settings; the reference is valid until the next append.
class OperatorWriter {
 public:
  OperatorWriter(const Graph& graph, std::size_t block, const PassSetting& setting);

  const PassSetting& setting() const { return setting_; }
  const LocalShape& shape() const { return shape_; }
  bool is_own() const { return setting_.program.is_own(); }
  // Whether this program's operators run, on this kind of device.
  bool is_cpu() const { return is_own() && setting_.program.device == ComputeDevice::cpu; }
  bool is_cuda() const { return is_own() && setting_.program.device == ComputeDevice::cuda; }
  // Whether products of the compute type are made in fp32, beside copies.
  bool widens_fp16() const { return is_cpu() && setting_.numbers.compute == DataType::fp16; }
  // The block must have experts.
  RoutedLoad routed_load() const {
    return llmtrain::routed_load(graph_, block_, setting_.tokens.all(), setting_.shards.expert);
  }

  // Where the operators that are added from here on belong.
  void begin_half(LayerHalf half) { half_ = half; }
  void begin_module(OperatorModule module) { module_ = module; }

  Operator& add(std::string name, OperatorKind kind);
  // A list that has been made elsewhere.
  void add(OperatorList operators) { std::ranges::move(operators, std::back_inserter(operators_)); }
  // A product in the compute type at every level. Here and below a product is with the parameter of the block that has
  // the local name `weight`, and with what is joined to it.
  Operator& product(std::string name, const MatrixProduct& product, std::string_view weight);
  bool is_frozen(std::string_view parameter) const;
  // Whether the product takes FP8, and the bytes per element of its kept input.
  bool takes_fp8(std::string_view weight) const;
  double input_bytes(std::string_view weight) const;
  // A linear layer's product, in FP8 where it takes FP8.
  Operator& linear(std::string name, const MatrixProduct& product, std::string_view weight);
  // The same of the experts' products, whose operands have a scale per row; who agrees on these, the caller says. In
  // core/model their outputs' gradients are rounded in place; where they cannot be, the caller adds what
  // hold_cast_gradient() counts: a gradient in FP8, and widened again.
  Operator& grouped_linear(std::string name, const MatrixProduct& product, std::string_view weight);
  void hold_cast_gradient(Operator& item) const;
  Operator& elementwise(std::string name, double forward_elements, double backward_elements);
  Operator& norm(std::string name, const NormSettings& settings);
  // Bytes of the sums over rows of `rows` norms of `width` numbers, which a GPU's backward forms in pieces.
  static double norm_scratch(NormKind kind, double rows, double width);
  // Bytes of dropout's masks of so many elements that pass through memory. A GPU's kernel makes them as it needs them.
  double mask_bytes(double elements) const { return is_cuda() ? 0 : dropout_mask_bytes * elements; }
  // Dropout on a branch, at this rate, and its addition to the residual stream.
  Operator& residual(std::string name, double dropout);

  // Keeps a tensor of `bytes` for the backward; nothing when `bytes` is 0.
  static void save(Operator& item, std::string name, double bytes, Recompute kept_through = Recompute::selective);
  // Keeps the block's first input, at every level of recompute.
  void save_input(Operator& item) const;
  // Keeps a tensor that passes over memory make again from others that are kept: norms and activated values. core/model
  // makes it again under selective recompute; other programs keep it, or never do where their passes are fused.
  void save_remade(Operator& item, std::string name, double bytes) const {
    if (keeps_remade()) save(item, std::move(name), bytes, is_own() ? Recompute::none : Recompute::selective);
  }
  bool keeps_remade() const { return is_own() || !setting_.program.remakes_elementwise; }
  // Bytes of a norm's statistics for `rows` rows.
  static double statistics_bytes(const NormSettings& norm, double rows);

  // Adds a collective to the operator; the reference is valid until the next one.
  static Exchange& exchange(Operator& item, RankAxis axis, Collective collective, Direction direction,
                            const char* tensors, double bytes);
  // The collectives of the tensor ranks before features are split over them (`gathers` forward) or after (backward).
  // With sequence parallelism rows are gathered in that direction, and their partial sums scattered in the other one;
  // with whole rows every rank has them all, and the sums are of whole rows.
  void exchange_rows(Operator& item, Direction gathers, const char* tensors, Exposure exposure) const {
    exchange_rows(item, gathers, tensors, exposure, shape_.hidden);
  }
  // The same around the products of a layer's half.
  void enter_features(Operator& item) const { enter_features(item, shape_.hidden); }
  // Rows of another width than the block's.
  void enter_features(Operator& item, double features) const;
  void leave_features(Operator& item) const;
  // Working memory of the rows that sequence parallelism gathers: one tensor in the forward, two in the backward.
  void hold_gathered_rows(Operator& item) const { hold_gathered_rows(item, shape_.hidden); }
  void hold_gathered_rows(Operator& item, double features) const;

  OperatorList take() { return std::move(operators_); }

 private:
  // Rows of so many features.
  void exchange_rows(Operator& item, Direction gathers, const char* tensors, Exposure exposure, double features) const;
  Operator& add_product(std::string name, const MatrixProduct& product, bool is_frozen);
  // Bytes of the sums over rows from which a GPU makes the gradient of a bias, if there is one beside the weight.
  double bias_scratch(const MatrixProduct& product, std::string_view weight) const;
  void add_adapter(const std::string& name, const MatrixProduct& product, const Parameter& matrix);
  void add_magnitude(const std::string& name, const MatrixProduct& product, bool drops, bool meets);
  void add_adapter_dropout(std::string name, double elements);
  void add_adapter_passes(const std::string& name, double inputs, double outputs);
  // The parameter of that local name and those that are joined to it.
  std::span<const Parameter> weights_from(std::string_view first) const;
  // Makes packed weights again in the compute type, in each pass.
  void unpack(const std::string& name, std::string_view weight);
  void agree_on_scales(Operator& item) const;
  void hold_widened_operands(Operator& item) const;
  void hold_fp32_copies(Operator& item) const;

  const Graph& graph_;
  std::size_t block_;
  const PassSetting& setting_;
  LocalShape shape_;
  LayerHalf half_ = LayerHalf::none;
  OperatorModule module_ = OperatorModule::none;
  OperatorList operators_;
};

// The halves of a layer.
void write_attention(OperatorWriter& writer, const LayerSettings& layer);
void write_feed_forward(OperatorWriter& writer, const LayerSettings& layer);
// What makes the input of a layer that predicts a further token.
void write_prediction_input(OperatorWriter& writer, const LayerSettings& layer);
// The norm of what a half makes, before it is added to the residual stream.
void write_post_norm(OperatorWriter& writer, const LayerSettings& layer, const std::string& half);
// What dropping and restoring tokens takes around a layer: `whole` is the shape of all of them.
void write_token_dropping(OperatorWriter& writer, const LocalShape& whole);

}  // namespace llmtrain
