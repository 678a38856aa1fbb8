// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/boundary.h"

namespace llmtrain {

Boundary boundary_of(const CostContext& context) {
  PassSetting whole = context.setting;
  // The size of the whole tensor; what tensor ranks send of it does not depend on sequence parallelism, because without
  // it they scatter their equal copies for the transfer and gather them after it.
  whole.splits_sequence = false;
  const double bytes = boundary_bytes(context.recipe().model, whole);
  return {bytes / static_cast<double>(context.mesh().tensor), context.recipe().parallel.sequence ? 0 : bytes};
}

double boundary_seconds(const CostContext& context, const RankGroup& neighbours) {
  const Boundary boundary = boundary_of(context);
  // Without overlap the program synchronises with the device after each transfer, which costs the host several times as
  // much.
  const double waits = context.recipe().parallel.overlap ? 1 : context.constants.blocking_transfer;
  // Host work, the message itself, and the gather of the parts inside the receivers' tensor group.
  return waits * context.profile.host.transfer_seconds +
         context.collectives.point_to_point(boundary.sent_bytes, neighbours) +
         context.collectives.all_gather(boundary.whole_bytes, tensor_group(context.mesh()));
}

}  // namespace llmtrain
