// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/operator_writer.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

constexpr double index_bytes = 8;

// Columns of the activation's input per unit of width: gate and up for swiglu.
double activation_inputs(const ModelRecipe& model) { return model.activation == Activation::swiglu ? 2 : 1; }

// A feed-forward network: up (and gate), activation, down.
struct Network {
  std::string path;        // of its module
  std::string saved;       // prefix of the names of its kept tensors
  double rows = 0;         // of each of `networks` equal ones
  double width = 0;        // on this rank
  double networks = 1;     // side by side: the experts of a rank
  double useful_rows = 0;  // of all networks: rows that hold tokens, not empty slots
  Recompute keeps_activated{};
};

Operator& write_up(OperatorWriter& writer, const Network& network, std::initializer_list<Role> weights) {
  const LocalShape& shape = writer.shape();
  const double columns = network.width * activation_inputs(writer.model());
  Operator& up = writer.linear(network.path + ".up", {network.rows, columns, shape.hidden, network.networks}, weights);
  // The product runs over all slots of the experts; model FLOPs count only those that hold tokens.
  up.flops = 2 * network.useful_rows * columns * shape.hidden;
  return up;
}

// The backward holds the gradient of the activation's input.
void write_activation(OperatorWriter& writer, const Network& network) {
  const LocalShape& shape = writer.shape();
  const double rows = network.networks * network.rows;
  const double read = rows * network.width * activation_inputs(writer.model()), written = rows * network.width;
  // The backward reads the input and the output's gradient and writes the input's.
  Operator& activation = writer.elementwise(network.path + ".activation", read + written, 2 * read + written);
  writer.save(activation, network.saved + ".hidden", shape.element * read);
  activation.backward_working = shape.element * read;
}

Operator& write_down(OperatorWriter& writer, const Network& network, std::initializer_list<Role> weights) {
  const LocalShape& shape = writer.shape();
  Operator& down =
      writer.linear(network.path + ".down", {network.rows, shape.hidden, network.width, network.networks}, weights);
  down.flops = 2 * network.useful_rows * network.width * shape.hidden;
  // Kept for the weight's gradient of the down projection; selective recompute on the CPU makes it again from the
  // hidden tensor, which costs only a pass over memory.
  writer.save(down, network.saved + ".activated", shape.gemm_input * network.networks * network.rows * network.width,
              network.keeps_activated);
  return down;
}

// The network for all tokens, split over the tensor ranks: that of a dense layer, or the shared experts.
void write_dense_network(OperatorWriter& writer, std::string path, std::int64_t width) {
  const LocalShape& shape = writer.shape();
  const double local_width = static_cast<double>(width) / static_cast<double>(writer.setting().shards.tensor);
  const Network network{.path = std::move(path),
                        .saved = "ffn",
                        .rows = shape.tokens,
                        .width = local_width,
                        .useful_rows = shape.tokens,
                        .keeps_activated = writer.kept_on_cuda()};
  Operator& up = write_up(writer, network, {Role::ffn_gate_weight, Role::ffn_up_weight});
  writer.enter_features(up);
  write_activation(writer, network);
  writer.leave_features(write_down(writer, network, {Role::ffn_down_weight}));
}

// Capacity and losses count over all tokens of a micro-batch: the ranks that hold them tell each other which experts
// their tokens chose and by how much, as far as a capacity needs it, and add up what the losses are made of: for each
// expert first choices, all choices and probabilities, and two more numbers.
void exchange_routing(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item) {
  const PassSetting& setting = writer.setting();
  const std::int64_t ranks = setting.shards.tensor * setting.context, tokens = setting.batch * setting.sequence_length;
  const auto gather = [&](const char* what, std::int64_t bytes) {
    OperatorWriter::exchange(item, RankAxis::tokens, Collective::all_gather, Direction::forward, what,
                             static_cast<double>(bytes));
  };
  const std::int64_t columns = moe.top_k + (moe.priority == RouterPriority::score ? 2 : 1);
  if (expert_limit(moe, tokens)) gather("token choices", std::int64_t{sizeof(std::int32_t)} * columns * tokens);
  gather("routing sums", std::int64_t{sizeof(double)} * (3 * moe.experts + 2) * ranks);
}

// Products in the compute type even at FP8 levels; probabilities in fp32, which their gradients need.
void write_router(OperatorWriter& writer, const MixtureOfExpertsRecipe& moe) {
  const LocalShape& shape = writer.shape();
  const auto experts = static_cast<double>(moe.experts), top_k = static_cast<double>(moe.top_k);
  double inner = shape.hidden;
  if (moe.router == Router::cosine) {
    const auto width = static_cast<double>(cosine_router_width);
    Operator& projection = writer.product("feed_forward.experts.router_projection", {shape.tokens, width, inner});
    // Projected tokens of length 1, and their lengths.
    writer.save(projection, "experts.directions", fp32_bytes * shape.split_tokens * (width + 1));
    inner = width;
  }
  writer.product("feed_forward.experts.router", {shape.tokens, experts, inner});
  Operator& softmax =
      writer.elementwise("feed_forward.experts.probabilities", 4 * shape.tokens * experts, 6 * shape.tokens * experts);
  writer.save(softmax, "experts.probabilities", fp32_bytes * shape.split_tokens * experts);
  // Index and weight of each of a token's experts. On the CPU also its row at that expert, and the way back.
  const bool is_shared = writer.setting().shards.expert > 1;  // with other ranks, whose rows have indices, too
  const double indices = index_bytes * (!writer.is_cpu() ? 1 : is_shared ? 5 : 3);
  writer.save(softmax, "experts.choices", (indices + fp32_bytes) * shape.split_tokens * top_k);
  if (writer.is_cpu() && moe.z_coefficient > 0)
    writer.save(softmax, "experts.log_sums", fp32_bytes * shape.split_tokens);
  exchange_routing(writer, moe, softmax);
}

