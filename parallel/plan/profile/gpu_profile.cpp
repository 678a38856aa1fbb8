// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/gpu_profile.h"

#include <array>
#include <cctype>

namespace llmtrain {
namespace {

// Whether `word` stands in the name between other characters than letters and digits: "H200" is not a word of "NVIDIA
// GH200 480GB".
bool has_word(std::string_view name, std::string_view word) {
  const auto is_end = [&](std::size_t at) {
    return at >= name.size() || std::isalnum(static_cast<unsigned char>(name[at])) == 0;
  };
  for (auto at = name.find(word); at != name.npos; at = name.find(word, at + 1))
    if ((at == 0 || is_end(at - 1)) && is_end(at + word.size())) return true;
  return false;
}

}  // namespace

std::string_view gpu_profile(std::string_view model) {
  constexpr std::array<std::array<std::string_view, 2>, 13> kinds{{{"GB300", "gb300"},
                                                                   {"B300", "b300"},
                                                                   {"GB200", "gb200"},
                                                                   {"B200", "b200"},
                                                                   {"H200", "h200"},
                                                                   {"H100", "h100-sxm-80gb"},
                                                                   {"A100", "a100-80gb"},
                                                                   {"V100", "v100-32gb"},
                                                                   {"L40S", "l40s"},
                                                                   {"L4", "l4"},
                                                                   {"RTX 5090", "rtx-5090"},
                                                                   {"RTX 4090", "rtx-4090"},
                                                                   {"MI300X", "mi300x"}}};
  for (const auto& [word, profile] : kinds)
    if (has_word(model, word)) return word == "A100" && has_word(model, "40GB") ? "a100-40gb" : profile;
  return "";
}

}  // namespace llmtrain
