// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/choice_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace llmtrain::app {
namespace {

// Code points of UTF-8, which a string from JSON is: all bytes but those that continue a character.
double characters(const std::string& text) {
  return static_cast<double>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

double bytes(const std::string& text) { return static_cast<double>(text.size()); }

double one(const std::string&) { return 1; }

// 1 where the choice with the largest score for its length is the answer.
double is_right(const KnownQuestion& known, const std::vector<double>& scores, double (*length)(const std::string&)) {
  std::vector<double> each;
  for (std::size_t i = 0; i < scores.size(); ++i) each.push_back(scores[i] / length(known.choices[i]));
  return static_cast<std::size_t>(std::max_element(each.begin(), each.end()) - each.begin()) == known.answer ? 1 : 0;
}

}  // namespace

ChoiceAccuracy accuracy_of(const std::vector<KnownQuestion>& questions, const ChoiceScores& scores) {
  ChoiceAccuracy accuracy;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    accuracy.acc += is_right(questions[i], scores.log_probabilities[i], one);
    accuracy.acc_norm += is_right(questions[i], scores.log_probabilities[i], characters);
    accuracy.acc_bytes += is_right(questions[i], scores.log_probabilities[i], bytes);
  }
  const auto count = static_cast<double>(questions.size());
  return {accuracy.acc / count, accuracy.acc_norm / count, accuracy.acc_bytes / count};
}

std::string choices_as_text(const std::string& checkpoint, const std::vector<KnownQuestion>& questions,
                            const ChoiceScores& scores) {
  const auto [acc, acc_norm, acc_bytes] = accuracy_of(questions, scores);
  return fmt::format(
      "checkpoint  {}\nstep        {}\nquestions   {}\nacc         {:.4f}\nacc_norm    {:.4f} by characters\n"
      "acc_bytes   {:.4f}\n",
      checkpoint, scores.step, questions.size(), acc, acc_norm, acc_bytes);
}

std::string choices_as_json(const std::string& checkpoint, const std::vector<KnownQuestion>& questions,
                            const ChoiceScores& scores) {
  const auto [acc, acc_norm, acc_bytes] = accuracy_of(questions, scores);
  const nlohmann::ordered_json json = {{"checkpoint", checkpoint},
                                       {"step", scores.step},
                                       {"questions", questions.size()},
                                       {"acc", acc},
                                       {"acc_norm", acc_norm},
                                       {"acc_bytes", acc_bytes},
                                       {"log_probabilities", scores.log_probabilities}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain::app
