// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/body/facts.h"

namespace llmtrain::body {

struct Body;

// Steps that run piece by piece along an axis, so that what they make on the way is never there as a whole (Rabe and
// Staats, arXiv 2112.05682, for attention; Artemev et al., arXiv 2206.14148, and Liberis and Lane, arXiv 2211.17246,
// for chains of operators). Results that have the axis are joined, and others are the sum of those of the pieces. The
// forward keeps nothing of the pieces: the backward runs each again. core/body/passes makes them of a body's steps.
struct Chunked {
  static constexpr const char* name = "chunked";
  // The steps, with the axes of the body around them and one output. What they read comes first among its tensors, in
  // the order of the step's operands: parameters, and of others inputs that have a gradient and fields that have none.
  std::shared_ptr<const Body> body{};
  AxisId axis = 0;
  std::int64_t pieces = 1;

  bool operator==(const Chunked& other) const;
};

// The extent of all pieces but the last, which may have less: where an axis has fewer elements than there are
// pieces, 1.
std::int64_t piece_extent(const Chunked& chunked, std::int64_t extent);

void check(const Chunked& chunked, const StepShape& shape);
AxisUse axis_use(const Chunked& chunked, const StepShape& shape, AxisId axis);
Work work(const Chunked& chunked, const StepShape& shape);
Kept kept(const Chunked& chunked, const StepShape& shape);

}  // namespace llmtrain::body
