// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapted_base.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/checkpoint/stored_model.h"
#include "core/huggingface/resized_weights.h"
#include "core/recipe/checkpoint_source.h"

namespace llmtrain {
namespace {

// What training.init_from names, else the base that the checkpoint was made over: a run may begin with the adapters of
// another.
std::string base_source(const CheckpointReader& checkpoint, const Recipe& recipe) {
  const std::string given = recipe.training.init_from.value_or("");
  return huggingface_folder(given) ? given : checkpoint.state().base->source;
}

// The same stretches whatever the parameter is stored as.
void add_values(Sha256& hash, const WeightSource& weights, const Parameter& parameter) {
  constexpr std::int64_t longest = 64, most = 64;
  const std::int64_t elements = parameter.elements(), length = std::min(longest, elements);
  const std::int64_t count = std::min(most, (elements + longest - 1) / longest);
  for (std::int64_t i = 0; i < count; ++i) {
    // The last one ends with the parameter.
    const std::int64_t begin = count == 1 ? 0 : (elements - length) * i / (count - 1);
    for (const SliceBox& box : boxes_of_range(parameter.shape, begin, begin + length)) {
      const at::Tensor values = weights.read(parameter, box).to(at::kFloat);
      hash.update(values.data_ptr(), values.nbytes());
    }
  }
}

class WholeWeights final : public WeightSource {
 public:
  WholeWeights(const CheckpointReader& checkpoint, const Graph& graph, std::unique_ptr<const WeightSource> base,
               at::ScalarType base_type)
      : saved_(checkpoint, graph), base_(std::move(base)), base_type_(base_type) {}

  bool holds(const Parameter& parameter) const override { return saved_.holds(parameter) || base_->holds(parameter); }
  at::ScalarType type(const Parameter& parameter) const override {
    return saved_.holds(parameter) ? saved_.type(parameter) : base_type_;
  }
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override {
    return saved_.holds(parameter) ? saved_.read(parameter, box) : base_->read(parameter, box).to(base_type_);
  }

 private:
  CheckpointWeights saved_;
  std::unique_ptr<const WeightSource> base_;
  at::ScalarType base_type_;
};

// Passes on the frozen weights of another source.
class FrozenWeights final : public WeightSource {
 public:
  explicit FrozenWeights(std::unique_ptr<const WeightSource> weights) : weights_(std::move(weights)) {}

  bool holds(const Parameter& parameter) const override { return parameter.is_frozen && weights_->holds(parameter); }
  at::ScalarType type(const Parameter& parameter) const override { return weights_->type(parameter); }
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override {
    return weights_->read(parameter, box);
  }

 private:
  std::unique_ptr<const WeightSource> weights_;
};

}  // namespace

std::string base_fingerprint(const WeightSource& weights, const Graph& graph) {
  Sha256 hash;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.is_frozen) continue;
    const std::string header = fmt::format("{} [{}]\n", parameter.name, fmt::join(parameter.shape, ", "));
    hash.update(header.data(), header.size());
    add_values(hash, weights, parameter);
  }
  return hash.hexadecimal();
}

std::unique_ptr<const WeightSource> open_base(const CheckpointReader& checkpoint, const Recipe& recipe,
                                              const Graph& graph) {
  if (!checkpoint.state().base) return nullptr;
  const std::string source = base_source(checkpoint, recipe);
  try {
    return std::make_unique<FrozenWeights>(open_huggingface(huggingface_folder(source).value_or(source), graph));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: holds adapters without their base, which is read from \"{}\": {}",
                                          checkpoint.folder().string(), source, error.what()));
  }
}

void require_same_base(const CheckpointReader& checkpoint, const Recipe& recipe, const WeightSource& base,
                       const Graph& graph) {
  const BaseModel& expected = *checkpoint.state().base;
  const std::string found = base_fingerprint(base, graph);
  if (found == expected.fingerprint) return;
  throw Error(ExitCode::bad_data,
              fmt::format("{}: its adapters were trained over \"{}\" with the fingerprint {}, and \"{}\" now has {}; "
                          "restore that model's files, or name a folder with them in training.init_from",
                          checkpoint.folder().string(), expected.source, expected.fingerprint.substr(0, 16),
                          base_source(checkpoint, recipe), found.substr(0, 16)));
}

std::unique_ptr<const WeightSource> whole_weights(const CheckpointReader& checkpoint, const Recipe& recipe,
                                                  const Graph& graph, at::ScalarType compute) {
  auto base = open_base(checkpoint, recipe, graph);
  if (base == nullptr) return std::make_unique<CheckpointWeights>(checkpoint, graph);
  require_same_base(checkpoint, recipe, *base, graph);
  return std::make_unique<WholeWeights>(checkpoint, graph, std::move(base), compute);
}

}  // namespace llmtrain
