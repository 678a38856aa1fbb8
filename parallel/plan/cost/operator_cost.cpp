// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/operator_cost.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "parallel/layout/emulated_machine.h"
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
double weight_cast_share(const CostContext& context) {
  switch (context.program().fp8.weight_casts) {
    case WeightCasts::micro_batch:
      return 1;
    case WeightCasts::step:
      return 1.0 / static_cast<double>(context.partition.shape.micro_batches);
    case WeightCasts::shard:
      // A rank casts the shard that it owns before the gather, as torchao does for FSDP; without shards there is
      // nothing to share.
      return context.recipe().parallel.zero_stage == 3 ? 1.0 / static_cast<double>(shard_group(context.mesh()).ranks)
                                                       : 1;
  }
  return 1;
}

// Casts of an FP8 product: the input to FP8 and to its FP8 transpose, the weight likewise (at O3 it is FP8 already:
// only the transpose); in the backward the output's gradient likewise, and the weight's gradient into the FP8 sum
// (FP8-LM, arXiv 2310.18313, section 2).
void add_casts(const CostContext& context, const MatrixProduct& product, bool has_weight_gradient, WorkPair& cost) {
  const double element = context.roofline.element_bytes();
  const double factor = context.program().traffic.cast * product.batch;
  const double input = product.rows * product.inner, weight = product.inner * product.columns;
  const double output = product.rows * product.columns;
  // Read one element, write two FP8 ones with their scales; at O3 read and write one byte.
  const double bytes = element + 2 * (1 + context.program().fp8.scale_bytes);
  const double weight_bytes = context.setting.fp8_level == Fp8Level::o3 ? 2 : bytes;
  cost.forward += context.roofline.pass(factor * bytes * input);
  cost.forward += context.roofline.pass(factor * weight_bytes * weight) * weight_cast_share(context);
  cost.backward += context.roofline.pass(factor * bytes * output);
  if (context.program().fp8.states && has_weight_gradient)
    cost.backward += context.roofline.pass(factor * bytes * weight);
}

// The backward has two products: the gradient of the input and, unless the weight is frozen, that of the weight.
WorkPair product_cost(const CostContext& context, const Operator& item) {
  MatrixProduct product = item.product;
  // Priced as parts and not as a whole, because smaller products use the device less well.
  product.rows /= item.parts;
  const MatrixType type = item.uses_fp8 ? MatrixType::fp8 : MatrixType::compute;
  const MatrixProduct input_gradient{product.rows, product.inner, product.columns, product.batch};
  const MatrixProduct weight_gradient{product.columns, product.inner, product.rows, product.batch};
  WorkPair cost;
  cost.forward = context.roofline.product(product, type);
  cost.backward = context.roofline.product(input_gradient, type);
  if (item.has_weight_gradient) cost.backward += context.roofline.product(weight_gradient, type);
  if (item.uses_fp8) add_casts(context, product, item.has_weight_gradient, cost);
  return {cost.forward * item.parts, cost.backward * item.parts};
}

// Norms, activation functions and residuals are bound by memory: their time is that of their bytes.
WorkPair elementwise_cost(const CostContext& context, const Operator& item) {
  const auto pass = [&](const Movement& movement) {
    const double bytes = context.program().traffic.elementwise * moved_bytes(context, movement);
    return context.roofline.pass(bytes / item.parts) * item.parts;
  };
  return {pass(item.forward), pass(item.backward)};
}

WorkPair fused_attention_cost(const CostContext& context, const Operator& item) {
  const CausalFlops flops = causal_flops(item);
  return {context.roofline.attention_forward(flops.forward), context.roofline.attention_backward(flops.backward)};
}

// Attention that stores its scores: two products per head; between them scale, mask and softmax in one kernel, and
// dropout in another.
WorkPair stored_attention_cost(const CostContext& context, const Operator& item) {
  const auto& [queries, keys, width, matrices] = item.product;
  const double scores = matrices * queries * keys, element = context.roofline.element_bytes();
  const Roofline& roofline = context.roofline;
  const Work make_scores = roofline.product(item.product);
  const Work use_scores = roofline.product({queries, width, keys, matrices});
  // Each product has two backward products of the same size.
  WorkPair cost{make_scores + use_scores, (make_scores + use_scores) * 2};
  // The softmax reads and writes the scores; its backward reads them and their gradient, and writes a gradient.
  cost.forward += roofline.pass(context.program().traffic.softmax_forward * 2 * element * scores);
  cost.backward += roofline.pass(context.program().traffic.softmax_backward * 3 * element * scores);
  // Dropout on the scores: another read and write, and the mask.
  if (item.forward.mask_bytes > 0) {
    cost.forward += roofline.pass(2 * element * scores + item.forward.mask_bytes);
    cost.backward += roofline.pass(2 * element * scores + item.backward.mask_bytes);
  }
  return cost;
}