void exchange_tokens(Operator& item, double bytes) {
  for (const Direction direction : {Direction::forward, Direction::backward})
    OperatorWriter::exchange(item, RankAxis::expert, Collective::all_to_all, direction, "tokens", bytes);
}

void sum_over_expert(Operator& item, Direction direction, double bytes) {
  OperatorWriter::exchange(item, RankAxis::expert_tensor, Collective::all_reduce, direction, "expert sums", bytes);
}

// Tokens are sent to the experts and their results come back, in the backward the other way round; the ranks that split
// an expert's matrices sum their partial results.
void write_routed_experts(OperatorWriter& writer, const MixtureOfExpertsRecipe& moe) {
  const LocalShape& shape = writer.shape();
  const ShardDegrees& shards = writer.setting().shards;
  const auto expert_tensor = static_cast<double>(shards.expert_tensor);
  // Each rank routes tokens / tensor of them, so that none is sent twice, and the ranks of one expert gather theirs.
  const double routed = shape.tokens * expert_tensor / static_cast<double>(shards.tensor);
  const auto capacity = static_cast<double>(expert_capacity(moe, static_cast<std::int64_t>(routed)));
  // The CPU's kernels compute rows of tokens alone, CUDA's also the empty places of an expert's capacity.
  const double places = writer.is_cpu() ? routed * expert_load(moe).kept : static_cast<double>(moe.experts) * capacity;
  const double bytes = shape.element * places * shape.hidden;
  const double local_experts = static_cast<double>(moe.experts) / static_cast<double>(shards.expert);
  const double copied = (3 * places + shape.tokens) * shape.hidden;  // to the experts, from them, and their sum

  Operator& dispatch = writer.elementwise("feed_forward.experts.dispatch", copied, copied);
  dispatch.forward_working = dispatch.backward_working = 2 * bytes;
  if (writer.is_cpu()) {
    // The experts' input is copied for each pass and released after it, before the layer's output is made; in the
    // backward the gradient of their output takes the place of that output.
    dispatch.forward_working = std::max(0.0, bytes - shape.element * shape.residual());
    dispatch.backward_working = bytes;
  }
  if (moe.shared_experts == 0) writer.hold_gathered_rows(dispatch);
  exchange_tokens(dispatch, bytes);
  // How many rows there are for each expert, once for both passes.
  OperatorWriter::exchange(dispatch, RankAxis::expert, Collective::all_to_all, Direction::forward, "token counts",
                           index_bytes * static_cast<double>(moe.experts));
  // The ranks of one expert see the same tokens; each has a part of their gradient.
  sum_over_expert(dispatch, Direction::backward, bytes);

  const Network network{.path = "feed_forward.experts.routed",
                        .saved = "experts",
                        .rows = places / local_experts,
                        .width = static_cast<double>(moe.ffn_hidden_size) / expert_tensor,
                        .networks = local_experts,
                        .useful_rows = routed * expert_load(moe).kept,
                        .keeps_activated = writer.kept_on_cuda()};
  Operator& up = write_up(writer, network, {Role::expert_gate_weight, Role::expert_up_weight});
  // The CPU's kernels copy it again, but for rows that came from other ranks.
  if (!writer.is_cpu() || shards.expert > 1) writer.save(up, "experts.input", shape.gemm_input * places * shape.hidden);
  write_activation(writer, network);
  Operator& down = write_down(writer, network, {Role::expert_down_weight});
  // The gradient of a token's scores needs the output of each of its experts.
  writer.save(down, "experts.output", bytes);
  // Its movement of memory is counted with the dispatch, here only its collectives.
  Operator& combine = writer.elementwise("feed_forward.experts.combine", 0, 0);
  exchange_tokens(combine, bytes);
  sum_over_expert(combine, Direction::forward, bytes);
}

// The gradient of the gate needs what it multiplies.
void write_shared_gate(OperatorWriter& writer) {
  const LocalShape& shape = writer.shape();
  Operator& gate = writer.product("feed_forward.experts.shared_gate", {shape.tokens, 1, shape.hidden});
  writer.save(gate, "shared.gates", fp32_bytes * shape.split_tokens);
  writer.save(gate, "shared.output", shape.element * shape.residual());
}

}  // namespace

// The second half of a layer: a dense network, or the experts in its place.
void write_feed_forward(OperatorWriter& writer) {
  const LocalShape& shape = writer.shape();
  const ModelRecipe& model = writer.model();
  Operator& norm = writer.norm("feed_forward.norm");
  writer.save(norm, "middle", shape.element * shape.residual());
  writer.save(norm, "ffn.input", shape.gemm_input * shape.residual(), writer.kept_on_cuda());
  if (writer.is_cpu()) writer.save(norm, "ffn_norm.statistics", writer.statistics_bytes(shape.split_tokens));

  if (!has_experts(model, writer.layer())) {
    write_dense_network(writer, "feed_forward.network", model.ffn_hidden_size);
  } else {
    const MixtureOfExpertsRecipe& moe = *model.moe;
    write_router(writer, moe);
    write_routed_experts(writer, moe);
    if (moe.shared_experts > 0)
      write_dense_network(writer, "feed_forward.experts.shared", moe.shared_experts * moe.ffn_hidden_size);
    if (moe.shared_gate) write_shared_gate(writer);
  }
  Operator& residual = writer.residual("feed_forward.residual");
  // The layer's output, beside the branch that is added to it.
  residual.forward_working = shape.element * shape.residual();
  if (writer.drops() && !writer.is_cpu())
    writer.save(residual, "ffn.residual_mask", dropout_mask_bytes * shape.residual());
}

}  // namespace llmtrain
