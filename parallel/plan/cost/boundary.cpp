// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/boundary.h"

namespace llmtrain {

double boundary_tensor_bytes(const Recipe& recipe, const Mesh& mesh) {
  const double element = recipe.precision.compute == DataType::fp32 ? 4 : 2;
  return static_cast<double>(recipe.batch.micro * recipe.batch.sequence_length) / static_cast<double>(mesh.context) *
         static_cast<double>(recipe.model.hidden_size) * element;
}

double boundary_bytes(const Recipe& recipe, const Mesh& mesh) {
  return boundary_tensor_bytes(recipe, mesh) / static_cast<double>(mesh.tensor);
}

double boundary_seconds(const CostContext& context, const RankGroup& neighbours) {
  // Without overlap the program waits for the device behind each transfer.
  const double waits = context.recipe.parallel.overlap ? 1 : context.constants.blocking_transfer;
  double seconds = waits * context.profile.host.transfer_seconds +
                   context.collectives.point_to_point(boundary_bytes(context.recipe, context.mesh), neighbours);
  if (!context.recipe.parallel.sequence) {
    const double whole = boundary_tensor_bytes(context.recipe, context.mesh);
    seconds += context.collectives.all_gather(whole, tensor_group(context.mesh));
  }
  return seconds;
}

RankGroup tied_embedding_group(const Mesh& mesh) {
  RankGroup group = pipeline_neighbours(mesh, mesh.pipeline - 1);
  group.ranks = 2;
  return group;
}

}  // namespace llmtrain
