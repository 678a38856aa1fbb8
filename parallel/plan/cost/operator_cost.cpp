// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/operator_cost.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "core/graph/values.h"
#include "parallel/layout/emulated_machine.h"
#include "parallel/plan/cost/elementwise_traffic.h"
#include "parallel/plan/cost/two_streams.h"

namespace llmtrain {
namespace {

// Device work and launches of an operator, or of a sequence of them.
struct WorkPair {
  Work forward;
  Work backward;

  WorkPair& operator+=(const WorkPair& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

// The fraction of a weight's cast that one pass of one rank does.
double weight_cast_share(const PricedLayout& priced) {
  switch (priced.program().fp8.weight_casts) {
    case WeightCasts::micro_batch:
      return 1;
    case WeightCasts::step:
      return 1.0 / static_cast<double>(priced.partition.shape.micro_batches);
    case WeightCasts::shard:
      // A rank casts the shard that it owns before the gather, as torchao does for FSDP; without shards there is
      // nothing to share.
      return priced.recipe().parallel.zero_stage == 3 ? 1.0 / static_cast<double>(shard_group(priced.mesh()).ranks) : 1;
  }
  return 1;
}

// Casts of an FP8 product: the input to FP8 and to its FP8 transpose, the weight likewise (at O3 it is FP8 already:
// only the transpose); in the backward the output's gradient likewise, and the weight's gradient into the FP8 sum
// (FP8-LM, arXiv 2310.18313, section 2).
void add_casts(const PricedLayout& priced, const MatrixProduct& product, bool has_weight_gradient, WorkPair& cost) {
  const double element = priced.roofline.element_bytes();
  const double factor = priced.program().traffic.cast * product.batch;
  const double input = product.rows * product.inner, weight = product.inner * product.columns;
  const double output = product.rows * product.columns;
  // Read one element, write two FP8 ones with their scales; at O3 read and write one byte.
  const double bytes = element + 2 * priced.setting().numbers.operand_bytes();
  const double weight_bytes = priced.setting().numbers.fp8_level == Fp8Level::o3 ? 2 : bytes;
  cost.forward += priced.roofline.pass(factor * bytes * input);
  cost.forward += priced.roofline.pass(factor * weight_bytes * weight) * weight_cast_share(priced);
  cost.backward += priced.roofline.pass(factor * bytes * output);
  if (priced.program().fp8.states && has_weight_gradient)
    cost.backward += priced.roofline.pass(factor * bytes * weight);
}

// The backward has two products: the gradient of the input and, unless the weight is frozen, that of the weight.
WorkPair product_cost(const PricedLayout& priced, const Operator& item) {
  MatrixProduct product = item.product;
  // Priced as parts and not as a whole, because smaller products use the device less well.
  product.rows /= item.parts;
  const MatrixType type = item.uses_fp8 ? MatrixType::fp8 : MatrixType::compute;
  const MatrixProduct input_gradient{product.rows, product.inner, product.columns, product.batch};
  const Roofline& roofline = priced.roofline;
  if (item.is_backward_alone) return {{}, roofline.product(product, type) * item.parts};
  WorkPair cost;
  cost.forward = roofline.linear(product, type, item.is_grouped);
  cost.backward = roofline.linear(input_gradient, type, item.is_grouped);
  if (item.has_weight_gradient) cost.backward += roofline.weight_gradient(product, type, item.is_grouped);
  if (item.uses_fp8) add_casts(priced, product, item.has_weight_gradient, cost);
  if (item.module == OperatorModule::experts && priced.program().experts.launches_each)
    for (Work* work : {&cost.forward, &cost.backward}) work->operators *= product.batch;
  return {cost.forward * item.parts, cost.backward * item.parts};
}

// Norms, activation functions and residuals are bound by memory: their time is that of their bytes.
WorkPair elementwise_cost(const PricedLayout& priced, const Operator& item) {
  const double traffic = elementwise_traffic(priced.program().traffic, item.fused_pass);
  const auto pass = [&](const Movement& movement) {
    const double bytes = traffic * moved_bytes(priced, movement);
    return priced.roofline.pass(bytes / item.parts) * item.parts;
  };
  return {pass(item.forward), pass(item.backward)};
}

WorkPair fused_attention_cost(const PricedLayout& priced, const Operator& item) {
  const FusedAttentionFlops flops = fused_attention_flops(item);
  const AttentionSizes sizes = attention_sizes(item);
  return {priced.roofline.attention_forward(flops.forward, sizes),
          priced.roofline.attention_backward(flops.backward, sizes)};
}

// Attention that stores its scores: two products per head; between them scale, mask and softmax in one kernel, and
// dropout in another.
WorkPair stored_attention_cost(const PricedLayout& priced, const Operator& item) {
  const auto& [queries, keys, width, matrices] = item.product;
  const double scores = matrices * queries * keys, element = priced.roofline.element_bytes();
  const Roofline& roofline = priced.roofline;
  const Work make_scores = roofline.product(item.product);
  const double value_size = item.value_size > 0 ? item.value_size : width;
  const Work use_scores = roofline.product({queries, value_size, keys, matrices});
  // Each product has two backward products of the same size.
  WorkPair cost{make_scores + use_scores, (make_scores + use_scores) * 2};
  // The softmax reads and writes the scores; its backward reads them and their gradient, and writes a gradient.
  cost.forward += roofline.pass(priced.program().traffic.softmax_forward * 2 * element * scores);
  cost.backward += roofline.pass(priced.program().traffic.softmax_backward * 3 * element * scores);
  // Dropout on the scores: another read and write, and the mask.
  if (item.forward.elements > 0) {
    cost.forward += roofline.pass(moved_bytes(priced, item.forward));
    cost.backward += roofline.pass(moved_bytes(priced, item.backward));
  }
  return cost;
}

WorkPair cross_entropy_cost(const PricedLayout& priced, const Operator& item) {
  const double bytes = logit_bytes(priced) * priced.program().traffic.cross_entropy;
  return {priced.roofline.pass(bytes * item.forward.elements), priced.roofline.pass(bytes * item.backward.elements)};
}

WorkPair price_both(const PricedLayout& priced, const Operator& item) {
  switch (item.kind) {
    case OperatorKind::product:
      return product_cost(priced, item);
    case OperatorKind::fused_attention:
      return fused_attention_cost(priced, item);
    case OperatorKind::stored_attention:
      return stored_attention_cost(priced, item);
    case OperatorKind::elementwise:
      return elementwise_cost(priced, item);
    case OperatorKind::cross_entropy:
      return cross_entropy_cost(priced, item);
  }
  return {};
}

WorkPair price(const PricedLayout& priced, const Operator& item) {
  WorkPair cost = price_both(priced, item);
  if (!item.has_backward) cost.backward = {};
  return cost;
}

using Range = std::span<const Operator>;

// What a block's passes compute, and what its backward computes again.
struct BlockWork {
  WorkPair passes;
  Work repeated;
};

// Selective recompute repeats attention's scores, the others the whole forward pass (arXiv 2205.05198).
BlockWork work_of(const PricedLayout& priced, Range operators, Recompute recompute) {
  BlockWork work;
  for (const Operator& item : operators) {
    const WorkPair cost = price(priced, item);
    work.passes += cost;
    const double bytes = priced.program().traffic.elementwise * moved_bytes(priced, {item.summed_gradients});
    work.passes.backward += priced.roofline.pass(bytes);
    if (is_repeated(item, recompute)) work.repeated += cost.forward;
  }
  return work;
}

// How long one pass waits for its collectives.
double communication_seconds(const PricedLayout& priced, Range block, Direction direction) {
  double seconds = 0;
  for (const Operator& item : block)
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction)
        seconds += shown_share(priced, block, exchange) * exchange_seconds(priced, exchange);
  return seconds;
}

WireSeconds wires_of(const PricedLayout& priced, Range block, Direction direction) {
  WireSeconds sum;
  for (const Operator& item : block)
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction) sum += exchange_wires(priced, exchange);
  return sum;
}

// How many times as long as on its own the host of a rank takes to launch an operator (HostFacts).
double host_turns(const PricedLayout& priced) {
  const Mesh& mesh = priced.mesh();
  const bool crosses_nodes = mesh.pipeline > 1 && mesh.world() > mesh.devices_per_node;
  if (!priced.program().host.takes_turns || mesh.tensor == 1 || !crosses_nodes) return 1;
  return 1 + static_cast<double>(mesh.tensor) / 2;
}

// Seconds of work that the host launches operator by operator.
double launched_seconds(const PricedLayout& priced, Work work) {
  const double turns = host_turns(priced);
  if (priced.program().host.waits_for_turns)
    return priced.roofline.seconds(work) + (turns - 1) * priced.roofline.host_seconds(work);
  work.operators *= turns;
  return priced.roofline.seconds(work);
}

}  // namespace

AxisGroup group_of(const PricedLayout& priced, RankAxis axis) {
  const Mesh& mesh = priced.mesh();
  switch (axis) {
    case RankAxis::tensor:
      return {tensor_group(mesh), Purpose::tensor_parallel};
    case RankAxis::context:
      return {context_group(mesh), Purpose::context};
    case RankAxis::tokens:
      return {token_group(mesh), Purpose::expert};
    case RankAxis::expert:
      return {expert_group(mesh), Purpose::expert};
    case RankAxis::expert_inside:
      return {rank_group(mesh, GroupKind::expert_inside), Purpose::expert};
    case RankAxis::expert_across:
      return {rank_group(mesh, GroupKind::expert_across), Purpose::expert};
    case RankAxis::expert_tensor:
      return {expert_tensor_group(mesh_in_use(mesh)), Purpose::tensor_parallel};
  }
  return {};
}

double exchange_seconds(const PricedLayout& priced, const Exchange& exchange) {
  const RankGroup group = group_of(priced, exchange.axis).ranks;
  const double bytes = std::max(exchange.bytes, exchange.waited_bytes) / exchange.parts;
  return exchange.parts * priced.collectives.seconds(exchange.collective, bytes, group) / exchange.compression;
}

WireSeconds exchange_wires(const PricedLayout& priced, const Exchange& exchange) {
  const RankGroup group = group_of(priced, exchange.axis).ranks;
  return priced.collectives.wires(exchange.collective, exchange.bytes / exchange.parts, group) *
         (exchange.parts / exchange.compression);
}

namespace {

// For which share of its exchanges' time a pass waits where their parts run beside operators in as many parts: in the
// order of a pass, the first half of the exchanges brings what the operators compute, the second takes their results
// away in as many steps.
double share_beside_parts(const PricedLayout& priced, Range block, Direction direction) {
  std::vector<double> seconds;
  Work work;
  double parts = 1;
  for (const Operator& item : block) {
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction && exchange.exposure == Exposure::beside_parts)
        seconds.push_back(exchange_seconds(priced, exchange));
    if (item.parts == 1) continue;
    const WorkPair cost = price(priced, item);
    work += direction == Direction::forward ? cost.forward : cost.backward;
    parts = item.parts;
  }
  if (direction == Direction::backward) std::ranges::reverse(seconds);
  const double communication = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (communication <= 0) return 1;
  const double computation = priced.roofline.seconds(work);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  const double arrival = std::accumulate(seconds.begin(), middle, 0.0);
  const PartSeconds part{arrival / parts, computation / parts, (communication - arrival) / parts};
  const double shown = two_stream_seconds(part, static_cast<int>(parts)) - computation;
  // What is hidden slows the computation down.
  return (shown + priced.profile.compute_slowdown * (communication - shown)) / communication;
}

}  // namespace

