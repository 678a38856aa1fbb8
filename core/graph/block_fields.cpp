// SPDX-License-Identifier: Apache-2.0
#include "core/graph/block_fields.h"

#include <algorithm>

namespace llmtrain {

std::span<const BlockField> fields_of(const Block& block) {
  return std::visit([](const auto& settings) { return std::span<const BlockField>(settings.fields); }, block.settings);
}

FieldSet fields_read(const Graph& graph, std::span<const std::size_t> blocks) {
  FieldSet read{};
  for (const std::size_t block : blocks) {
    for (const BlockField& field : fields_of(graph.blocks[block])) read[index_of(field.field)] = true;
    const LayerSettings* layer = graph.blocks[block].layer();
    if (layer != nullptr && layer->feed_forward.experts) read[index_of(BatchField::routed_experts)] = true;
  }
  return read;
}

std::vector<BatchField> sample_fields(const DataRecipe& data) {
  if (data.images) return {BatchField::pixels, BatchField::label};
  if (data.labels && data.labels->of == LabelledPart::text)
    return {BatchField::token_ids, BatchField::token_types, BatchField::label};
  if (data.labels)
    return {BatchField::token_ids, BatchField::token_types, BatchField::targets, BatchField::counted_rows};
  if (data.spans) return {BatchField::token_ids, BatchField::token_types, BatchField::span};
  if (data.pairs || data.denoising)
    return {BatchField::source_ids, BatchField::token_ids, BatchField::targets, BatchField::counted_rows};
  std::vector<BatchField> fields{BatchField::token_ids, BatchField::targets};
  if (data.fine_tuning || data.masking) fields.push_back(BatchField::counted_rows);
  if (data.fine_tuning && data.fine_tuning->routing_replay) fields.push_back(BatchField::routed_experts);
  return fields;
}

std::vector<std::string> missing_fields(const Graph& graph, std::span<const BatchField> sampled) {
  std::vector<std::string> missing;
  for (const Block& block : graph.blocks)
    for (const auto& [field, is_needed] : fields_of(block)) {
      if (!is_needed || std::ranges::count(sampled, field) > 0) continue;
      missing.push_back(std::string(batch_field_names[index_of(field)]) + ", which the " + block.name + " reads");
    }
  return missing;
}

}  // namespace llmtrain
