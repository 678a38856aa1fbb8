// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operators/operators.h"
#include "parallel/plan/profile/program.h"

namespace llmtrain {

// The program's traffic of a pass over memory, relative to that of the operator list.
inline double elementwise_traffic(const TrafficFacts& traffic, FusedPass pass) {
  const auto stated = [&](double own) { return own > 0 ? own : traffic.elementwise; };
  switch (pass) {
    case FusedPass::none:
      return traffic.elementwise;
    case FusedPass::rms_norm:
      return stated(traffic.rms_norm);
    case FusedPass::rotation:
      return stated(traffic.rotation);
    case FusedPass::gate:
      return stated(traffic.gate);
    case FusedPass::adapter_input:
      return traffic.adapter_inputs;
    case FusedPass::adapter_output:
      return traffic.adapter_outputs;
  }
  return traffic.elementwise;
}

}  // namespace llmtrain