double shown_share(const PricedLayout& priced, Range block, const Exchange& exchange) {
  switch (exchange.exposure) {
    case Exposure::whole:
      return 1;
    case Exposure::beside_product: {  // hidden by the product, which it slows down
      const OverlapFacts& overlap = priced.program().overlap;
      if (overlap.tensor == TensorOverlap::none) return 1;
      return std::max(overlap.exposed, priced.profile.compute_slowdown);
    }
    case Exposure::gathered_again:
      return priced.program().memory.keeps_gathered ? 0 : priced.program().overlap.sequence_regather;
    case Exposure::beside_parts:
      return share_beside_parts(priced, block, exchange.direction);
  }
  return 1;
}

Message message_of(const PricedLayout& priced, std::size_t value) {
  PassSetting whole = priced.setting();
  // The size of the whole tensor; what tensor ranks send of it does not depend on sequence parallelism, because without
  // it they scatter their equal copies for the transfer and gather them after it, unless the program sends all copies.
  whole.tokens.row_ranks = 1;
  const double bytes = value_bytes(priced.graph().values[value], whole);
  if (priced.recipe().parallel.sequence) return {bytes / static_cast<double>(priced.mesh().tensor), 0};
  if (priced.program().stages.sends_copies) return {bytes, 0};
  return {bytes / static_cast<double>(priced.mesh().tensor), bytes};
}

