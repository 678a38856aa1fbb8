// SPDX-License-Identifier: Apache-2.0
#include "core/base/collective.h"

#include <array>

namespace llmtrain {

std::string_view purpose_name(Purpose purpose) {
  constexpr std::array<std::string_view, 6> names{"data_parallel", "tensor_parallel", "pipeline",
                                                  "expert",        "context",         "control"};
  return names[static_cast<std::size_t>(purpose)];
}

std::string_view collective_name(Collective collective) {
  constexpr std::array<std::string_view, 8> names{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                  "broadcast",  "send",       "receive",        "barrier"};
  return names[static_cast<std::size_t>(collective)];
}

double ring_bytes(Collective collective, std::int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  // In a ring each rank passes n − 1 of n parts on; an all-reduce is a reduce-scatter followed by an all-gather.
  const double others = static_cast<double>(ranks - 1);
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others * bytes / static_cast<double>(ranks);
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return others * bytes / static_cast<double>(ranks);
    case Collective::broadcast:
    case Collective::send:
      return bytes;
    case Collective::receive:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

}  // namespace llmtrain
