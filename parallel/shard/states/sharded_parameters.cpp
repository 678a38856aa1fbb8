// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/sharded_parameters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <span>
#include <utility>

#include "core/parameters/flat_memory.h"
#include "kernels/host_copy.h"
#include "kernels/reduction.h"
#include "parallel/shard/states/flat_piece.h"
#include "parallel/shard/states/tensor_roundings.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {

ShardedParameters::ShardedParameters(const Graph& graph, ParameterStore& store, const StateGroup& group,
                                     const ShardingOptions& options, const RankGroups& ranks)
    : graph_(graph),
      store_(store),
      ranks_(ranks.data_of(group.kind)),
      joined_(make_joined_experts(graph, group, ranks)),
      zero_stage_(group.zero_stage),
      shards_(group.flat()),
      // At stage 0 there is one shard, and every rank owns it.
      place_(shards_.padded_shard(zero_stage_ == 0 ? 0 : ranks_.shard())),
      // What becomes FP8 is summed before its cast, when every rank still has all of it.
      tensor_gradients_(graph, store, ranks.tensor, group.is_fp8 ? FlatInterval{0, shards_.elements} : owned()),
      is_trained_(options.contents == StateContents::training && !group.is_frozen),
      has_master_(options.contents == StateContents::training && group.types.master),
      host_update_(is_trained_ ? options.host_update : nullptr),
      swapped_update_(is_trained_ ? options.swapped_update : nullptr),
      matrix_copies_(is_trained_ && group.is_muon ? options.matrix_copies : nullptr),
      weight_fetch_(options.weight_fetch),
      weights_are_lent_(options.weights_are_lent),
      frees_gradients_(options.frees_gradients),
      gradient_eviction_(is_trained_ ? options.gradient_eviction : nullptr),
      gradient_fallback_(options.gradient_fallback) {
  if (group.is_fp8) {
    const auto copy = has_master_ ? TensorScales::WeightCopy::e4m3 : TensorScales::WeightCopy::none;
    uncast_.emplace(graph, store, options.fp8_history, options.gradient_fallback);
    scales_.emplace(store, group, copy, options.gradient_scaling, ranks_, ranks.parts_of(group.kind), *uncast_,
                    options.device);
    if (options.rounding_seed) scales_->round_at_random(tensor_roundings(graph, store, *options.rounding_seed));
  }
  allocate(group, options, ranks);
  // Modules ask for gradient memory when they first write: from stage 2 on it exists only until it is reduced.
  seen().set_gradient_source([this] { return make_gradients(); });
  compute_ = options.compute;
  if (!shards_from(3) && !weights_are_lent_) attach(weights_);
}

void ShardedParameters::attach(const at::Tensor& whole) {
  if (scales_) return store_.attach_scaled_weights(whole, scales_->weight_scales(), compute_);
  seen().attach_weights(whole);
}

void ShardedParameters::allocate(const StateGroup& group, const ShardingOptions& options, const RankGroups& ranks) {
  const at::Device states_device = host_has_states() ? at::Device(at::kCPU) : options.device;
  const auto state = [&](ElementType type) {
    // What is on the disk has its shape here alone.
    if (is_trained_ && options.state_disk != nullptr)
      return at::empty({place_.count()}, at::TensorOptions(scalar_type(type)).device(at::kMeta));
    if (host_states_are_pinned()) return WeightFetch::make_shard(place_.count(), scalar_type(type));
    return make_flat_memory(place_.count(), scalar_type(type), states_device);
  };
  weights_ = make_weights(group, options.device);
  // Without a master the optimizer updates the weights in place.
  source_ = has_own_source() ? state(group.types.master.value_or(group.types.weight)) : owned_weights();
  if (!is_trained_) return;
  if (group.types.accumulator) accumulator_ = scalar_type(*group.types.accumulator);
  gradient_options_ = at::TensorOptions(scalar_type(group.types.gradient)).device(options.device);
  const std::int64_t gradients = splits_gradients() ? place_.count() : shards_.padded();
  if (!frees_gradients_) gradients_ = make_flat_memory(gradients, scalar_type(group.types.gradient), options.device);
  if (gradient_eviction_ != nullptr)
    host_gradients_ = WeightFetch::make_shard(place_.count(), scalar_type(group.types.gradient));
  if (group.is_muon) matrices_ = std::make_unique<ShardedMatrices>(graph_, store_, group, ranks, owned());
  const auto moments = [&](Moment moment) {
    return state(moment == Moment::first ? group.types.first_moment : group.types.second_moment.value());
  };
  optimizer_ = make_optimizer(options.optimizer, owned_segments(), moments, matrices_.get());
  if (options.state_disk == nullptr) return;
  std::vector<at::ScalarType> types;
  if (has_own_source()) types.push_back(source_.scalar_type());
  for (const OptimizerState& moment : optimizer_->states()) types.push_back(moment.values.scalar_type());
  disk_.emplace(*options.state_disk, state_pieces(group, has_own_source()), std::move(types), matrices_ == nullptr);
}