double transfer_seconds(const PricedLayout& priced, std::span<const std::size_t> values, const RankGroup& neighbours) {
  // Without overlap the program synchronises with the device after each transfer, which costs the host several times as
  // much.
  const double waits = priced.recipe().parallel.overlap ? 1 : priced.program().host.blocking_transfer;
  double seconds = 0;
  for (const std::size_t value : values) {
    const Message message = message_of(priced, value);
    // Host work, the message itself, and the gather of the parts inside the receivers' tensor group.
    seconds += waits * priced.profile.host.transfer_seconds +
               priced.collectives.point_to_point(message.sent_bytes, neighbours) +
               priced.collectives.all_gather(message.whole_bytes, tensor_group(priced.mesh()));
  }
  return seconds;
}

WireSeconds transfer_wires(const PricedLayout& priced, std::span<const std::size_t> values,
                           const RankGroup& neighbours) {
  WireSeconds wires;
  for (const std::size_t value : values) {
    const Message message = message_of(priced, value);
    wires += priced.collectives.wires(Collective::send, message.sent_bytes, neighbours);
    wires += priced.collectives.wires(Collective::all_gather, message.whole_bytes, tensor_group(priced.mesh()));
  }
  return wires;
}

double product_seconds(const PricedLayout& priced, const Operator& item) {
  const WorkPair cost = price(priced, item);
  return priced.roofline.seconds(cost.forward) + priced.roofline.seconds(cost.backward);
}

