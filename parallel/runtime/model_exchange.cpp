// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/model_exchange.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/progress_lines.h"
#include "core/checkpoint/checkpoint.h"
#include "core/graph/adapters.h"
#include "core/graph/graph.h"
#include "core/huggingface/adapted_base.h"
#include "core/huggingface/adapters.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/recipe_io.h"
#include "parallel/device/device.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// As which folder or name PEFT may find the model that adapters were trained over; empty: it is not one of
// transformers.
std::string base_model_of(const Recipe& recipe) {
  return huggingface_folder(recipe.training.init_from.value_or("")).value_or("");
}

// In fp32, a row at a time.
void write_zeros(const Parameter& parameter, const WriteBytes& write) {
  const std::vector<float> row(static_cast<std::size_t>(parameter.shape.back()));
  const std::int64_t rows = parameter.elements() / parameter.shape.back();
  for (std::int64_t i = 0; i < rows; ++i) write(row.data(), row.size() * sizeof(float));
}

}  // namespace

void export_checkpoint(const ExportRequest& request) {
  prepare_process();
  const Graph graph = Graph::build(request.recipe.model);
  const CheckpointReader checkpoint(request.checkpoint);
  const auto stored =
      whole_weights(checkpoint, request.recipe, graph, scalar_type(element_type(request.recipe.precision.compute)));
  const WeightSource& weights = *stored;
  checkpoint.verify();
  if (request.format == ExportFormat::peft)
    return save_peft(request.destination, graph, weights, base_model_of(request.recipe));
  const Graph merged = Graph::build(without_adapters(graph.model));
  const at::ScalarType dtype = request.dtype ? scalar_type(element_type(*request.dtype)) : common_type(weights, merged);
  ProgressLines lines("writing " + request.destination);
  lines.show(0);
  const MergedWeights whole(graph, weights);
  const WatchedWeights watched(whole, merged, [&](double share) { lines.show(share); });
  save_huggingface(request.destination, merged, watched,
                   {dtype, request.shard_bytes, request.origin, request.ends, request.padding,
                    decoder_start(request.recipe.data), request.recipe.data.images});
}

void import_checkpoint(const ImportRequest& request) {
  prepare_process();
  const Graph graph = Graph::build(request.recipe.model);
  const HuggingfaceWeights stored(request.source, graph,
                                  request.may_lack_head ? TokenHead::may_lack : TokenHead::needed);
  ProgressLines lines("writing " + request.destination);
  lines.show(0);
  const WatchedWeights weights(stored, graph, [&](double share) { lines.show(share); });
  std::vector<TensorSlice> slices;
  for (const Parameter& parameter : graph.parameters) {
    const bool is_stored = weights.holds(parameter);
    const at::ScalarType type = is_stored ? weights.type(parameter) : at::kFloat;
    const SliceBox box = whole_box(parameter);
    TensorSlice& slice =
        slices.emplace_back(TensorSlice{parameter.name, dtype_name(type), parameter.shape, box.offset, box.shape});
    slice.content = [&weights, &parameter, type, is_stored](const WriteBytes& write) {
      if (!is_stored) return write_zeros(parameter, write);
      visit_pieces(weights, parameter, std::nullopt, type,
                   [&](const at::Tensor& piece) { write(piece.data_ptr(), piece.nbytes()); });
    };
  }
  CheckpointState state;
  state.recipe = to_json(request.recipe);
  write_lone_checkpoint(request.destination, state, slices, request.add_files);
}

}  // namespace llmtrain
