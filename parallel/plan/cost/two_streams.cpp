// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/two_streams.h"

#include <algorithm>

namespace llmtrain {

double two_stream_seconds(const PartSeconds& part, int parts) {
  double computed = 0, sent = parts * part.arrival;
  for (int i = 0; i < parts; ++i) {
    computed = std::max(computed, (i + 1) * part.arrival) + part.compute;
    sent = std::max(sent, computed) + part.departure;
  }
  return sent;
}

}  // namespace llmtrain