at::Tensor ShardedParameters::make_weights(const StateGroup& group, const at::Device& device) const {
  const at::ScalarType type = scalar_type(group.types.weight);
  if (weight_fetch_ != nullptr) return WeightFetch::make_shard(place_.count(), type);
  if (weights_are_lent_) return at::empty({shards_.padded()}, at::TensorOptions(type).device(at::kMeta));
  return make_flat_memory(shards_from(3) ? place_.count() : shards_.padded(), type, device);
}

std::vector<OptimizerSegment> ShardedParameters::owned_segments() const {
  std::vector<OptimizerSegment> segments;
  for (const FlatRange& range : store_.ranges()) {
    const FlatInterval part = intersection({range.begin, range.end}, place_);
    if (part.count() > 0)
      segments.push_back(
          {part.begin - place_.begin, part.end - place_.begin, graph_.parameters[range.parameter].decays});
  }
  return segments;
}

at::Tensor ShardedParameters::make_gradients() {
  // This padding is never read: the cast goes from parameter to parameter, into memory that is cleared.
  if (scales_) return at::empty({shards_.padded()}, gradient_options_.dtype(accumulator_));
  if (!splits_gradients() && gradients_.defined()) return gradients_;
  if (joined_) return joined_->make_gradients(gradient_options_);
  // A parameter's first gradient overwrites, so only the padding, which no module writes, needs clearing.
  at::Tensor flat = at::empty({shards_.padded()}, gradient_options_);
  flat.slice(0, shards_.elements).zero_();
  if (!splits_gradients()) gradients_ = flat;
  return flat;
}

// Those of the micro-batches since the last call, as they are reduced.
at::Tensor ShardedParameters::take_gradients() {
  at::Tensor gradients = seen().take_gradients();
  if (joined_) return joined_->pack(std::move(gradients));
  if (!scales_) return gradients;
  // The cast's scale is then that of the sum, and the sum is rounded once.
  tensor_gradients_.sum(gradients);
  if (has_statistics_) keep_exact_sums(gradients);
  uncast_->take(gradients);
  at::Tensor payload = splits_gradients() ? at::Tensor() : gradients_;
  if (!payload.defined()) payload = at::zeros({shards_.padded()}, gradient_options_);
  if (!splits_gradients()) gradients_ = payload;
  scales_->cast_gradients(gradients, payload);
  return payload;
}

// An exchange in fp32 beside that of the FP8 gradients, to compare the two.
void ShardedParameters::keep_exact_sums(const at::Tensor& gradients) {
  const at::Tensor whole = at::zeros({shards_.padded()}, gradients.options().dtype(at::kFloat));
  const at::Tensor elements = whole.slice(0, 0, shards_.elements);
  elements.copy_(gradients.slice(0, 0, shards_.elements));
  if (zero_stage_ == 0) {
    ranks_.sum(elements).wait();
    exact_ = whole;
    return;
  }
  exact_ = at::empty({place_.count()}, whole.options());
  ranks_.scatter_sum(whole, exact_).wait();
}

at::Tensor ShardedParameters::owned_part(const at::Tensor& whole) const {
  return whole.slice(0, place_.begin, place_.end);
}

