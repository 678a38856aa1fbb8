// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/graph/operators/expert_exchanges.h"
#include "core/graph/operators/expert_memory.h"

namespace llmtrain {
namespace {

// Columns of the activation's input per unit of width: gate and up, or up alone.
double activation_inputs(Activation activation) { return is_gated(activation) ? 2 : 1; }

// A feed-forward network: up (and gate), activation, down.
struct Network {
  std::string path;        // of its module
  std::string parameters;  // prefix of their local names
  std::string saved;       // prefix of the names of its kept tensors
  Activation activation{};
  double rows = 0;          // of each of `networks` equal ones
  double width = 0;         // on this rank
  double networks = 1;      // side by side: the experts of a rank
  double useful_rows = 0;   // of all networks: rows that hold tokens, not empty slots
  double parts = 1;         // into which the rows are cut
  bool is_grouped = false;  // of routed experts
};

// The first weight of the product that makes the activation's input.
std::string first_weight(const Network& network) {
  return network.parameters + (is_gated(network.activation) ? ".gate.weight" : ".up.weight");
}

Operator& write_up(OperatorWriter& writer, const Network& network) {
  const LocalShape& shape = writer.shape();
  const double columns = network.width * activation_inputs(network.activation);
  const MatrixProduct product{network.rows, columns, shape.hidden, network.networks};
  const std::string weight = first_weight(network);
  Operator& up = network.is_grouped ? writer.grouped_linear(network.path + ".up", product, weight)
                                    : writer.linear(network.path + ".up", product, weight);
  // On the CPU the gate's columns and up's are halves of the same rows, which are not rounded in place.
  const bool is_halved = network.is_grouped && columns > network.width && !writer.is_cuda();
  if (is_halved && up.uses_fp8 && writer.is_own()) writer.hold_cast_gradient(up);
  // The product runs over all slots of the experts; model FLOPs count only those that hold tokens.
  up.flops = 2 * network.useful_rows * columns * shape.hidden;
  up.parts = network.parts;
  up.is_grouped = network.is_grouped;
  return up;
}

// The backward holds the gradient of the activation's input.
void write_activation(OperatorWriter& writer, const Network& network) {
  const LocalShape& shape = writer.shape();
  const double rows = network.networks * network.rows;
  const double read = rows * network.width * activation_inputs(network.activation), written = rows * network.width;
  // The backward reads the input and the output's gradient and writes the input's.
  Operator& activation = writer.elementwise(network.path + ".activation", read + written, 2 * read + written);
  if (is_gated(network.activation)) activation.fused_pass = FusedPass::gate;
  writer.save(activation, network.saved + ".hidden", shape.element * read);
  activation.backward_working = shape.element * read;
  activation.parts = network.parts;
}

Operator& write_down(OperatorWriter& writer, const Network& network) {
  const LocalShape& shape = writer.shape();
  const MatrixProduct product{network.rows, shape.hidden, network.width, network.networks};
  const std::string weight = network.parameters + ".down.weight";
  Operator& down = network.is_grouped ? writer.grouped_linear(network.path + ".down", product, weight)
                                      : writer.linear(network.path + ".down", product, weight);
  down.flops = 2 * network.useful_rows * network.width * shape.hidden;
  down.parts = network.parts;
  down.is_grouped = network.is_grouped;
  // Kept for the weight's gradient of the down projection; selective recompute of core/model makes it again from the
  // hidden tensor, which costs only a pass over memory.
  writer.save_remade(down, network.saved + ".activated",
                     writer.input_bytes(weight) * network.networks * network.rows * network.width);
  return down;
}

// The network for all tokens, split over the tensor ranks: that of a dense layer, or the shared experts.
// `shares_input`: whether the rows of its input are what attention has gathered.
void write_dense_network(OperatorWriter& writer, std::string path, std::string parameters, Activation activation,
                         std::int64_t width, bool shares_input = false) {
  const LocalShape& shape = writer.shape();
  const double local_width = static_cast<double>(width) / static_cast<double>(writer.setting().shards.tensor);
  const Network network{.path = std::move(path),
                        .parameters = std::move(parameters),
                        .saved = "ffn",
                        .activation = activation,
                        .rows = shape.tokens,
                        .width = local_width,
                        .useful_rows = shape.tokens};
  Operator& up = write_up(writer, network);
  if (!shares_input) writer.enter_features(up);
  write_activation(writer, network);
  writer.leave_features(write_down(writer, network));
}

// Capacity and losses count over all tokens of a micro-batch: the ranks that hold them tell each other which experts
// their tokens chose and by how much, as far as a capacity needs it, and add up what the losses are made of.
void exchange_routing(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item) {
  const PassSetting& setting = writer.setting();
  const std::int64_t ranks = setting.shards.tensor * setting.tokens.context, tokens = setting.tokens.all();
  const auto gather = [&](const char* what, std::int64_t bytes) {
    OperatorWriter::exchange(item, RankAxis::tokens, Collective::all_gather, Direction::forward, what,
                             static_cast<double>(bytes));
    if (ranks > 1) item.received += static_cast<double>(bytes);
  };
  const std::int64_t columns = moe.top_k + (moe.priority == RouterPriority::score ? 2 : 1);
  if (expert_limit(moe, tokens)) gather("token choices", std::int64_t{sizeof(std::int32_t)} * columns * tokens);
  gather("routing sums", std::int64_t{sizeof(double)} * routing_totals(moe) * ranks);
}

// Bytes of the sums over tokens and of the numbers of choices that a GPU's router forms in pieces, before it adds them
// up (kernels/cuda/moe/routing_kernels.h, kernels/cuda/moe/load_importance_kernels.h,
// kernels/cuda/moe/expert_rows_kernels.h).
double routing_scratch(const MixtureOfExpertsRecipe& moe, double tokens) {
  const auto experts = static_cast<double>(moe.experts), top_k = static_cast<double>(moe.top_k);
  const double columns = (uses_load_importance(moe) ? 5 : 3) * experts + 2;
  const double token_pieces = std::ceil(tokens / std::max(64.0, std::ceil(tokens / 512)));
  const double choices = tokens * top_k, choice_pieces = std::ceil(choices / std::max(512.0, std::ceil(choices / 256)));
  return sizeof(double) * token_pieces * columns + sizeof(std::int32_t) * choice_pieces * experts;
}

// Products in the compute type even at FP8 levels; probabilities in fp32, which their gradients need.
void write_router(OperatorWriter& writer, const MixtureOfExpertsRecipe& moe) {
  const LocalShape& shape = writer.shape();
  const double tokens = routed_tokens(writer);
  const auto experts = static_cast<double>(moe.experts), top_k = static_cast<double>(moe.top_k);
  double inner = shape.hidden;
  if (moe.router == Router::cosine) {
    const auto width = static_cast<double>(cosine_router_width);
    Operator& projection = writer.product("feed_forward.experts.router_projection", {tokens, width, inner},
                                          "ffn.router_projection.weight");
    // Projected tokens of length 1, and their lengths.
    writer.save(projection, "experts.directions", fp32_bytes * tokens * (width + 1));
    inner = width;
  }
  writer.product("feed_forward.experts.router", {tokens, experts, inner}, "ffn.router.weight");
  // The backward of one kernel reads the probabilities and writes their gradient.
  Operator& softmax = writer.elementwise("feed_forward.experts.probabilities", 4 * tokens * experts,
                                         (writer.is_cuda() ? 4 : 6) * tokens * experts);
  if (writer.is_cuda()) softmax.forward_scratch = routing_scratch(moe, tokens);
  writer.save(softmax, "experts.probabilities", fp32_bytes * tokens * experts);
  // Index and weight of each of a token's experts. In core/model also its row at that expert, and the way back;
  // likewise of the rows that are exchanged.
  const double own = tokens * top_k;
  const double exchanged = exchanges_rows(writer) ? routed_rows(writer, moe).places : 0;
  const double indices = !writer.is_own() ? own : 3 * own + 2 * exchanged;
  writer.save(softmax, "experts.choices", index_bytes * indices + fp32_bytes * own);
  if (writer.is_own() && moe.z_coefficient > 0) writer.save(softmax, "experts.log_sums", fp32_bytes * tokens);
  // Logits without noise, and the one with noise that a choice must reach.
  if (uses_load_importance(moe)) writer.save(softmax, "experts.logits", fp32_bytes * tokens * (experts + 1));
  exchange_routing(writer, moe, softmax);
}

// What has a scale on which the ranks that split an expert's matrices agree: the rows of which each has some columns,
// and in every pass of the forward `weights` matrices of each expert, unless they are stored in FP8.
struct SplitRows {
  std::int64_t experts = 0;
  double weights = 0;
  double input_rows = 0, gradient_rows = 0;
};

void agree_on_row_scales(const OperatorWriter& writer, Operator& item, const SplitRows& rows) {
  const NumberSetting& numbers = writer.setting().numbers;
  const ShardDegrees& shards = writer.setting().shards;
  if (!numbers.uses_fp8() || !numbers.agrees_on_scales) return;
  const auto ranks = static_cast<double>(shards.expert_tensor);
  const auto experts = static_cast<double>(rows.experts) / static_cast<double>(shards.expert);
  const double of_weights = numbers.fp8_level == Fp8Level::o3 ? 0 : rows.weights * experts;
  const auto gather = [&](Direction direction, double values) {
    if (values > 0)
      OperatorWriter::exchange(item, RankAxis::expert_tensor, Collective::all_gather, direction, "FP8 maxima",
                               fp32_bytes * ranks * values);
  };
  gather(Direction::forward, rows.input_rows + of_weights);
  if (shards.expert_tensor > 1) item.received += fp32_bytes * ranks * (rows.input_rows + of_weights);
  gather(Direction::backward, rows.gradient_rows);
}

// Elements that are read and written between tokens and the experts' rows.
struct CopiedElements {
  double forward = 0, backward = 0;
};

CopiedElements copied_elements(const OperatorWriter& writer, const RoutedRows& rows) {
  const double tokens = routed_tokens(writer), width = writer.shape().hidden;
  if (!writer.is_cuda() || exchanges_rows(writer)) {
    // To the experts, from them, and their sum.
    const double copied = (3 * rows.places + tokens) * width + relayed_copies(writer, rows);
    return {copied, copied};
  }
  // Kernels read a token once, however many rows it has. To the experts, and the sum of their rows; in the backward the
  // gradients of those rows, the rows again, and the sum of their gradients.
  return {2 * (rows.own + tokens) * width, (4 * rows.own + 3 * tokens) * width};
}

// Tokens are sent to the experts and their results come back, in the backward the other way round.
void write_routed_experts(OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Activation activation) {
  const LocalShape& shape = writer.shape();
  const ShardDegrees& shards = writer.setting().shards;
  const auto expert_tensor = static_cast<double>(shards.expert_tensor);
  const RoutedRows rows = routed_rows(writer, moe);
  const double own = rows.own, places = rows.places;
  const double local_experts = static_cast<double>(moe.experts) / static_cast<double>(shards.expert);
  const double width = static_cast<double>(moe.ffn_hidden_size) / expert_tensor;
  const CopiedElements copied = copied_elements(writer, rows);
  const double row_bytes = shape.element * shape.hidden;

  Operator& dispatch = writer.elementwise("feed_forward.experts.dispatch", copied.forward, copied.backward);
  const double activated = shape.element * places * width;
  const Recompute kept_through = writer.is_own() ? Recompute::none : Recompute::selective;
  const bool keeps_activated = writer.keeps_remade() && writer.setting().recompute <= kept_through;
  const NetworkBytes networks{.hidden = activated * activation_inputs(activation),
                              .kept_activated = keeps_activated ? activated : 0};
  const WorkingBytes working = working_bytes(writer, rows, networks);
  dispatch.forward_working = working.forward;
  dispatch.backward_working = working.backward;
  exchange_tokens(writer, moe, dispatch, Direction::forward, rows);
  exchange_counts(writer, moe, dispatch);

  const Network network{.path = "feed_forward.experts.routed",
                        .parameters = "ffn.experts",
                        .saved = "experts",
                        .activation = activation,
                        .rows = places / local_experts,
                        .width = width,
                        .networks = local_experts,
                        .useful_rows = routed_tokens(writer) * expert_tensor * rows.load.kept,
                        .parts = static_cast<double>(writer.setting().exchange.parts),
                        .is_grouped = true};
  Operator& up = write_up(writer, network);
  const double inputs = activation_inputs(activation);
  agree_on_row_scales(writer, up, {.experts = moe.experts, .weights = inputs, .gradient_rows = inputs * places});
  // core/model's kernels copy it again, but for rows that came from other ranks.
  const double input_bytes = writer.input_bytes("ffn.experts.up.weight");
  if (!writer.is_own() || exchanges_rows(writer))
    writer.save(up, "experts.input", (input_bytes * shape.hidden + (input_bytes == 1 ? fp32_bytes : 0)) * places);
  write_activation(writer, network);
  Operator& down = write_down(writer, network);
  agree_on_row_scales(writer, down, {.experts = moe.experts, .weights = 1, .input_rows = places});
  if (writer.setting().numbers.uses_fp8()) writer.save(down, "experts.scales", fp32_bytes * places);
  // The gradient of a token's scores needs the output of each of its experts.
  writer.save(down, "experts.output", row_bytes * own);
  // Its movement of memory is counted with the dispatch, here only its collectives.
  Operator& combine = writer.elementwise("feed_forward.experts.combine", 0, 0);
  exchange_tokens(writer, moe, combine, Direction::backward, rows);
}

// The gradient of the gate needs what it multiplies.
void write_shared_gate(OperatorWriter& writer) {
  const LocalShape& shape = writer.shape();
  Operator& gate = writer.product("feed_forward.experts.shared_gate", {shape.split_tokens, 1, shape.hidden},
                                  "ffn.shared_gate.weight");
  writer.save(gate, "shared.gates", fp32_bytes * shape.split_tokens);
  writer.save(gate, "shared.output", shape.element * shape.residual());
}

// Whether one of the half's networks multiplies its input in FP8.
bool reads_fp8(const OperatorWriter& writer, const FeedForwardSettings& settings) {
  if (!settings.experts) return writer.takes_fp8("ffn.up.weight");
  return writer.takes_fp8("ffn.experts.up.weight") ||
         (settings.experts->shared_experts > 0 && writer.takes_fp8("ffn.shared.up.weight"));
}

// The norm of the half's input, or none where attention's is its norm, too, whose result attention keeps.
void write_input_norm(OperatorWriter& writer, const LayerSettings& layer) {
  const LocalShape& shape = writer.shape();
  if (layer.parallel == ParallelResidual::one_norm) return;
  Operator& norm = writer.norm("feed_forward.norm", layer.norm);
  // Where both halves read the layer's input, that is kept.
  if (!layer.has_mixer) {
    writer.save_input(norm);
  } else if (layer.parallel == ParallelResidual::none) {
    writer.save(norm, "middle", shape.element * shape.residual());
  }
  const double kept = reads_fp8(writer, layer.feed_forward) ? shape.fp8_input : shape.element;
  writer.save_remade(norm, "ffn.input", kept * shape.residual());
  if (writer.is_own())
    writer.save(norm, "ffn_norm.statistics", OperatorWriter::statistics_bytes(layer.norm, shape.split_tokens));
}

}  // namespace

// The second half of a layer: a dense network, or the experts in its place.
void write_feed_forward(OperatorWriter& writer, const LayerSettings& layer) {
  const LocalShape& shape = writer.shape();
  const FeedForwardSettings& settings = layer.feed_forward;
  write_input_norm(writer, layer);
  if (!settings.experts) {
    write_dense_network(writer, "feed_forward.network", "ffn", settings.activation, settings.width,
                        layer.parallel == ParallelResidual::one_norm);
  } else {
    const MixtureOfExpertsRecipe& moe = *settings.experts;
    writer.begin_module(OperatorModule::experts);
    write_router(writer, moe);
    write_routed_experts(writer, moe, settings.activation);
    if (moe.shared_experts > 0)
      write_dense_network(writer, "feed_forward.experts.shared", "ffn.shared", settings.activation,
                          moe.shared_experts * moe.ffn_hidden_size);
    if (moe.shared_gate) write_shared_gate(writer);
    writer.begin_module(OperatorModule::none);
  }
  if (layer.has_post_norms) write_post_norm(writer, layer, "feed_forward");
  Operator& residual = writer.residual("feed_forward.residual", layer.dropout);
  // The layer's output, beside the branch that is added to it.
  residual.forward_working = shape.element * shape.residual();
  if (layer.dropout > 0 && !writer.is_own())
    writer.save(residual, "ffn.residual_mask", dropout_mask_bytes * shape.residual());
}

}  // namespace llmtrain
