// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/left_out.h"

#include <spdlog/fmt/fmt.h>

#include "core/base/units.h"

namespace llmtrain {

std::vector<std::string> sentences_of(const LeftOut& left_out, std::int64_t sequence_length) {
  std::vector<std::string> sentences = left_out.bad_lines.sentences();
  const auto add = [&](std::int64_t count, const char* what, const std::string& became, const std::string& why) {
    if (count > 0)
      sentences.push_back(fmt::format("{}{} {} {}{}", format_number_of(count, "document"), what,
                                      count == 1 ? "was" : "were", became, why));
  };
  const std::string within = fmt::format("batch.sequence_length ({})", sequence_length);
  add(left_out.without_words, " without words", "left out", "");
  add(left_out.no_answer, " without a token that counts in the loss", "left out", " (data.fine_tuning.loss)");
  add(left_out.too_long, "", "left out, longer than " + within, ", within which none of their tokens counts");
  add(left_out.cut_pairs, " of two texts", "truncated to " + within, " and data.pairs.target_length");
  add(left_out.truncated, "", "truncated to " + within, "");
  return sentences;
}

}  // namespace llmtrain
