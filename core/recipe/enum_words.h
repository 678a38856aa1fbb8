// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Words that recipes have in common with flags, profiles and records, in the order of their enum.
inline constexpr std::array<std::string_view, 3> data_type_words = {"fp32", "bf16", "fp16"};
inline constexpr std::array<std::string_view, 5> fp8_level_words = {"off", "O0", "O1", "O2", "O3"};
inline constexpr std::array<std::string_view, 3> device_words = {"auto", "cpu", "cuda"};
inline constexpr std::array<std::string_view, 4> backend_words = {"auto", "local", "mpi", "nccl"};
inline constexpr std::array<std::string_view, 2> on_bad_line_words = {"stop", "skip"};
inline constexpr std::array<std::string_view, 3> all_to_all_words = {"linear", "hierarchical", "auto"};

inline constexpr std::array<std::string_view, 4> recompute_words = {"none", "selective", "computation", "full"};

inline constexpr std::array<std::string_view, 6> offload_policy_words = {"none",    "zero_offload", "zero_infinity",
                                                                         "harmony", "patrickstar",  "naive_swapping"};

// After what false and true stand for.
inline constexpr std::array<std::string_view, 1> states_place_words = {"disk"};

constexpr std::string_view word_of(Recompute recompute) { return recompute_words[static_cast<std::size_t>(recompute)]; }
constexpr std::string_view word_of(OffloadPolicy policy) {
  return offload_policy_words[static_cast<std::size_t>(policy)];
}
constexpr std::string_view word_of(DataType type) { return data_type_words[static_cast<std::size_t>(type)]; }
constexpr std::string_view word_of(DeviceKind device) { return device_words[static_cast<std::size_t>(device)]; }
constexpr std::string_view word_of(AllToAll all_to_all) {
  return all_to_all_words[static_cast<std::size_t>(all_to_all)];
}

// The value that a word stands for, if it is one of `words`.
template <class Enum, std::size_t count>
constexpr std::optional<Enum> value_of_word(const std::array<std::string_view, count>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace llmtrain
