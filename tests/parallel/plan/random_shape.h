// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rapidcheck.h>

#include <algorithm>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// A random executable shape, small enough that thousands take a second.
inline ScheduleShape random_shape() {
  using Kind = PipelineSchedule;
  ScheduleShape shape;
  shape.kind = *rc::gen::element(Kind::breadth_first, Kind::gpipe, Kind::one_forward_one_backward, Kind::interleaved);
  shape.pipeline = *rc::gen::inRange(1, 7);
  shape.loops = *rc::gen::inRange(1, 5);
  shape.micro_batches = *rc::gen::inRange(1, 14);
  const bool one_stage = shape.kind == Kind::gpipe || shape.kind == Kind::one_forward_one_backward;
  if (one_stage && shape.pipeline > 1) shape.loops = 1;
  if (shape.kind == Kind::interleaved)
    shape.micro_batches = std::max(1, shape.micro_batches / shape.pipeline) * shape.pipeline;
  shape.zero_stage = *rc::gen::inRange(0, 4);
  shape.reduces = *rc::gen::arbitrary<bool>();
  shape.updates_by_stage = *rc::gen::arbitrary<bool>();
  shape.evicts_gradients = !shape.updates_by_stage && *rc::gen::arbitrary<bool>();
  if (shape.evicts_gradients) shape.resident_stages = *rc::gen::inRange(0, shape.loops);
  return shape;
}

// The same, half of them with some stages at the beginning in which nothing is trained.
inline ScheduleShape random_frozen_shape() {
  ScheduleShape shape = random_shape();
  if (*rc::gen::arbitrary<bool>()) shape.frozen_stages = *rc::gen::inRange(0, shape.stages());
  return shape;
}

}  // namespace llmtrain