double logit_bytes(const PricedLayout& priced) {
  return priced.program().traffic.loss_in_fp32 ? element_bytes(ElementType::float32) : priced.roofline.element_bytes();
}

double moved_bytes(const PricedLayout& priced, const Movement& movement) {
  return priced.roofline.element_bytes() * movement.elements + movement.mask_bytes;
}

StageCost block_cost(const PricedLayout& priced, const OperatorList& operators, Recompute recompute) {
  auto [all, repeated] = work_of(priced, operators, recompute);
  // The host launches a pass as one CUDA graph, whose operators the device starts by itself.
  if (priced.recipe().kernels.cuda_graphs)
    for (Work* work : {&all.forward, &all.backward, &repeated}) work->operators = 0;
  StageCost cost;
  cost.forward.communication_seconds = communication_seconds(priced, operators, Direction::forward);
  cost.forward.seconds = launched_seconds(priced, all.forward) + cost.forward.communication_seconds;
  const bool exchanges_again = is_exchanged_again(operators.front(), recompute);
  const double repeated_seconds = exchanges_again ? cost.forward.communication_seconds : 0;

  // Backward operators are launched from the recorded graph, without the host code that described the forward.
  all.backward.operators *= priced.program().host.backward;
  const double waited = communication_seconds(priced, operators, Direction::backward);
  const double alone = launched_seconds(priced, all.backward);
  const double with_recompute = launched_seconds(priced, all.backward + repeated);
  cost.backward.seconds = with_recompute + waited + repeated_seconds;
  cost.backward.communication_seconds = waited + repeated_seconds;
  // By difference, because host-bound and device-bound work do not add up: recompute may fill time that the host took
  // anyway. The repeated collectives count as communication, not as recompute.
  cost.backward.recompute_seconds = std::max(0.0, with_recompute - alone);
  cost.forward.wires = wires_of(priced, operators, Direction::forward);
  cost.backward.wires = wires_of(priced, operators, Direction::backward);
  if (exchanges_again) cost.backward.wires += cost.forward.wires;
  // What computation hides takes its time nevertheless.
  for (PassCost* pass : {&cost.forward, &cost.backward}) pass->seconds = std::max(pass->seconds, pass->wires.longest());
  // Once per micro-batch, however many losses it has: in the block that ends it.
  if (std::ranges::any_of(operators, &Operator::ends_micro_batch))
    cost.forward.seconds += priced.profile.host.micro_batch_seconds;
  return cost;
}

}  // namespace llmtrain
