// SPDX-License-Identifier: Apache-2.0
// Against the examples in the documentation of scikit-learn's f1_score() and of seqeval.
#include "core/metrics/class_counts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace llmtrain::test {
namespace {

using Numbers = std::vector<std::int64_t>;

double figure(const ClassCounts& counts, const std::string& name) {
  const std::vector<Figure> figures = counts.figures();
  const auto found = std::ranges::find(figures, name, &Figure::name);
  REQUIRE(found != figures.end());
  return found->value;
}

}  // namespace

TEST_CASE("Accuracy and macro F1 are those of scikit-learn") {
  ClassCounts counts({"a", "b", "c"});
  counts.add(Numbers{0, 1, 2, 0, 1, 2}, Numbers{0, 2, 1, 0, 0, 1});
  CHECK(figure(counts, "accuracy") == Approx(2.0 / 6));
  CHECK(figure(counts, "macro_f1") == Approx(0.8 / 3));
  CHECK(counts.figures().size() == 2);
  // Classes that neither labels nor predictions have are left out of the mean, and those that one has are not.
  ClassCounts two({"a", "b", "c"});
  two.add(Numbers{0, 0}, Numbers{0, 1});
  CHECK(figure(two, "macro_f1") == Approx((2.0 / 3 + 0) / 2));
  CHECK(figure(ClassCounts({"a", "b"}), "accuracy") == 0);
  CHECK(figure(ClassCounts({"a", "b"}), "macro_f1") == 0);
}

TEST_CASE("Counts of ranks add up to those of all samples, names included") {
  const std::vector<std::string> tags{"O", "B-MISC", "I-MISC", "B-PER", "I-PER"};
  ClassCounts first(tags), second(tags), all(tags);
  first.add(Numbers{0, 0, 0, 1, 2, 2, 0}, Numbers{0, 0, 1, 2, 2, 2, 0});
  second.add(Numbers{3, 4, 0}, Numbers{3, 4, 0});
  all.add_numbers(first.numbers());
  all.add_numbers(second.numbers());
  CHECK(figure(all, "entity_f1") == Approx(0.5));
  CHECK(figure(all, "accuracy") == Approx(0.8));
  CHECK(first.numbers().size() == second.numbers().size());
  CHECK_THROWS(all.add_numbers(std::vector<double>{1}));
}

TEST_CASE("Only tags have names") {
  CHECK(ClassCounts({"O", "B-PER"}).figures().size() == 3);
  CHECK(ClassCounts({"O", "PER"}).figures().size() == 2);
  CHECK(ClassCounts({"O"}).figures().size() == 2);
}

}  // namespace llmtrain::test