WorkPair cross_entropy_cost(const CostContext& context, const Operator& item) {
  // Frameworks compute the loss in fp32 whatever the compute type, for the range of the exponentials.
  constexpr double fp32_bytes = 4;
  const double bytes = fp32_bytes * context.program().traffic.cross_entropy;
  return {context.roofline.pass(bytes * item.forward.elements), context.roofline.pass(bytes * item.backward.elements)};
}

WorkPair price(const CostContext& context, const Operator& item) {
  switch (item.kind) {
    case OperatorKind::product:
      return product_cost(context, item);
    case OperatorKind::fused_attention:
      return fused_attention_cost(context, item);
    case OperatorKind::stored_attention:
      return stored_attention_cost(context, item);
    case OperatorKind::elementwise:
      return elementwise_cost(context, item);
    case OperatorKind::cross_entropy:
      return cross_entropy_cost(context, item);
  }
  return {};
}

using Range = std::span<const Operator>;

// Of a block: what its passes compute, and what its backward computes again.
struct BlockWork {
  WorkPair passes;
  Work repeated;
};

// Selective recompute repeats attention's scores, the others the whole forward pass (arXiv 2205.05198).
BlockWork work_of(const CostContext& context, Range operators) {
  BlockWork work;
  for (const Operator& item : operators) {
    const WorkPair cost = price(context, item);
    work.passes += cost;
    if (is_repeated(item, context.setting.recompute)) work.repeated += cost.forward;
  }
  return work;
}

// Of one pass.
double communication_seconds(const CostContext& context, Range block, Direction direction) {
  double seconds = 0;
  for (const Operator& item : block)
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction)
        seconds += shown_share(context, block, exchange) * exchange_seconds(context, exchange);
  return seconds;
}

WireSeconds wires_of(const CostContext& context, Range block, Direction direction) {
  WireSeconds sum;
  for (const Operator& item : block)
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction) sum += exchange_wires(context, exchange);
  return sum;
}

}  // namespace

KernelSet kernel_set(const Recipe& recipe, const ClusterProfile& profile) {
  const DeviceKind asked = recipe.cluster.device;
  const DeviceKind kind = asked == DeviceKind::automatic ? profile.device.kind : asked;
  if (kind != DeviceKind::cuda) return KernelSet::cpu;
  return profile.program.name == Program{}.name ? KernelSet::cuda : KernelSet::megatron;
}

PassSetting pass_setting(const Partition& partition, KernelSet kernels, const Program& program) {
  PassSetting setting = pass_setting(partition, kernels);
  setting.agrees_on_scales = program.fp8.agrees_on_scales && !partition.recipe.precision.delays_scales();
  setting.fp8_scale_bytes = program.fp8.scale_bytes;
  // Levels above O0 differ in gradients and states alone.
  if (!program.fp8.states && stores_fp8(setting.fp8_level)) setting.fp8_level = Fp8Level::o0;
  setting.sends_tokens_once = program.experts.sends_tokens_once;
  if (setting.sends_tokens_once && can_relay_rows(partition.mesh))
    setting.expert_node_ranks = expert_node_ranks(partition.mesh);
  return setting;
}

CostContext::CostContext(const Partition& partition_in, const ClusterProfile& profile_in)
    : partition(partition_in),
      profile(profile_in),
      setting(pass_setting(partition_in, kernel_set(partition_in.recipe, profile_in), profile_in.program)),
      roofline(profile_in, partition_in.recipe.precision),
      collectives(profile_in, partition_in.mesh.devices_per_node, emulated_link(partition_in.recipe.launch)) {}

PrecisionRecipe CostContext::state_precision() const {
  PrecisionRecipe precision = recipe().precision;
  if (!program().fp8.states) precision.fp8_level = Fp8Level::off;
  return precision;
}

AxisGroup group_of(const CostContext& context, RankAxis axis) {
  const Mesh& mesh = context.mesh();
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

double exchange_seconds(const CostContext& context, const Exchange& exchange) {
  const RankGroup group = group_of(context, exchange.axis).ranks;
  const double bytes = std::max(exchange.bytes, exchange.waited_bytes) / exchange.parts;
  return exchange.parts * context.collectives.seconds(exchange.collective, bytes, group) / exchange.compression;
}

WireSeconds exchange_wires(const CostContext& context, const Exchange& exchange) {
  const RankGroup group = group_of(context, exchange.axis).ranks;
  return context.collectives.wires(exchange.collective, exchange.bytes / exchange.parts, group) *
         (exchange.parts / exchange.compression);
}

namespace {

// Of exchanges whose parts run beside operators in as many parts: in the order of a pass, the first half of them brings
// what the operators compute, the second takes their results away in as many steps.
double share_beside_parts(const CostContext& context, Range block, Direction direction) {
  std::vector<double> seconds;
  Work work;
  double parts = 1;
  for (const Operator& item : block) {
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == direction && exchange.exposure == Exposure::beside_parts)
        seconds.push_back(exchange_seconds(context, exchange));
    if (item.parts == 1) continue;
    const WorkPair cost = price(context, item);
    work += direction == Direction::forward ? cost.forward : cost.backward;
    parts = item.parts;
  }
  if (direction == Direction::backward) std::ranges::reverse(seconds);
  const double communication = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (communication <= 0) return 1;
  const double computation = context.roofline.seconds(work);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  const double arrival = std::accumulate(seconds.begin(), middle, 0.0);
  const PartSeconds part{arrival / parts, computation / parts, (communication - arrival) / parts};
  const double shown = two_stream_seconds(part, static_cast<int>(parts)) - computation;
  // What is hidden slows the computation down.
  return (shown + context.profile.compute_slowdown * (communication - shown)) / communication;
}

}  // namespace

