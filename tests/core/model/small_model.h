// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/routing_sums.h"
#include "core/model/layers/fp8_history.h"
#include "core/model/stage.h"
#include "core/parameters/parameter_store.h"
#include "tests/core/model/reference_model.h"

namespace llmtrain::test {

// Two layers, sizes that are all different, so that axes cannot be mistaken for each other.
ModelRecipe gpt2_model();   // learned positions, layernorm, biases, gelu, tied
ModelRecipe llama_model();  // rope, rmsnorm, swiglu, grouped queries, no biases, untied
ModelRecipe qwen_model();   // llama with query-key norms, tied
ModelRecipe mixed_model();  // what no published model has together: rope, biases, swiglu, layernorm, query-key norms

struct NamedModel {
  std::string name;
  ModelRecipe model;
};
std::vector<NamedModel> all_models();

// Eight experts in every layer, top 2, with gates normalized and both losses; no token is dropped.
ModelRecipe with_experts(ModelRecipe model);
// Variants of it: the models' activations, biases, shared experts, top 1, every second layer, a
// cosine router.
std::vector<NamedModel> models_with_experts();

// Sequences shorter than the model's longest, which do not start at the run's first sample, and are of a global batch
// with more rows, of which not all count.
PassInput random_input(const ModelRecipe& model, std::uint64_t seed = 1, std::int64_t batch = 3,
                       std::int64_t sequence = 7);

inline const at::Tensor& tokens_of(const PassInput& input) { return input.batch.field(BatchField::token_ids); }
inline const at::Tensor& targets_of(const PassInput& input) { return input.batch.field(BatchField::targets); }

// An activation [rows, width] in fp32: numbers between −1 and 1 in no simple order.
at::Tensor wave(std::int64_t rows, std::int64_t width, double phase);

// 0, 1, …, count − 1: all parameters or blocks of a graph.
std::vector<std::size_t> indices_below(std::size_t count);

// Some blocks of a model on one rank over flat memory of their own. Weights are random, and so large that every term
// of the arithmetic shows; memory for gradients is full of NaN, as whoever writes first has to overwrite.
class SmallModel {
 public:
  struct Options {
    AttentionKernel attention = AttentionKernel::automatic;
    Recompute recompute = Recompute::none;
    at::ScalarType type = at::kFloat;
    std::vector<std::size_t> blocks{};  // none: all
    bool fp8 = false;
    const Fp8History* fp8_history = nullptr;  // outlives the model
    BlockFactory make = make_block;
  };

  explicit SmallModel(const ModelRecipe& model) : SmallModel(model, Options{}) {}
  SmallModel(const ModelRecipe& model, const Options& options) : SmallModel(Graph::build(model), options) {}
  SmallModel(Graph graph, const Options& options);

  const Graph& graph() const { return graph_; }
  ParameterStore& store() { return *store_; }
  StageModule& stage() { return *stage_; }

  at::Tensor weight(const std::string& name) const;  // a view, to be changed
  NamedTensors weights() const;                      // copies in float64
  NamedTensors take_gradients();                     // of all parameters, since the last call

  // What the stage hands on, or where its last block is a head, the losses, or in prediction the logits; in training
  // where nothing else is said.
  at::Tensor forward(const PassInput& input, PassMode mode = PassMode::training, std::int64_t index = 0);
  // The same of what comes from other blocks.
  at::Tensor forward_of(const at::Tensor& x, const PassInput& input, std::int64_t index = 0);
  // Training forward and backward of a whole model: the losses, of the last head where there are several.
  at::Tensor learn(const PassInput& input);
  // What training forwards have found of experts since the last call.
  RoutingSums take_routing();
  RoutingCounts take_routing_counts();

 private:
  Graph graph_;
  at::Tensor flat_;
  std::unique_ptr<ParameterStore> store_;
  ParameterStores stores_;
  RopeTables rope_;
  std::unique_ptr<StageModule> stage_;
};

// What one rank alone would give to record().
std::vector<double> take_largest(Fp8History& history);

// For sums of a few dozen terms in fp32, and for those in float64, in which the arithmetic itself shows.
double tolerance_of(at::ScalarType type);

// [B·S, …] as [B, S, …].
at::Tensor by_sequence(const at::Tensor& rows, const PassInput& input);

// What autograd finds for the reference model, with the losses of its routers.
struct Expected {
  at::Tensor losses;
  NamedTensors gradients;
  std::int64_t dropped = 0;  // choices of tokens without a place at their experts
};
Expected reference_passes(const ModelRecipe& recipe, const NamedTensors& weights, const PassInput& input,
                          const DropoutMasks& masks = {}, const Product& product = plain_product,
                          const NamedTensors& experts = {});

// Copies in float64 which autograd follows.
NamedTensors differentiable(const NamedTensors& parameters);
NamedTensors gradients_of(const NamedTensors& parameters);

// Largest difference ÷ the largest element expected.
double distance(const at::Tensor& got, const at::Tensor& expected);
// Every gradient within `tolerance` of its largest element. Those that are zero in exact arithmetic (a key's bias moves
// all scores of a query alike) within that of the largest gradient of all.
void check_gradients(const NamedTensors& got, const NamedTensors& expected, double tolerance);
void check_same_bits(const NamedTensors& got, const NamedTensors& expected);

}  // namespace llmtrain::test
