// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/owned_elements.h"

#include <algorithm>
#include <functional>

namespace llmtrain {

std::vector<SliceBox> OwnedElements::boxes(std::int64_t first, std::int64_t last) const {
  std::vector<SliceBox> boxes = boxes_of_range(part.real_shape, first, last);
  for (SliceBox& box : boxes)
    // From the rank's part to the whole parameter, whose coordinates checkpoints use.
    std::transform(box.offset.begin(), box.offset.end(), part.offset.begin(), box.offset.begin(), std::plus<>());
  return boxes;
}

std::vector<OwnedElements> elements_in(const Graph& graph, const ParameterStore& store,
                                       const ShardedParameters& parameters, const FlatInterval& interval) {
  std::vector<OwnedElements> list;
  const std::int64_t start = parameters.owned().begin;
  for (const FlatRange& range : store.ranges()) {
    // Padding (vocabulary, ZeRO) is not part of a parameter: it is neither loaded nor saved.
    const LocalPart& part = store.part(range.parameter);
    const FlatInterval common = intersection({range.begin, range.begin + part.real_elements()}, interval);
    if (common.count() == 0) continue;
    list.push_back({&graph.parameters[range.parameter], part, common.begin - range.begin, common.end - range.begin,
                    common.begin - start});
  }
  return list;
}

std::vector<OwnedElements> saved_elements(const Graph& graph, const ParameterStore& store,
                                          const ShardedParameters& parameters) {
  std::vector<OwnedElements> list = elements_in(graph, store, parameters, parameters.saved());
  for (OwnedElements& elements : list) {
    // Tensor ranks may hold copies of key-value heads; each writes its share of them.
    const FlatInterval own = FlatShards{elements.count(), elements.part.copies}.shard(elements.part.copy);
    elements.place += own.begin;
    elements.end = elements.begin + own.end;
    elements.begin += own.begin;
  }
  std::erase_if(list, [](const OwnedElements& elements) { return elements.count() == 0; });
  return list;
}

}  // namespace llmtrain
