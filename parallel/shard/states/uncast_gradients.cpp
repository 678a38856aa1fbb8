// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/uncast_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "core/graph/fp8_products.h"

namespace llmtrain {

UncastGradients::UncastGradients(const Graph& graph, const ParameterStore& store, const Fp8History* history,
                                 const GradientFallback* fallback)
    : store_(store), history_(history), fallback_(fallback), places_(store.ranges().size()) {
  if (history == nullptr) return;
  for (const FlatRange& range : store.ranges()) products_.push_back(fp8_product_of(graph, range.parameter));
}

bool UncastGradients::has_left(std::size_t range) const {
  if (history_ != nullptr && history_->has_fallen_back(products_[range])) return true;
  return fallback_ != nullptr && fallback_->has_left(store_.ranges()[range].parameter);
}

void UncastGradients::take(const at::Tensor& accumulated) {
  drop();
  std::vector<at::Tensor> own;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!has_left(i)) continue;
    const FlatRange& range = store_.ranges()[i];
    own.push_back(accumulated.slice(0, range.begin, range.end));
    places_[i] = end;
    end += own.back().numel();
  }
  // Copied, because the accumulated gradients are released once the others have become FP8.
  if (!own.empty()) sums_ = at::cat(own);
}

Handle UncastGradients::sum(const DataParallel& ranks) const { return sums_.defined() ? ranks.sum(sums_) : Handle(); }

at::Tensor UncastGradients::of_range(std::size_t range) const {
  const FlatRange& elements = store_.ranges()[range];
  return sums_.narrow(0, places_[range].value(), elements.end - elements.begin);
}

at::Tensor UncastGradients::piece(std::size_t range, FlatInterval elements) const {
  const std::int64_t begin = elements.begin - store_.ranges()[range].begin;
  return of_range(range).narrow(0, begin, elements.count()).to(at::kFloat);
}

}  // namespace llmtrain
