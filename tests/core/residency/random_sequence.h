// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/residency/access_sequence.h"
#include "core/residency/residency_policy.h"

namespace llmtrain::test {

inline constexpr std::array<Eviction, 4> all_evictions = {Eviction::least_recently_used, Eviction::furthest_next_use,
                                                          Eviction::most_idle_bytes, Eviction::after_use};

// A step that reads one tensor of a byte per task, in this order.
AccessSequence unit_reads(std::size_t tensors, std::span<const std::size_t> order);

// Up to 8 tensors, some of them made and gone within the step, and up to 20 tasks of the device and the host.
AccessSequence random_sequence(std::mt19937& random);

}  // namespace llmtrain::test
