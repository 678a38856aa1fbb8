// SPDX-License-Identifier: Apache-2.0
// What seqeval 1.2.2 says of random tags: get_entities(), and precision_score(), recall_score() and f1_score() of
// seqeval.metrics.
#include "core/metrics/entities.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace llmtrain::test {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

std::string shown(const std::vector<Entity>& entities) {
  std::string text;
  for (const Entity& entity : entities)
    text += (text.empty() ? "" : " ") + entity.type + ":" + std::to_string(entity.first) + "-" +
            std::to_string(entity.last);
  return text;
}

}  // namespace

TEST_CASE("Entities are those that seqeval finds, in any order of tags") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", ""},
      {"O O", ""},
      {"B-PER I-PER O B-LOC", "PER:0-1 LOC:3-3"},
      {"I-A-B S-PER B-LOC B S-LOC O E-LOC E-PER B O I-PER B-PER B-LOC E-LOC",
       "A-B:0-0 PER:1-1 LOC:2-2 _:3-3 LOC:4-4 LOC:6-6 PER:7-7 _:8-8 PER:10-10 PER:11-11 LOC:12-13"},
      {"E-PER I-LOC S-LOC B-PER I-A-B E-PER O E-PER I-LOC S-PER I-PER I-LOC I-PER B-PER",
       "PER:0-0 LOC:1-1 LOC:2-2 PER:3-3 A-B:4-4 PER:5-5 PER:7-7 LOC:8-8 PER:9-9 PER:10-10 LOC:11-11 PER:12-12 "
       "PER:13-13"},
      {"I-PER I-A-B I-A-B E-LOC I-PER I-PER O O E-PER E-PER I-PER I-PER S-PER B-LOC",
       "PER:0-0 A-B:1-2 LOC:3-3 PER:4-5 PER:8-8 PER:9-9 PER:10-11 PER:12-12 LOC:13-13"},
      {"E-PER S-LOC B B E-PER I-PER E-PER I-LOC S-PER O B-LOC I-LOC I-PER I-PER",
       "PER:0-0 LOC:1-1 _:2-2 _:3-3 PER:4-4 PER:5-6 LOC:7-7 PER:8-8 LOC:10-11 PER:12-13"}};
  for (const auto& [tags, entities] : cases) {
    CAPTURE(tags);
    CHECK(shown(entities_of(words(tags))) == entities);
  }
}

TEST_CASE("Precision, recall and F1 of entities are seqeval's") {
  EntityCounts counts;
  CHECK(counts.f1() == 0);
  counts.add(words("I-PER O I-PER I-PER I-LOC S-PER S-PER O S-PER B-LOC B-LOC I-PER"),
             words("I-PER O I-PER I-PER I-LOC B-PER S-PER O O B-LOC B-LOC I-PER"));
  counts.add(words("O I-PER I-PER I-LOC I-PER E-PER B-LOC I-PER B-PER E-PER E-PER B-LOC"),
             words("O I-PER I-PER O I-PER B-PER B-LOC B-PER B-PER O E-PER I-PER"));
  counts.add(words("B-PER O I-PER O B-LOC I-PER I-LOC E-PER O S-PER I-LOC E-PER"),
             words("B-PER O I-PER O B-LOC I-PER O O O S-PER O B-PER"));
  CHECK(counts.precision() == Approx(0.8181818181818182));
  CHECK(counts.recall() == Approx(0.6923076923076923));
  CHECK(counts.f1() == Approx(0.75));
  CHECK_THROWS_AS(counts.add(words("O"), words("O O")), std::invalid_argument);
}

}  // namespace llmtrain::test
