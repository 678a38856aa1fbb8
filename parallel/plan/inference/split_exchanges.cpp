// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/split_exchanges.h"

#include <algorithm>

#include "parallel/plan/inference/served_pass.h"

namespace llmtrain {
namespace {

// The model's width, gathered before a half and scattered after it.
std::vector<SplitExchange> width_exchanges(const DeviceSplit& split, double width, double tokens) {
  const std::int64_t features = split.feature_ranks();
  const double elements = tokens / as_real(split.gathering()) * width / as_real(split.width_ranks());
  return {{Collective::all_gather, features, 1, elements}, {Collective::reduce_scatter, features, 1, elements}};
}

// Features between a half's products, whose sums over the model's width lie on the devices of x.
std::vector<SplitExchange> feature_exchanges(const DeviceSplit& split, const HalfShape& half, double tokens) {
  if (split.width_ranks() == 1) return {};
  const std::int64_t features = split.feature_ranks();
  return {{Collective::reduce_scatter, split.x, features, tokens * half.in_features / as_real(features)},
          {Collective::all_gather, split.x, features, tokens * half.out_features / as_real(features)}};
}

std::vector<SplitExchange> weight_exchanges(const DeviceSplit& split, const HalfShape& half) {
  const std::int64_t gathering = split.gathering();
  if (gathering == 1) return {};
  const double share = as_real(gathering) / as_real(split.devices());
  return {{Collective::all_gather, gathering, split.feature_ranks(), half.weights * share, true}};
}

std::vector<SplitExchange> attention_exchanges(const DeviceSplit& split, const LayerShape& shape, double tokens,
                                               std::int64_t sequences) {
  const AttentionShare share = attention_share(split, sequences);
  const std::int64_t groups = split.devices() / share.head_ranks;
  // Gathered weights leave each device whole sequences; others have heads of all of them.
  if (split.attention != AttentionLayout::batch || groups <= split.gathering()) return {};
  const double own = tokens / as_real(split.devices());
  const double sent = shape.query + shape.key_heads * shape.cached;
  return {{Collective::all_to_all, groups, share.head_ranks, own * sent},
          {Collective::all_to_all, groups, share.head_ranks, own * shape.attention.out_features}};
}

void append(std::vector<SplitExchange>& all, std::vector<SplitExchange> more) {
  for (SplitExchange& each : more)
    if (each.ranks > 1 && each.elements > 0) all.push_back(each);
}

}  // namespace

std::vector<SplitExchange> half_exchanges(const DeviceSplit& split, double width, const HalfShape& half,
                                          double tokens) {
  std::vector<SplitExchange> all;
  append(all, weight_exchanges(split, half));
  append(all, width_exchanges(split, width, tokens));
  append(all, feature_exchanges(split, half, tokens));
  return all;
}

std::vector<SplitExchange> layer_exchanges(const DeviceSplit& split, const LayerShape& shape, double tokens,
                                           std::int64_t sequences) {
  std::vector<SplitExchange> all;
  if (shape.has_one_input) {
    const HalfShape both{shape.attention.in_features + shape.feed_forward.in_features,
                         shape.attention.out_features + shape.feed_forward.out_features,
                         shape.attention.weights + shape.feed_forward.weights};
    append(all, half_exchanges(split, shape.width, both, tokens));
  } else {
    append(all, half_exchanges(split, shape.width, shape.attention, tokens));
    append(all, half_exchanges(split, shape.width, shape.feed_forward, tokens));
  }
  append(all, attention_exchanges(split, shape, tokens, sequences));
  return all;
}

}  // namespace llmtrain
