// SPDX-License-Identifier: Apache-2.0
// Ranks that share a model check the same guesses: texts have the tokens and log-probabilities, bit for bit, that they
// have on the same ranks without guesses, whoever guesses.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/generation.h"
#include "tests/parallel/engine/generation/stepped_batch.h"

namespace llmtrain::test::batch_ranks {
namespace {

using Tokens = std::vector<std::int64_t>;

struct Grown {
  std::vector<Tokens> texts;  // without prompts
  std::vector<double> log_probabilities;
  std::int64_t steps = 0;
  bool operator==(const Grown& other) const {
    return texts == other.texts && log_probabilities == other.log_probabilities;
  }
};

// The first prompt repeats itself, and the last has two parts.
std::vector<TextRequest> requests_of_guesses() {
  std::vector<TextRequest> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    for (std::int64_t t = 0; t < std::vector{12, 1, 30, 258}[i]; ++t)
      requests[i].prompt.push_back(i == 0 ? t % 3 : (t * t + 31 * number) % 256);
    requests[i].tokens = 9 + 4 * number;
    requests[i].choice = {.temperature = i % 2 == 0 ? 0 : 1.3, .seed = 3};
    requests[i].number = {number, 0};
    requests[i].log_probabilities = 1;
  }
  return requests;
}

Grown grown(LocalModel& model, const BatchLimits& limits) {
  SteppedBatch stepped(model, limits);
  Grown found{std::vector<Tokens>(4), {}};
  std::vector<std::vector<double>> numbers(4);
  if (stepped.leads()) {
    for (std::size_t i = 0; const TextRequest& request : requests_of_guesses()) {
      stepped.batch().add(request, [&, i](const GrownToken& token) {
        found.texts[i].push_back(token.id);
        numbers[i].insert(numbers[i].end(), {*token.log_probability, token.likeliest.front().log_probability});
        return true;
      });
      ++i;
    }
    while (stepped.step()) ++found.steps;
    stepped.end();
  }
  stepped.follow();
  for (const std::vector<double>& of_text : numbers)
    found.log_probabilities.insert(found.log_probabilities.end(), of_text.begin(), of_text.end());
  return found;
}

// Knows the texts and is right with the first guesses alone; of every third text it guesses nothing.
class Knowing final : public Drafts {
 public:
  explicit Knowing(const std::vector<Tokens>& texts) {
    for (std::size_t i = 0; const TextRequest& request : requests_of_guesses()) {
      texts_.push_back(request.prompt);
      texts_.back().insert(texts_.back().end(), texts[i].begin(), texts[i].end());
      ++i;
    }
  }

  Guesses guess(std::span<const DraftedText> texts) override {
    Guesses guesses(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (++asked_ % 3 == 0) continue;
      const Tokens& whole = texts_[static_cast<std::size_t>(texts[i].number.prompt)];
      for (std::int64_t k = 0; k < texts[i].most; ++k) {
        const std::int64_t right = whole[texts[i].tokens.size() + static_cast<std::size_t>(k)];
        guesses[i].push_back(k < asked_ % 4 ? right : (right + 1) % 256);
      }
    }
    return guesses;
  }

 private:
  std::vector<Tokens> texts_;
  std::int64_t asked_ = 0;
};

Drafting of_lead(bool leads, Drafts& drafts) { return {leads ? &drafts : nullptr, 4}; }

// Only the rank that leads checks, as Catch is not for threads.
void check_guesses(LocalModel& model, LocalModel& guesses_itself, const BatchLimits& plain) {
  const bool leads = RankLead(model.groups()).leads();
  const Grown alone = grown(model, plain);
  Knowing knowing(alone.texts);
  LookupDrafts lookup;
  ModelDrafts other(guesses_itself, plain.sequences, 300);
  for (Drafts* drafts : std::initializer_list<Drafts*>{&knowing, &lookup, &other}) {
    BatchLimits limits = plain;
    limits.drafting = of_lead(leads, *drafts);
    const Grown guessed = grown(model, limits);
    if (!leads) continue;
    const bool are_same = guessed == alone;
    CHECK(are_same);
    CHECK(drafts->counts().drafted > 0);
    if (drafts == &knowing) CHECK(guessed.steps < alone.steps);
  }
  if (leads) CHECK(knowing.counts().accepted > 10);
}

}  // namespace

TEST_CASE("texts of ranks that share a model are those without guesses, bit for bit") {
  struct Case {
    Overrides model, layout;
    int ranks = 2;
    BatchLimits limits{.sequences = 3};
  };
  const std::vector<Case> cases{{gpt2, tensor},
                                {llama + window + bf16, tensor, 2, {.sequences = 3, .is_exact = true}},
                                {llama + experts, expert_tensor, 2, {.sequences = 2, .key_values = KeyValueType::int8}},
                                {gpt2, pipeline},
                                {llama + experts, expert_tensor + pipeline, 4}};
  for (const Case& one : cases) {
    INFO(in_words(one.ranks, one.model + one.layout));
    const TrainingSetting setting;
    // With the same tokens.
    const Recipe smaller = setting.recipe(small + one.model + Overrides{"model.layers=2"});
    on_ranks(one.ranks, small + one.model + one.layout, [&](LocalModel& model) {
      const auto alone = make_solo_communicator();
      Trainer other(layout_of(smaller, 1), *alone, at::kCPU);
      check_guesses(model, other.model(), one.limits);
    });
  }
}

TEST_CASE("generate() on several ranks writes what it writes there without guesses") {
  const std::vector<Tokens> prompts{{0, 1, 2, 0, 1, 2, 0}, {7}};
  for (const Overrides& layout : {tensor, pipeline}) {
    INFO(in_words(2, layout));
    on_ranks(2, small + llama + layout, [&](LocalModel& model) {
      const bool leads = RankLead(model.groups()).leads();
      LookupDrafts lookup;
      const auto texts_of = [&](const Drafting& drafting) {
        std::vector<Tokens> texts(prompts.size());
        generate(model, prompts, {.tokens = 40, .choice = {.temperature = 0}, .drafting = drafting},
                 [&](const TextNumber& number, std::int64_t token) {
                   texts[static_cast<std::size_t>(number.prompt)].push_back(token);
                   return true;
                 });
        return texts;
      };
      const std::vector<Tokens> plain = texts_of({}), guessed = texts_of(of_lead(leads, lookup));
      // On every rank, whose texts are the same.
      const std::vector<double> are_same = model.groups().exchange(std::array{plain == guessed ? 1.0 : 0.0});
      if (!leads) return;
      CHECK(are_same == std::vector<double>(2, 1));
      CHECK(lookup.counts().drafted > 0);
    });
  }
}

}  // namespace llmtrain::test::batch_ranks
