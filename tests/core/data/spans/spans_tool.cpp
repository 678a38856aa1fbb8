// SPDX-License-Identifier: Apache-2.0
// Prints questions as samples, and what their answers count, for tests in Python, as JSON:
//   spans_tool windows TOKENIZER.json DATA LENGTH VOCABULARY QUESTION_LENGTH OVERLAP   of each sample its fields, the
//                        question's number, the row where its text begins, and the bytes of the text's tokens
//   spans_tool places TOKENIZER.json    of each line of standard input, a text as JSON: the ids of its tokens and their
//                        bytes, and the ids of the text as a whole
//   spans_tool answers    of each line {"told", "answers"}: the answer told, normalized, and the figures
//   spans_tool best       of each line {"starts", "ends", "begin", "end", "longest"}: the best span, or null
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/data/samples/dataset.h"
#include "core/metrics/answers.h"
#include "core/tokenizer/open_tokenizer.h"

namespace {

using namespace llmtrain;
using nlohmann::json;

json as_json(std::span<const TextPlace> places) {
  json pairs = json::array();
  for (const TextPlace& place : places) pairs.push_back({place.begin, place.end});
  return pairs;
}

json windows(const std::vector<std::string>& given) {
  TextFormat format{{TokenizerKind::huggingface, given.at(1)}};
  format.spans =
      SpansRecipe{.unanswerable = true, .question_length = std::stoll(given.at(5)), .overlap = std::stoll(given.at(6))};
  const std::int64_t length = std::stoll(given.at(3));
  const Dataset data({DataSource{given.at(2), 1}}, format, length, std::stoll(given.at(4)), false, 1, "/data/train");
  json printed = json::array();
  for (std::int64_t number = 0; number < data.samples(); ++number) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(length)), types(ids), starts(ids), span(2);
    FieldMemory memory;
    memory.set(BatchField::token_ids, std::span(ids));
    memory.set(BatchField::token_types, std::span(types));
    memory.set(BatchField::span, std::span(span));
    memory.document_starts = {starts};
    data.read(number, memory);
    const Dataset::QuestionPlace place = data.question(number);
    const SpanTexts::Window window = place.texts->window(place.window);
    printed.push_back({{"token_ids", ids},
                       {"token_types", types},
                       {"span", span},
                       {"starts", starts},
                       {"weight", data.weight(0, number, 1)},
                       {"question", window.question},
                       {"first_row", window.first_row},
                       {"places", as_json(window.places)}});
  }
  return printed;
}

json placed(PlacedEncoder& placing, TextEncoder& whole, const std::string& text) {
  std::vector<TokenId> ids, of_whole;
  std::vector<TextPlace> places;
  placing.encode(text, ids, places);
  whole.encode(text, of_whole);
  return {{"ids", ids}, {"places", as_json(places)}, {"whole", of_whole}};
}

json counted(const json& line) {
  AnswerCounts counts;
  counts.add(line["told"].get<std::string>(), line["answers"].get<std::vector<std::string>>());
  json result{{"normalized", normalized_answer(line["told"].get<std::string>())}};
  for (const Figure& figure : counts.figures()) result[figure.name] = figure.value;
  return result;
}

json best(const json& line) {
  const auto starts = line["starts"].get<std::vector<double>>(), ends = line["ends"].get<std::vector<double>>();
  const auto found = best_span(starts, ends, line["begin"], line["end"], line["longest"]);
  return found ? json{found->first, found->last, found->score} : json();
}

template <class Answer>
json for_each_line(Answer answer) {
  json printed = json::array();
  for (std::string line; std::getline(std::cin, line);) printed.push_back(answer(json::parse(line)));
  return printed;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  try {
    json printed;
    if (given.at(0) == "windows") {
      printed = windows(given);
    } else if (given[0] == "places") {
      const auto tokenizer = open_tokenizer({TokenizerKind::huggingface, given.at(1)});
      PlacedEncoder placing(*tokenizer);
      const auto whole = tokenizer->make_encoder();
      printed = for_each_line([&](const json& text) { return placed(placing, *whole, text.get<std::string>()); });
    } else {
      printed = for_each_line(given[0] == "answers" ? counted : best);
    }
    std::cout << printed.dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
