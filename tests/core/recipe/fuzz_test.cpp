// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::Json;

class Mutator {
 public:
  // One to three byte edits: changed, removed, duplicated, or a piece of JSON inserted.
  std::string operator()(std::string text) {
    static const std::vector<std::string> pieces = {
        "{",   "}",      "[",    "]",    ",",     ":",     "\"",
        "\\",  "-1",     "0",    "1e99", "1e999", "null",  "true",
        "\n",  "\0",     "\xFF", "{}",   "[]",    "\"a\"", "99999999999999999999",
        "0.5", "\\u0000"};
    const auto edits = 1 + below(3);
    for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
      const auto place = below(text.size());
      const auto length = 1 + below(std::min<std::size_t>(12, text.size() - place));
      switch (below(5)) {
        case 0:
          text[place] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(place, length);
          break;
        case 2:
          text.insert(place, text.substr(place, length));
          break;
        case 3:
          text.insert(place, pieces[below(pieces.size())]);
          break;
        default:
          text.replace(place, length, pieces[below(pieces.size())]);
      }
    }
    return text;
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_{20240601};
};

// 100,000 mutations in total in a fast build; under a sanitizer as many as this processor time allows.
class Budget {
 public:
  explicit Budget(int rounds) : rounds_(rounds) {}
  bool lasts() const { return done_ < rounds_ && std::clock() - begin_ < 4 * CLOCKS_PER_SEC; }
  int next() { return done_++; }
  int done() const { return done_; }

 private:
  int rounds_;
  int done_ = 0;
  std::clock_t begin_ = std::clock();
};

// Values from anywhere in the document, so that edits pass the parser and reach the rules.
std::vector<Json*> leaves(Json& value) {
  std::vector<Json*> found;
  for (auto& child : value) {
    if (child.is_structured()) {
      const auto inner = leaves(child);
      found.insert(found.end(), inner.begin(), inner.end());
    } else {
      found.push_back(&child);
    }
  }
  return found;
}

// Whether it is a valid recipe; any exception except Error(bad_recipe) fails the test.
bool is_recipe(const std::string& text) {
  try {
    const auto recipe = parse_recipe(text, "r.json", "/", {});
    REQUIRE(parse_recipe(to_json(recipe).dump(), "r.json", "/", {}) == recipe);
    return true;
  } catch (const Error& error) {
    REQUIRE(error.code() == ExitCode::bad_recipe);
    REQUIRE(std::string(error.what()).starts_with("r.json: "));
    return false;
  }
}

TEST_CASE("Corrupted bytes of a recipe cause only recipe errors", "[recipe]") {
  const auto large = test::large_recipe().dump();
  const auto small = test::small_recipe().dump();
  Mutator mutate;
  int good = 0;
  Budget budget(80'000);
  while (budget.lasts()) good += is_recipe(mutate(budget.next() % 2 == 0 ? large : small)) ? 1 : 0;
  CHECK(good > 0);
  CHECK(good < budget.done());
}

TEST_CASE("Corrupted values of a recipe cause only recipe errors", "[recipe]") {
  const std::vector<Json> values = {0,       1,      2,       3,    7,      -1,        1 << 20,    10'000,
                                    1e18,    0.5,    -0.0,    true, "auto", "",        "O1",       "rope",
                                    nullptr, {1, 2}, "gpipe", "/",  1e9,    INT64_MAX, UINT64_MAX, 64};
  Mutator random;
  int good = 0;
  const auto text = to_json(test::parse(test::small_recipe()));
  const auto large = test::large_recipe();
  Budget budget(20'000);
  while (budget.lasts()) {
    auto json = budget.next() % 2 == 0 ? text : large;
    const auto places = leaves(json);
    for (std::size_t edit = 1 + random.below(3); edit > 0; --edit) {
      *places[random.below(places.size())] = values[random.below(values.size())];
    }
    good += is_recipe(json.dump()) ? 1 : 0;
  }
  CHECK(good > 0);
  CHECK(good < budget.done());
}

}  // namespace
}  // namespace llmtrain
