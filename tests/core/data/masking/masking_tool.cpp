// SPDX-License-Identifier: Apache-2.0
// Masks one sequence many times, for tests in Python: masking_tool < REQUEST, a JSON object with "ids", "special" and
// "begins" (lists by id, of 0 and 1), "mask", "count", "whole_words" and "times". Prints for each row how often it was
// to be predicted and was then the mask, another token, or itself: [[MASKS, OTHERS, SAME], …].
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/data/masking/masked_rows.h"

namespace {

using namespace llmtrain;

std::vector<bool> flags(const nlohmann::json& list) {
  std::vector<bool> result;
  for (const auto& flag : list) result.push_back(flag.get<int>() != 0);
  return result;
}

}  // namespace

int main() {
  const auto request = nlohmann::json::parse(std::cin);
  const auto tokens = request["ids"].get<std::vector<std::int64_t>>();
  MaskingVocabulary vocabulary{request["mask"], flags(request["special"]), flags(request["begins"]), {}};
  for (std::size_t id = 0; id < vocabulary.is_special.size(); ++id)
    if (!vocabulary.is_special[id]) vocabulary.replacements.push_back(static_cast<std::int64_t>(id));
  std::vector<std::array<std::int64_t, 3>> counts(tokens.size());
  for (int i = 0; i < request["times"].get<int>(); ++i) {
    auto ids = tokens;
    std::vector<std::uint8_t> marks(ids.size());
    Draws draws(static_cast<std::uint64_t>(i));
    mask_rows({ids, marks, {}}, request["count"], vocabulary, {.whole_words = request["whole_words"].get<bool>()},
              draws);
    for (std::size_t row = 0; row < ids.size(); ++row)
      if (marks[row] != 0) ++counts[row][ids[row] == vocabulary.mask ? 0 : ids[row] != tokens[row] ? 1 : 2];
  }
  std::cout << nlohmann::json(counts).dump() << "\n";
}
