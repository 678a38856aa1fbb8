// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/pass_price.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// int8 has a scale for each of a matrix's rows, which are long; FP4 one of FP8 for 16 (NVFP4).
double stored_bytes(ServedType type, double compute) {
  constexpr double fp4_bytes = 0.5 + 1.0 / 16;
  switch (type) {
    case ServedType::compute:
      return compute;
    case ServedType::int8:
    case ServedType::fp8:
      return 1;
    case ServedType::fp4:
      return fp4_bytes;
  }
  return compute;
}

RankGroup group_of(const SplitExchange& exchange, std::int64_t devices_per_node) {
  return {exchange.ranks, exchange.stride,
          std::clamp<std::int64_t>(devices_per_node / exchange.stride, 1, exchange.ranks)};
}

}  // namespace

bool is_served(const Block& block) {
  if (const LayerSettings* layer = block.layer()) return !layer->predicts;
  const auto* head = std::get_if<HeadSettings>(&block.settings);
  return head == nullptr || head->further == 0;
}

PassPricer::PassPricer(const Graph& graph, const ClusterProfile& profile, const PrecisionRecipe& precision,
                       const ServingRequest& request, std::int64_t devices_per_node)
    : graph_(graph),
      profile_(profile),
      compute_(precision.compute),
      roofline_(profile, PrecisionRecipe{.compute = precision.compute, .tf32 = precision.tf32}),
      collectives_(profile, devices_per_node),
      devices_per_node_(devices_per_node) {
  weight_bytes_ = stored_bytes(request.weights, roofline_.element_bytes());
  cache_bytes_ = stored_bytes(request.cache, roofline_.element_bytes());
  if (request.cache == ServedType::int8) cache_scale_bytes_ = sizeof(float);
  // Weights of 4 bits are widened to FP8, int8 ones to the compute type, as they are read.
  multiplies_fp8_ = (request.weights == ServedType::fp8 || request.weights == ServedType::fp4) &&
                    profile.device.peak_flops.fp8 > 0 && profile.matrix.fp8_peak_fraction > 0;
  widens_ = request.weights == ServedType::fp4 && profile.device.peak_flops.fp4 <= 0;
  peak_ = multiplies_fp8_ ? profile.device.peak_flops.fp8
                          : llmtrain::peak_flops(profile, {.compute = compute_, .tf32 = precision.tf32});
}

// The slower of arithmetic and of reading weights and rows.
Work PassPricer::product_work(const ServedProduct& served) const {
  const MatrixProduct& product = served.product;
  const bool in_fp8 = served.of_layer && multiplies_fp8_;
  const double element = roofline_.element_bytes();
  const double weights = product.batch * product.inner * product.columns * (served.of_layer ? weight_bytes_ : element);
  const double rows = product.batch * product.rows * (product.inner + product.columns) * element;
  const double peak = in_fp8 ? peak_ : llmtrain::peak_flops(profile_, {.compute = compute_});
  const MatrixType type = in_fp8 ? MatrixType::fp8 : MatrixType::compute;
  const double multiplied = served.is_grouped && roofline_.measures_grouped(product)
                                ? roofline_.grouped_seconds(product, type, weights + rows)
                                : product.flops() / (peak * roofline_.product_efficiency(product, type).fraction);
  Work work = roofline_.pass(weights + rows);
  work.seconds = std::max(work.seconds, multiplied + profile_.device.kernel_seconds);
  return work;
}

// The slower of arithmetic and of reading the cache. Prompts find keys and values where they have just been made.
Work PassPricer::attention_work(const ServedAttention& attention, bool is_prefill) const {
  Work work = roofline_.pass(cached_bytes(attention.cached));
  AttentionSizes sizes = attention.sizes;
  // Single tokens of several sequences fill the device as one longer sequence does.
  if (!is_prefill) sizes.sequence = std::max(sizes.sequence, sizes.heads);
  work.seconds = std::max(work.seconds, roofline_.attention_forward(attention.flops, sizes).seconds);
  return work;
}

double PassPricer::exchange_bytes(const SplitExchange& exchange) const {
  return exchange.elements * (exchange.of_weights ? weight_bytes_ : roofline_.element_bytes());
}

double PassPricer::exchange_seconds(const SplitExchange& exchange) const {
  const RankGroup group = group_of(exchange, devices_per_node_);
  const double bytes = exchange_bytes(exchange);
  const NodeProfile& node = profile_.node;
  // Inside a node all links are used at once, in as many steps as a gather.
  if (exchange.collective == Collective::all_to_all && group.inside_node == group.ranks &&
      !collectives_.basis(exchange.collective, bytes, group))
    return ring_bytes(Collective::all_to_all, group.ranks, bytes) / (node.link_bandwidth * node.link_efficiency) +
           node.latency_seconds * std::log2(static_cast<double>(group.ranks));
  return collectives_.seconds(exchange.collective, bytes, group);
}

PassPrice PassPricer::block_price(std::size_t block, const DeviceSplit& split, const ServedPass& pass) const {
  const BlockWork work = block_work(graph_, block, compute_, split, pass);
  PassPrice price;
  for (const ServedProduct& each : work.products) price.product_seconds += product_work(each).seconds;
  for (const ServedAttention& each : work.attention)
    price.attention_seconds += attention_work(each, pass.is_prefill()).seconds;
  for (const double elements : work.moved_elements)
    price.movement_seconds +=
        roofline_.pass(profile_.program.traffic.elementwise * roofline_.element_bytes() * elements).seconds;
  price.operators = as_real(std::ssize(work.products) + std::ssize(work.attention) + std::ssize(work.moved_elements));
  if (graph_.blocks[block].layer() == nullptr) return price;
  for (const SplitExchange& each :
       layer_exchanges(split, layer_shape(graph_, block), pass.all_tokens(), pass.sequences)) {
    price.exchange_seconds += exchange_seconds(each);
    price.exchanged_bytes += ring_bytes(each.collective, each.ranks, exchange_bytes(each));
    ++price.operators;
  }
  return price;
}

PassPrice PassPricer::price(const DeviceSplit& split, const ServedPass& pass) const {
  BlockCache<PassPrice> prices(graph_);
  PassPrice sum;
  for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
    if (!is_served(graph_.blocks[block])) continue;
    const PassPrice& price = prices.of(block, [&] { return block_price(block, split, pass); });
    sum.product_seconds += price.product_seconds;
    sum.attention_seconds += price.attention_seconds;
    sum.movement_seconds += price.movement_seconds;
    sum.exchange_seconds += price.exchange_seconds;
    sum.exchanged_bytes += price.exchanged_bytes;
    sum.operators += price.operators;
  }
  sum.product_seconds *=
      (pass.is_prefill() ? facts().prefill : facts().products) * (widens_ ? facts().widened_products : 1);
  sum.attention_seconds *= pass.is_prefill() ? facts().prefill : facts().attention;
  sum.movement_seconds *= pass.is_prefill() ? facts().prefill : facts().movement;
  sum.exchange_seconds *= pass.is_prefill() ? facts().prefill : facts().exchanges;
  // Passes of single tokens are CUDA graphs. Prompts are of all sizes: their operators are launched one by one, ahead
  // of a device that takes longer for them.
  sum.host_seconds = pass.is_prefill() ? std::max(0.0, facts().operator_seconds * sum.operators - sum.seconds())
                                       : facts().pass_seconds;
  return sum;
}

}  // namespace llmtrain