FlatInterval ShardedParameters::owned() const { return intersection(place_, {0, shards_.elements}); }

FlatInterval ShardedParameters::saved() const {
  const FlatInterval all = owned();
  // Ranks with the same elements (replicas; at stage 0 all data ranks) write equal shares of them.
  const FlatShards shares{all.count(), zero_stage_ == 0 ? ranks_.ranks() : ranks_.replicas()};
  const FlatInterval own = shares.shard(zero_stage_ == 0 ? ranks_.position() : ranks_.replica());
  return {all.begin + own.begin, all.begin + own.end};
}

void ShardedParameters::initialize(std::int64_t seed) {
  // Drawn in fp32 on the host: initial weights depend on no layout, type or device. Of what this rank owns, and never
  // all of it at once: it may fill the memory of a GPU by itself.
  const StateValues own = incoming();
  for_initial_weights(
      store_, graph_, seed, owned().begin, owned().end, [&](std::int64_t begin, const at::Tensor& values) {
        const std::int64_t first = begin - place_.begin;
        own.write({first, first + values.numel()},
                  [&](const at::Tensor& piece) { piece.copy_(kernels::to_device(values, piece.device())); });
      });
  publish();
}

void ShardedParameters::gather() {
  if (zero_stage_ == 0) return;
  // ZeRO-1 and -2: whole weights are resident, so the update is gathered in place from the owned parts.
  if (!shards_from(3)) {
    gather_ = ranks_.gather(owned_part(weights_), weights_);
    return;
  }
  if (joined_) return joined_->gather(weights_, weight_fetch_);
  gathered_.start(weight_fetch_, weights_, shards_.padded(), ranks_.shard(),
                  [this](const at::Tensor& part, const at::Tensor& whole) { return ranks_.gather(part, whole); });
}

void ShardedParameters::finish_gather() {
  if (joined_) return joined_->finish_gather();
  gather_.wait();
  if (!gathered_.has_started()) return;
  gathered_.wait();
  // Only now: before the gather is done modules must not see the memory.
  attach(gathered_.whole());
}

void ShardedParameters::free() {
  if (!shards_from(3)) return;
  if (joined_) return joined_->free();
  store_.detach_weights();
  gathered_.drop();
}

void ShardedParameters::reduce() {
  if (!is_trained_) return;
  finish_reduction();
  // Taken out of the store: gradients written from here on belong to the next reduction.
  unreduced_ = take_gradients();
  // Before the data ranks' sum: both ends then reduce the same values and stay bitwise equal.
  if (partner_sum_) partner_sum_(unreduced_.slice(0, 0, shards_.elements)).wait();
  is_reducing_ = true;
  if (uncast_) uncast_reduction_ = uncast_->sum(ranks_);
  if (splits_gradients() && !gradients_.defined()) gradients_ = at::empty({place_.count()}, gradient_options_);
  if (scales_ && Fp8Sum::takes(ranks_, unreduced_)) {
    // Once per step.
    fp8_reduction_.emplace(ranks_, zero_stage_ == 0 ? unreduced_.slice(0, 0, shards_.elements) : unreduced_);
    return;
  }
  if (zero_stage_ == 0) {
    reduction_ = ranks_.sum(unreduced_.slice(0, 0, shards_.elements));
    return;
  }
  if (!splits_gradients()) {
    partial_ = owned_part(unreduced_);
  } else {
    // The first reduction of a step writes the owned gradients directly; later ones are added to them.
    partial_ = has_reduced_ ? at::empty_like(gradients_) : gradients_;
  }
  reduction_ = joined_ ? joined_->scatter_sum(unreduced_, partial_) : ranks_.scatter_sum(unreduced_, partial_);
}

void ShardedParameters::finish_reduction() {
  if (!std::exchange(is_reducing_, false)) return;
  uncast_reduction_.wait();
  if (fp8_reduction_) {
    finish_fp8_reduction();
    has_reduced_ = true;
    unreduced_.reset();
    return;
  }
  reduction_.wait();
  // Hierarchical reduction (HSDP): scattered within a shard group first, then only shards cross the replicas.
  if (partial_.defined()) ranks_.sum_replicas(partial_).wait();
  if (splits_gradients() && has_reduced_) gradients_.add_(partial_);
  has_reduced_ = true;
  unreduced_.reset();
  partial_.reset();
}

