// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/owned_elements.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "parallel/layout/flat_shards.h"

namespace llmtrain {
namespace {

std::vector<OwnedElements> elements_in(const LocalModel& model, const ParameterUnit& unit,
                                       const FlatInterval& interval) {
  std::vector<OwnedElements> list;
  const std::int64_t start = unit.parameters->owned().begin;
  for (const FlatRange& range : unit.store->ranges()) {
    // Padding (vocabulary, ZeRO) is not part of a parameter: it is neither loaded nor saved.
    const LocalPart& part = unit.store->part(range.parameter);
    const FlatInterval common = intersection({range.begin, range.begin + part.real_elements()}, interval);
    if (common.count() == 0) continue;
    list.push_back({&model.graph().parameters[range.parameter], part, common.begin - range.begin,
                    common.end - range.begin, common.begin - start});
  }
  return list;
}

}  // namespace

std::vector<SliceBox> OwnedElements::boxes(std::int64_t first, std::int64_t last) const {
  std::vector<SliceBox> boxes = boxes_of_range(part.real_shape, first, last);
  for (SliceBox& box : boxes)
    // From the rank's part to the whole parameter, whose coordinates checkpoints use.
    std::transform(box.offset.begin(), box.offset.end(), part.offset.begin(), box.offset.begin(), std::plus<>());
  return boxes;
}

std::vector<OwnedElements> owned_elements(const LocalModel& model, const ParameterUnit& unit) {
  return elements_in(model, unit, unit.parameters->owned());
}

std::vector<OwnedElements> saved_elements(const LocalModel& model, const ParameterUnit& unit) {
  if (!model.counts(unit)) return {};
  std::vector<OwnedElements> list = elements_in(model, unit, unit.parameters->saved());
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
