// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/block_cost.h"

#include <algorithm>

#include "parallel/plan/imitated_machine.h"

namespace llmtrain {
namespace {

bool is_fp8(const CostContext& context) { return context.recipe.precision.fp8_level != Fp8Level::off; }

// Casts of an FP8 linear: the input into a copy and its transpose, the weight likewise (at O3 it is FP8 already: the
// transpose alone), in the backward the output's gradient likewise, and the weight's gradient into the FP8 sum.
void add_casts(const CostContext& context, const MatrixProduct& product, PassPair& cost) {
  const double element = context.roofline.element_bytes();
  const double factor = context.constants.cast * product.batch;
  const double input = product.rows * product.inner, weight = product.inner * product.columns;
  const double output = product.rows * product.columns;
  const double weight_bytes = context.recipe.precision.fp8_level == Fp8Level::o3 ? 2 : element + 2;
  cost.forward.work += context.roofline.pass(factor * (element + 2) * input);
  cost.forward.work += context.roofline.pass(factor * weight_bytes * weight);
  cost.backward.work += context.roofline.pass(factor * (element + 2) * output);
  cost.backward.work += context.roofline.pass(factor * (element + 2) * weight);
}

double norm_elements(const CostContext& context) { return context.shape.row_tokens * context.shape.hidden; }

PassPair norm_cost(const CostContext& context) {
  const double elements = norm_elements(context);
  return elementwise_cost(context, 2 * elements, 3 * elements);
}

// Dropout and residual addition behind an output projection.
PassPair residual_cost(const CostContext& context) {
  const double elements = norm_elements(context);
  return elementwise_cost(context, 3 * elements, context.shape.drops ? 2 * elements : 0,
                          context.shape.drops ? elements : 0);
}

PassPair attention_half(const CostContext& context) {
  const LayerShape& shape = context.shape;
  PassPair cost = norm_cost(context);
  cost += linear_cost(context, {shape.tokens, shape.query_width + 2 * shape.key_width, shape.hidden});
  const double rotated = shape.tokens * (shape.query_width + shape.key_width);
  if (shape.query_norm) cost += elementwise_cost(context, 2 * rotated, 3 * rotated);
  if (shape.rotates) cost += elementwise_cost(context, 2 * rotated, 2 * rotated);
  cost += attention_cost(context);
  cost += linear_cost(context, {shape.tokens, shape.hidden, shape.query_width});
  cost += tensor_parallel_cost(context);
  cost += residual_cost(context);
  return cost;
}

PassPair feed_forward_half(const CostContext& context, LayerKind kind) {
  PassPair cost = norm_cost(context);
  if (kind == LayerKind::experts) {
    cost += experts_cost(context);
  } else {
    cost += feed_forward_cost(context, context.shape.tokens, context.shape.ffn_width);
    cost += tensor_parallel_cost(context);
  }
  cost += residual_cost(context);
  return cost;
}

PassCost forward_cost(const CostContext& context, const Segment& pass) {
  return {context.roofline.seconds(pass.work) + pass.communication_seconds, pass.communication_seconds, 0};
}

PassCost backward_cost(const CostContext& context, Segment pass, const Segment& recomputed) {
  // The backward's operators are started without the program that described them.
  pass.work.operators *= context.constants.backward_host;
  PassCost cost;
  const double alone = context.roofline.seconds(pass.work) + pass.communication_seconds;
  cost.seconds = context.roofline.seconds(pass.work + recomputed.work) + pass.communication_seconds +
                 recomputed.communication_seconds;
  cost.communication_seconds = pass.communication_seconds + recomputed.communication_seconds;
  cost.recompute_seconds = std::max(0.0, cost.seconds - alone);
  return cost;
}

}  // namespace

CostContext::CostContext(const Recipe& recipe_in, const Mesh& mesh_in, const ClusterProfile& profile_in,
                         const CostConstants& constants_in)
    : recipe(recipe_in),
      mesh(mesh_in),
      constants(constants_in),
      shape(make_layer_shape(recipe_in, mesh_in)),
      roofline(profile_in, recipe_in.precision.compute, constants_in.attention),
      collectives(profile_in, mesh_in.devices_per_node, imitated_link(recipe_in.launch)),
      profile(profile_in) {}

PassPair linear_cost(const CostContext& context, const MatrixProduct& product) {
  const MatrixType type = is_fp8(context) ? MatrixType::fp8 : MatrixType::compute;
  const MatrixProduct input_gradient{product.rows, product.inner, product.columns, product.batch};
  const MatrixProduct weight_gradient{product.columns, product.inner, product.rows, product.batch};
  PassPair cost;
  cost.forward.work = context.roofline.product(product, type);
  cost.backward.work = context.roofline.product(input_gradient, type) + context.roofline.product(weight_gradient, type);
  if (is_fp8(context)) add_casts(context, product, cost);
  return cost;
}

PassPair elementwise_cost(const CostContext& context, double forward_elements, double backward_elements,
                          double mask_elements) {
  const double element = context.roofline.element_bytes();
  const double factor = context.constants.elementwise;
  PassPair cost;
  cost.forward.work = context.roofline.pass(factor * (element * forward_elements + mask_elements));
  cost.backward.work = context.roofline.pass(factor * (element * backward_elements + mask_elements));
  return cost;
}

PassPair tensor_parallel_cost(const CostContext& context) {
  const RankGroup group = tensor_group(context.mesh);
  if (group.ranks <= 1) return {};
  const double bytes = context.shape.tokens * context.shape.hidden * context.roofline.element_bytes();
  PassPair cost;
  if (!context.recipe.parallel.sequence) {
    cost.forward.communication_seconds = context.collectives.all_reduce(bytes, group);
    cost.backward.communication_seconds = cost.forward.communication_seconds;
    return cost;
  }
  const double gather = context.collectives.all_gather(bytes, group);
  // FP8 goes through the gathers: the cast stands before them.
  const double gathered = is_fp8(context) ? gather / context.roofline.element_bytes() : gather;
  const double scattered = context.collectives.reduce_scatter(bytes, group);
  // What goes beside products takes its part of their time.
  const double shown =
      context.constants.tensor_overlap == TensorOverlap::products ? context.profile.compute_slowdown : 1;
  cost.forward.communication_seconds = shown * (gathered + scattered);
  cost.backward.communication_seconds =
      cost.forward.communication_seconds + context.constants.sequence_regather * gathered;
  return cost;
}

PassPair feed_forward_cost(const CostContext& context, double tokens, double width, double experts) {
  const LayerShape& shape = context.shape;
  const double inner = shape.gated ? 2 * width : width;
  PassPair cost = linear_cost(context, {tokens, inner, shape.hidden, experts});
  const double read = experts * tokens * inner, written = experts * tokens * width;
  cost += elementwise_cost(context, read + written, 2 * read + written);
  cost += linear_cost(context, {tokens, shape.hidden, width, experts});
  return cost;
}

StageCost layer_cost(const CostContext& context, LayerKind kind) {
  PassPair layer = attention_half(context);
  layer += feed_forward_half(context, kind);
  Segment recomputed;
  if (context.recipe.memory.recompute == Recompute::full) recomputed = layer.forward;
  // Fused attention keeps no scores, so there is nothing to save by computing it again. What context ranks exchange is
  // there for the backward.
  if (context.recipe.memory.recompute == Recompute::selective && !context.shape.fused_attention) {
    recomputed.work = attention_cost(context).forward.work;
  }
  StageCost cost;
  cost.forward = forward_cost(context, layer.forward);
  cost.backward = backward_cost(context, layer.backward, recomputed);
  return cost;
}

StageCost embedding_cost(const CostContext& context) {
  const LayerShape& shape = context.shape;
  const double elements = shape.tokens * shape.hidden;
  PassPair cost = elementwise_cost(context, shape.rotates ? 2 * elements : 3 * elements, 3 * elements);
  if (shape.drops) cost += elementwise_cost(context, 2 * norm_elements(context), 2 * norm_elements(context));
  const RankGroup group = tensor_group(context.mesh);
  const double bytes = elements * context.roofline.element_bytes();
  if (context.recipe.parallel.sequence) {
    cost.forward.communication_seconds = context.collectives.reduce_scatter(bytes, group);
    cost.backward.communication_seconds = context.collectives.all_gather(bytes, group);
  } else {
    cost.forward.communication_seconds = context.collectives.all_reduce(bytes, group);
  }
  StageCost stage;
  stage.forward = forward_cost(context, cost.forward);
  stage.backward = backward_cost(context, cost.backward, {});
  return stage;
}

double cross_entropy_exchange_bytes(const LayerShape& shape, std::int64_t tensor) {
  return 3 * 4 * shape.tokens * static_cast<double>(tensor);
}

StageCost head_cost(const CostContext& context) {
  const LayerShape& shape = context.shape;
  PassPair cost = norm_cost(context);
  // The head keeps the compute type at FP8 levels.
  const MatrixProduct logits{shape.tokens, shape.vocabulary, shape.hidden};
  cost.forward.work += context.roofline.product(logits);
  cost.backward.work += context.roofline.product({shape.tokens, shape.hidden, shape.vocabulary});
  cost.backward.work += context.roofline.product({shape.vocabulary, shape.hidden, shape.tokens});
  const double loss_bytes = 4 * context.constants.cross_entropy * shape.tokens * shape.vocabulary;
  cost.forward.work += context.roofline.pass(loss_bytes);
  cost.backward.work += context.roofline.pass(loss_bytes);
  const RankGroup group = tensor_group(context.mesh);
  const double bytes = shape.tokens * shape.hidden * context.roofline.element_bytes();
  cost.forward.communication_seconds =
      context.collectives.all_gather(cross_entropy_exchange_bytes(shape, group.ranks), group);
  if (context.recipe.parallel.sequence) {
    cost.forward.communication_seconds += context.collectives.all_gather(bytes, group);
    cost.backward.communication_seconds = context.collectives.reduce_scatter(bytes, group);
  } else {
    cost.backward.communication_seconds = context.collectives.all_reduce(bytes, group);
  }
  StageCost stage;
  stage.forward = forward_cost(context, cost.forward);
  stage.forward.seconds += context.profile.host.micro_batch_seconds;
  stage.backward = backward_cost(context, cost.backward, {});
  return stage;
}

}  // namespace llmtrain
