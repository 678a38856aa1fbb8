// SPDX-License-Identifier: Apache-2.0
// What sacrebleu 2.6.0 says: Tokenizer13a()(text.rstrip()), and corpus_bleu(texts, references).score.
#include "core/metrics/bleu.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace llmtrain::test {
namespace {

using Pair = std::pair<std::string, std::vector<std::string>>;

double score(const std::vector<Pair>& pairs) {
  BleuCounts counts;
  for (const auto& [text, references] : pairs) counts.add(text, references);
  return counts.score();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

const std::vector<Pair> pairs{{"The cat sat on the mat.", {"The cat is on the mat.", "There is a cat on the mat."}},
                              {"He paid $3.50 for it", {"He paid $3.50 for that one."}},
                              {"Completely different words here now", {"Nothing of it is the same at all, really."}},
                              {"the the the the the", {"the cat the dog sat on it"}}};

}  // namespace

TEST_CASE("Texts are cut into words as mteval's version 13a does") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"It's 3.5, not 1,000.", "It's 3.5 , not 1,000 ."},
      {"a..b,,c 5-6 well-known -x", "a . . b , , c 5 - 6 well-known -x"},
      {"<skipped>&quot;x&quot; &amp;amp; &lt;b&gt;", "\" x \" & amp ; < b >"},
      {"end-\nof line-\n", "endof line-"},
      {"über\u00a0all\u3000da. «q»…", "über all da . «q»…"},
      {"(a)[b]{c}#$%^*~|/@_=+:;!?", "( a ) [ b ] { c } # $ % ^ * ~ | / @ _ = + : ; ! ?"},
      {"1.a a.1 1,2,3. ,x x,", "1 . a a . 1 1,2,3 . , x x ,"},
      {"\t  ", ""}};
  for (const auto& [text, words] : cases) CHECK(joined(words_13a(text)) == words);
}

TEST_CASE("BLEU is sacrebleu's, of corpora and of single texts") {
  CHECK(score(pairs) == Approx(24.82939379745618));
  CHECK(score({pairs[0]}) == Approx(48.892302243490086));
  CHECK(score({pairs[1]}) == Approx(54.44460596606694));
  CHECK(score({pairs[2]}) == 0);
  CHECK(score({pairs[3]}) == Approx(8.51528917838043));
  CHECK(score({pairs[0], pairs[1]}) == Approx(53.046874482318536));
  // There are no sequences of three words.
  CHECK(score({{"a b", {"a b"}}}) == 0);
  CHECK(score({{"a b c d x y", {"a b c d x y"}}}) == Approx(100));
  // The reference of the closest length counts, which is no shorter one: of six words one is missing.
  CHECK(score({{"a b c d e", {"a b c", "a b c d e f"}}}) == Approx(100 * 0.8187307530779818));
  CHECK(score({}) == 0);
  CHECK_THROWS_AS(BleuCounts().add("a", {}), std::invalid_argument);
}

}  // namespace llmtrain::test