void ShardedParameters::finish_fp8_reduction() {
  if (zero_stage_ == 0) {
    fp8_reduction_->finish_whole(unreduced_.slice(0, 0, shards_.elements));
  } else {
    fp8_reduction_->finish(owned_gradients());
  }
  fp8_reduction_.reset();
}

void ShardedParameters::collect() {
  if (!is_trained_) return;
  finish_reduction();
  // Without data ranks the schedule has no reduction; a step of one rank still ends its accumulation here.
  if (!has_reduced_) take_gradients();
  if (exact_.defined()) scales_->compare_sums(owned_gradients(), std::exchange(exact_, {}), place_);
  if (scales_) scales_->adapt(owned_gradients(), place_);
  // After the data-parallel reduction, on the owned shard only: less traffic than summing whole gradients.
  if (!scales_) tensor_gradients_.sum(owned_gradients());
}

void ShardedParameters::bring_saturated(StepScalars& scalars) {
  if (!is_trained_ || !scales_) return;
  scalars.bring(scales_->take_counts(), [this](std::span<const double> counts) {
    scales_->set_counts(counts);
    if (gradient_fallback_ == nullptr) return;
    for (std::size_t i = 0; i < store_.ranges().size(); ++i)
      gradient_fallback_->note(store_.ranges()[i].parameter, scales_->saturated_share(i));
  });
}

at::Tensor ShardedParameters::squares() const {
  // Replicas hold the same shards: one of each counts.
  if (!is_trained_ || ranks_.replica() != 0) return at::scalar_tensor(0, at::kDouble);
  // At stage 0 every rank has all gradients: each still sums only its share, so that every element counts once.
  const FlatInterval share = FlatShards{shards_.elements, ranks_.shards()}.shard(ranks_.shard());
  if (scales_) return scales_->squares(owned_gradients(), place_, share);
  return tensor_gradients_.squares(owned_gradients(), share);
}

void ShardedParameters::set_statistics(Fp8Statistics* statistics) {
  if (!scales_) return;
  has_statistics_ = statistics != nullptr;
  scales_->set_statistics(statistics);
}

void ShardedParameters::start_step() {
  seen().drop_gradients();
  if (uncast_) uncast_->drop();
  has_reduced_ = is_evicted_ = false;
}

std::optional<at::Tensor> ShardedParameters::rounded() const {
  if (!has_master_) return std::nullopt;
  return owned_weights();
}

bool ShardedParameters::holds_plain_fp16() const {
  return !scales_ && rounded().value_or(source_).scalar_type() == at::kHalf;
}

std::vector<OptimizerState> ShardedParameters::optimizer_states() const {
  return optimizer_ ? optimizer_->states() : std::vector<OptimizerState>{};
}

ShardedParameters::Bytes ShardedParameters::bytes() const {
  const auto size = [](const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); };
  Bytes bytes;
  if (weight_fetch_ != nullptr) {
    bytes.host += WeightFetch::bytes_of(weights_);
  } else if (weights_are_lent_) {
    bytes.disk += size(weights_);
  } else {
    bytes.weights += size(weights_);
  }
  if (gradients_.defined()) bytes.gradients = size(gradients_);
  if (host_gradients_.defined()) bytes.host += WeightFetch::bytes_of(host_gradients_);
  const auto place = [&](std::int64_t& on_device) -> std::int64_t& {
    if (disk_) return bytes.disk;
    return host_has_states() ? bytes.host : on_device;
  };
  const auto size_of_state = [&](const at::Tensor& tensor) {
    return host_states_are_pinned() && !disk_ ? WeightFetch::bytes_of(tensor) : size(tensor);
  };
  if (has_own_source()) place(bytes.weights) += size_of_state(source_);
  for (const OptimizerState& state : optimizer_states()) place(bytes.moments) += size_of_state(state.values);
  return bytes;
}

}  // namespace llmtrain
