// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Enough for any schedule that people can tell from a finer one; what is planned and looked up is a table of them.
constexpr std::int64_t most_lengths = 100'000;

Verdict check_first_length(const Recipe& recipe, const Known&) {
  const auto& lengths = recipe.data.curriculum.sequence_length;
  return lengths ? check_start(lengths->schedule, recipe.batch) : Verdict();
}

Verdict check_lengths(const Recipe& recipe, const Known&) {
  const auto& lengths = recipe.data.curriculum.sequence_length;
  return lengths ? check_multiple(lengths->schedule, recipe.batch) : Verdict();
}

// Context ranks split every sequence, and sequence parallelism and routers split their parts: the shorter ones too.
Verdict check_split_lengths(const Recipe& recipe, const Known&) {
  const auto& lengths = recipe.data.curriculum.sequence_length;
  const ParallelRecipe& parallel = recipe.parallel;
  const bool splits = parallel.tensor > 1 && (parallel.sequence || recipe.model.moe);
  if (!lengths) return {};
  return must_be_multiple(lengths->schedule.multiple, parallel.context * (splits ? parallel.tensor : 1),
                          splits ? "parallel.context × parallel.tensor" : "parallel.context");
}

}  // namespace

Verdict check_start(const LengthScheduleRecipe& schedule, const BatchRecipe& batch) {
  if (schedule.start > batch.sequence_length)
    return Refusal{fmt::format("{} is too long", schedule.start),
                   fmt::format("must be at most batch.sequence_length ({})", batch.sequence_length),
                   std::to_string(batch.sequence_length)};
  return must_be_multiple(schedule.start, schedule.multiple, "the multiple beside it");
}

Verdict check_multiple(const LengthScheduleRecipe& schedule, const BatchRecipe& batch) {
  const std::int64_t lengths = (batch.sequence_length - schedule.start) / schedule.multiple;
  if (lengths <= most_lengths) return {};
  return Refusal{fmt::format("{} makes {} lengths", schedule.multiple, lengths),
                 fmt::format("must make at most {}", most_lengths)};
}

std::vector<Rule> curriculum_rules() {
  const std::string_view start = "/data/curriculum/sequence_length/start";
  const std::string_view multiple = "/data/curriculum/sequence_length/multiple";
  const std::string_view length = "/batch/sequence_length", longest = "/model/max_sequence_length";
  return {
      {start, {multiple, length, longest}, check_first_length},
      {multiple, {start, length, longest}, check_lengths},
      {multiple,
       {start, "/model/moe/experts", "/parallel/tensor", "/parallel/sequence", "/parallel/context"},
       check_split_lengths},
  };
}

}  // namespace llmtrain
