// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/sharded_parameters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "core/model/flat_memory.h"
#include "core/model/initialization.h"

namespace llmtrain {
namespace {

FlatInterval place_of(const FlatShards& shards, std::int64_t zero_stage, int rank) {
  return zero_stage == 0 ? FlatInterval{0, shards.padded()} : shards.padded_shard(rank);
}

}  // namespace

ShardedParameters::ShardedParameters(const Graph& graph, ParameterStore& store, const ShardingOptions& options,
                                     const DataParallel& ranks, const TensorParallel& tensor)
    : graph_(graph),
      store_(store),
      ranks_(ranks),
      zero_stage_(ranks.shards() > 1 ? options.zero_stage : 0),
      options_(options),
      shards_{store.elements(), ranks.shards()},
      place_(place_of(shards_, zero_stage_, ranks.shard())),
      tensor_gradients_(graph, store, tensor, owned()) {
  const auto flat = [&](std::int64_t elements, at::ScalarType type) {
    return make_flat_memory(elements, type, options.device);
  };
  weights_ = flat(shards_from(3) ? place_.count() : shards_.padded(), options.compute);
  master_ = options.compute == at::kFloat ? (shards_from(3) ? weights_ : owned_part(weights_))
                                          : flat(place_.count(), at::kFloat);
  gradients_ = flat(shards_from(2) ? place_.count() : shards_.padded(), options.gradients);
  optimizer_ = std::make_unique<AdamwOptimizer>(options.optimizer, owned_segments(graph),
                                                flat(place_.count(), at::kFloat), flat(place_.count(), at::kFloat));
  store_.set_gradient_source([this] { return make_gradients(); });
  if (!shards_from(3)) store_.attach_weights(weights_);
}

std::vector<OptimizerSegment> ShardedParameters::owned_segments(const Graph& graph) const {
  std::vector<OptimizerSegment> segments;
  for (const FlatRange& range : store_.ranges()) {
    const FlatInterval part = intersection({range.begin, range.end}, place_);
    if (part.count() > 0)
      segments.push_back(
          {part.begin - place_.begin, part.end - place_.begin, graph.parameters[range.parameter].decays});
  }
  return segments;
}

at::Tensor ShardedParameters::make_gradients() const {
  if (!shards_from(2)) return gradients_;
  at::Tensor flat = at::empty({shards_.padded()}, gradients_.options());
  flat.slice(0, shards_.elements).zero_();
  return flat;
}

at::Tensor ShardedParameters::owned_part(const at::Tensor& whole) const {
  return whole.slice(0, place_.begin, place_.end);
}

FlatInterval ShardedParameters::owned() const { return intersection(place_, {0, shards_.elements}); }

FlatInterval ShardedParameters::saved() const {
  const FlatInterval all = owned();
  const FlatShards shares{all.count(), zero_stage_ == 0 ? ranks_.ranks() : ranks_.replicas()};
  const FlatInterval own = shares.shard(zero_stage_ == 0 ? ranks_.position() : ranks_.replica());
  return {all.begin + own.begin, all.begin + own.end};
}

void ShardedParameters::initialize(std::int64_t seed) {
  if (zero_stage_ == 0) {
    initialize_weights(master_, store_, graph_, seed);
  } else {
    const at::Tensor whole = make_flat_memory(shards_.padded(), at::kFloat, options_.device);
    initialize_weights(whole, store_, graph_, seed);
    master_.copy_(owned_part(whole));
  }
  publish();
}

void ShardedParameters::publish() {
  if (const auto copy = rounded()) copy->copy_(master_);
  if (zero_stage_ == 0 || shards_from(3)) return;
  gather();
  finish_gather();
}

void ShardedParameters::gather() {
  if (zero_stage_ == 0) return;
  if (!shards_from(3)) {
    gather_ = ranks_.gather(owned_part(weights_), weights_);
    return;
  }
  gathered_ = at::empty({shards_.padded()}, weights_.options());
  gather_ = ranks_.gather(weights_, gathered_);
}

void ShardedParameters::finish_gather() {
  gather_.wait();
  if (gathered_.defined()) store_.attach_weights(gathered_);
}

void ShardedParameters::free() {
  if (!shards_from(3)) return;
  gather_.wait();
  store_.detach_weights();
  gathered_.reset();
}

void ShardedParameters::reduce() {
  finish_reduction();
  unreduced_ = store_.take_gradients();
  if (partner_sum_) partner_sum_(unreduced_.slice(0, 0, shards_.elements)).wait();
  is_reducing_ = true;
  if (zero_stage_ == 0) {
    reduction_ = ranks_.sum(unreduced_.slice(0, 0, shards_.elements));
    return;
  }
  if (!shards_from(2)) {
    partial_ = owned_part(unreduced_);
  } else {
    partial_ = has_reduced_ ? at::empty_like(gradients_) : gradients_;
  }
  reduction_ = ranks_.scatter_sum(unreduced_, partial_);
}

void ShardedParameters::finish_reduction() {
  if (!std::exchange(is_reducing_, false)) return;
  reduction_.wait();
  if (partial_.defined()) ranks_.sum_replicas(partial_).wait();
  if (shards_from(2) && has_reduced_) gradients_.add_(partial_);
  has_reduced_ = true;
  unreduced_.reset();
  partial_.reset();
}

void ShardedParameters::collect() {
  finish_reduction();
  if (!has_reduced_) store_.take_gradients();
  tensor_gradients_.sum(owned_gradients());
}

double ShardedParameters::sum_of_squares() const {
  return tensor_gradients_.sum_of_squares(owned_gradients(), shards_.shard(ranks_.shard()));
}

void ShardedParameters::update(double learning_rate, double gradient_scale, std::int64_t step) {
  optimizer_->update({master_, owned_gradients(), rounded(), learning_rate, gradient_scale, step});
}

void ShardedParameters::start_step() {
  store_.drop_gradients();
  has_reduced_ = false;
}

std::optional<at::Tensor> ShardedParameters::rounded() const {
  if (options_.compute == at::kFloat) return std::nullopt;
  return shards_from(3) ? weights_ : owned_part(weights_);
}

ShardedParameters::Bytes ShardedParameters::bytes() const {
  const auto size = [](const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); };
  return {size(weights_) + (rounded() ? size(master_) : 0), size(gradients_), 2 * size(first_moment())};
}

}  // namespace llmtrain