double shown_share(const CostContext& context, Range block, const Exchange& exchange) {
  switch (exchange.exposure) {
    case Exposure::whole:
      return 1;
    case Exposure::beside_product: {  // hidden by the product, which it slows down
      const OverlapFacts& overlap = context.program().overlap;
      if (overlap.tensor == TensorOverlap::none) return 1;
      return std::max(overlap.exposed, context.profile.compute_slowdown);
    }
    case Exposure::gathered_again:
      return context.program().overlap.sequence_regather;
    case Exposure::beside_parts:
      return share_beside_parts(context, block, exchange.direction);
  }
  return 1;
}

Boundary boundary_of(const CostContext& context) {
  PassSetting whole = context.setting;
  // The size of the whole tensor; what tensor ranks send of it does not depend on sequence parallelism, because without
  // it they scatter their equal copies for the transfer and gather them after it.
  whole.splits_sequence = false;
  const double bytes = boundary_bytes(context.recipe().model, whole);
  return {bytes / static_cast<double>(context.mesh().tensor), context.recipe().parallel.sequence ? 0 : bytes};
}

double boundary_seconds(const CostContext& context, const RankGroup& neighbours) {
  const Boundary boundary = boundary_of(context);
  // Without overlap the program synchronises with the device after each transfer, which costs the host several times as
  // much.
  const double waits = context.recipe().parallel.overlap ? 1 : context.program().host.blocking_transfer;
  // Host work, the message itself, and the gather of the parts inside the receivers' tensor group.
  return waits * context.profile.host.transfer_seconds +
         context.collectives.point_to_point(boundary.sent_bytes, neighbours) +
         context.collectives.all_gather(boundary.whole_bytes, tensor_group(context.mesh()));
}

WireSeconds boundary_wires(const CostContext& context, const RankGroup& neighbours) {
  const Boundary boundary = boundary_of(context);
  WireSeconds wires = context.collectives.wires(Collective::send, boundary.sent_bytes, neighbours);
  wires += context.collectives.wires(Collective::all_gather, boundary.whole_bytes, tensor_group(context.mesh()));
  return wires;
}

double product_seconds(const CostContext& context, const Operator& item) {
  const WorkPair cost = product_cost(context, item);
  return context.roofline.seconds(cost.forward) + context.roofline.seconds(cost.backward);
}

CausalFlops causal_flops(const Operator& item) {
  // item.flops counts the whole square of scores.
  const double flops = item.flops / 2;
  return {flops, 2.5 * flops};
}

double moved_bytes(const CostContext& context, const Movement& movement) {
  return context.roofline.element_bytes() * movement.elements + movement.mask_bytes;
}

StageCost block_cost(const CostContext& context, const OperatorList& operators) {
  const Recompute recompute = context.setting.recompute;
  auto [all, repeated] = work_of(context, operators);
  StageCost cost;
  cost.forward.communication_seconds = communication_seconds(context, operators, Direction::forward);
  cost.forward.seconds = context.roofline.seconds(all.forward) + cost.forward.communication_seconds;
  const bool exchanges_again = is_exchanged_again(operators.front(), recompute);
  const double repeated_seconds = exchanges_again ? cost.forward.communication_seconds : 0;

  // Backward operators are launched from the recorded graph, without the host code that described the forward.
  all.backward.operators *= context.program().host.backward;
  const double waited = communication_seconds(context, operators, Direction::backward);
  const double alone = context.roofline.seconds(all.backward);
  const double with_recompute = context.roofline.seconds(all.backward + repeated);
  cost.backward.seconds = with_recompute + waited + repeated_seconds;
  cost.backward.communication_seconds = waited + repeated_seconds;
  // By difference, because host-bound and device-bound work do not add up: recompute may fill time that the host took
  // anyway. The repeated collectives count as communication, not as recompute.
  cost.backward.recompute_seconds = std::max(0.0, with_recompute - alone);
  cost.forward.wires = wires_of(context, operators, Direction::forward);
  cost.backward.wires = wires_of(context, operators, Direction::backward);
  if (exchanges_again) cost.backward.wires += cost.forward.wires;
  // What computation hides takes its time nevertheless.
  for (PassCost* pass : {&cost.forward, &cost.backward}) pass->seconds = std::max(pass->seconds, pass->wires.longest());
  // Once per micro-batch: in the block that ends it, the head.
  if (std::ranges::any_of(operators, &Operator::ends_micro_batch))
    cost.forward.seconds += context.profile.host.micro_batch_seconds;
  return cost;
}

}  // namespace llmtrain
