// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/messages.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"

namespace llmtrain::remote {
namespace {

// No field has the value of another one, or its default.
ServedText text_with_all_fields() {
  return {.prompt = {11, -12, std::numeric_limits<std::int64_t>::max()},
          .tokens = 13,
          .temperature = 0.1,
          .top_k = 14,
          .top_p = 0.7,
          .repetition_penalty = 1.3,
          .seed = std::numeric_limits<std::int64_t>::min(),
          .number = 15,
          .sample = 16,
          .log_probabilities = 17,
          .returns_experts = true};
}

LoadModel load_with_all_fields() {
  LoadModel load;
  load.request.checkpoint = std::string("a \0 folder", 10);
  load.request.sequences = 21;
  load.request.waiting = 22;
  load.request.cache_bytes = 23;
  load.request.is_exact = true;
  load.request.key_values = KeyValueType::fp8;
  load.request.draft = DraftRequest{.model = DraftRequest::Model{.recipe = {}, .checkpoint = "draft"}, .tokens = 24};
  load.request.pooling = TextPooling::last;
  load.request.ranks = {.tensor = 25, .pipeline = 26};
  load.request.memory = WeightMemory{.bytes = 27, .folder = "scratch", .bytes_per_second = 28.5};
  load.overrides = {"a=1", ""};
  return load;
}

void check_equal(const ServedText& own, const ServedText& other) {
  CHECK(own.prompt == other.prompt);
  CHECK(own.tokens == other.tokens);
  CHECK(own.temperature == other.temperature);
  CHECK(own.top_k == other.top_k);
  CHECK(own.top_p == other.top_p);
  CHECK(own.repetition_penalty == other.repetition_penalty);
  CHECK(own.seed == other.seed);
  CHECK(own.number == other.number);
  CHECK(own.sample == other.sample);
  CHECK(own.log_probabilities == other.log_probabilities);
  CHECK(own.returns_experts == other.returns_experts);
}

template <class Kind>
Kind passed(Kind order) {
  return std::get<Kind>(decoded_order(encoded(Order(std::move(order)))));
}

template <class Kind>
Kind reported(Kind report) {
  return std::get<Kind>(decoded_report(encoded(Report(std::move(report)))));
}

TEST_CASE("what a server asks for arrives with every field") {
  const AddTexts added = passed(AddTexts{.call = 1, .first = 2, .texts = {text_with_all_fields(), {}}});
  CHECK(added.call == 1);
  CHECK(added.first == 2);
  REQUIRE(added.texts.size() == 2);
  check_equal(added.texts[0], text_with_all_fields());
  check_equal(added.texts[1], {});
  CHECK(passed(CancelText{5}).text == 5);
  const EmbedTexts embedded = passed(EmbedTexts{.call = 6, .request = 7, .texts = {{8, 9}, {}}});
  CHECK(embedded.call == 6);
  CHECK(embedded.request == 7);
  CHECK(embedded.texts == std::vector<std::vector<std::int64_t>>{{8, 9}, {}});
  CHECK(passed(CancelEmbedding{10}).request == 10);
  CHECK(passed(AskLoad{11}).call == 11);
}

TEST_CASE("what a model's process loads arrives with every field") {
  const LoadModel expected = load_with_all_fields(), load = passed(expected);
  CHECK(load.overrides == expected.overrides);
  CHECK(load.request.checkpoint == expected.request.checkpoint);
  CHECK(load.request.sequences == 21);
  CHECK(load.request.waiting == 22);
  CHECK(load.request.cache_bytes == 23);
  CHECK(load.request.is_exact);
  CHECK(load.request.key_values == KeyValueType::fp8);
  REQUIRE(load.request.draft);
  REQUIRE(load.request.draft->model);
  CHECK(load.request.draft->model->checkpoint == "draft");
  CHECK(load.request.draft->tokens == 24);
  CHECK(load.request.pooling == TextPooling::last);
  CHECK(load.request.ranks.tensor == 25);
  CHECK(load.request.ranks.pipeline == 26);
  REQUIRE(load.request.memory);
  CHECK(load.request.memory->bytes == 27);
  CHECK(load.request.memory->folder == "scratch");
  CHECK(load.request.memory->bytes_per_second == 28.5);
  const LoadModel plain = passed(LoadModel{});
  CHECK_FALSE(plain.request.draft);
  CHECK_FALSE(plain.request.memory);
}

TEST_CASE("what a model's process says arrives with every field") {
  CHECK(reported(Ready{1, 2}).longest == 1);
  CHECK(reported(Ready{1, 2}).longest_embedded == 2);
  const Taken refused = reported(Taken{.call = 3, .is_taken = true, .refusal = RefusedTexts{65, "too long"}});
  CHECK(refused.call == 3);
  CHECK(refused.is_taken);
  REQUIRE(refused.refusal);
  CHECK(refused.refusal->code == 65);
  CHECK(refused.refusal->message == "too long");
  CHECK_FALSE(reported(Taken{.call = 4, .is_taken = false, .refusal = {}}).refusal);
  const TextService::Load load = reported(LoadFound{5, {1, 2, 3, 4, 5, 6, 7}}).load;
  CHECK(load.waiting == 1);
  CHECK(load.growing == 2);
  CHECK(load.embedding == 3);
  CHECK(load.used_bytes == 4);
  CHECK(load.cache_bytes == 5);
  CHECK(load.drafted == 6);
  CHECK(load.accepted == 7);
  const Failed failed = reported(Failed{69, "a rank is lost"});
  CHECK(failed.code == 69);
  CHECK(failed.message == "a rank is lost");
}

TEST_CASE("every bit of numbers arrives, also of those that are none") {
  const double nan = std::bit_cast<double>(0x7FF8'1234'5678'9ABCU);
  const ServedToken token{.id = 7,
                          .log_probability = nan,
                          .likeliest = {{8, -0.0}, {9, std::numeric_limits<double>::denorm_min()}},
                          .experts = {{{1, 2}, {}}, {{3}}}};
  const Grown grown = reported(Grown{6, token});
  CHECK(grown.text == 6);
  CHECK(grown.token.id == 7);
  REQUIRE(grown.token.log_probability);
  CHECK(std::bit_cast<std::uint64_t>(*grown.token.log_probability) == std::bit_cast<std::uint64_t>(nan));
  REQUIRE(grown.token.likeliest.size() == 2);
  CHECK(grown.token.likeliest[0].id == 8);
  CHECK(std::signbit(grown.token.likeliest[0].log_probability));
  CHECK(grown.token.likeliest[1].log_probability == std::numeric_limits<double>::denorm_min());
  CHECK(grown.token.experts == token.experts);
  const float small = std::bit_cast<float>(0x7FC0'0123U);
  const Embedded embedded = reported(Embedded{3, {1.5F, small}});
  CHECK(embedded.request == 3);
  REQUIRE(embedded.embedding.size() == 2);
  CHECK(std::bit_cast<std::uint32_t>(embedded.embedding[1]) == 0x7FC0'0123U);
}

// Messages with lists in them.
std::vector<std::string> some_orders() {
  return {encoded(Order(load_with_all_fields())),
          encoded(Order(AddTexts{.call = 1, .first = 2, .texts = {text_with_all_fields(), text_with_all_fields()}})),
          encoded(Order(EmbedTexts{.call = 6, .request = 7, .texts = {{8, 9}, {10}}}))};
}

std::vector<std::string> some_reports() {
  return {encoded(Report(Taken{.call = 3, .is_taken = false, .refusal = RefusedTexts{65, "too long"}})),
          encoded(Report(Grown{6, {.id = 7, .log_probability = 1, .likeliest = {{8, 2}}, .experts = {{{1}}}}})),
          encoded(Report(Embedded{3, {1, 2, 3}}))};
}

// Whether it is some message; anything but an Error fails the test.
bool is_message(const std::string& bytes) {
  bool is_one = false;
  try {
    decoded_order(bytes);
    is_one = true;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal_error);
  }
  try {
    decoded_report(bytes);
    is_one = true;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal_error);
  }
  return is_one;
}

TEST_CASE("messages that are cut off or too long are refused") {
  const auto check = [](const std::vector<std::string>& messages, const auto& decoded) {
    CHECK_THROWS_AS(decoded(""), Error);
    for (const std::string& message : messages) {
      CHECK_NOTHROW(decoded(message));
      CHECK_THROWS_AS(decoded(message + '\0'), Error);
      for (std::size_t length = 0; length < message.size(); ++length)
        CHECK_THROWS_AS(decoded(message.substr(0, length)), Error);
    }
  };
  check(some_orders(), decoded_order);
  check(some_reports(), decoded_report);
}

TEST_CASE("words and lengths that cannot be are refused") {
  std::string load = encoded(Order(LoadModel{}));
  // After the kind, an empty checkpoint, three numbers and a flag.
  constexpr std::size_t key_values = 1 + 8 + 3 * 8 + 1;
  load[key_values] = 3;
  CHECK_THROWS_AS(decoded_order(load), Error);
  load[key_values] = -1;
  CHECK_THROWS_AS(decoded_order(load), Error);
  load[key_values] = 2;
  CHECK(std::get<LoadModel>(decoded_order(load)).request.key_values == KeyValueType::fp8);
  load[key_values - 1] = 2;  // neither yes nor no
  CHECK_THROWS_AS(decoded_order(load), Error);
  std::string embedded = encoded(Report(Embedded{0, {1}}));
  constexpr std::size_t length = 1 + 8;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    std::string long_one = embedded;
    long_one[length + byte] = '\x7F';
    CHECK_THROWS_AS(decoded_report(long_one), Error);
  }
}

TEST_CASE("random bytes and damaged messages are refused or read, and nothing else") {
  std::mt19937 random(5);
  std::vector<std::string> messages = some_orders();
  for (const std::string& report : some_reports()) messages.push_back(report);
  int whole = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = messages[random() % messages.size()];
    if (trial % 4 == 0) {
      bytes.resize(random() % 64);
      for (char& byte : bytes) byte = static_cast<char>(random() % (trial % 8 == 0 ? 256 : 8));
    }
    for (std::uint32_t change = random() % 4; change > 0 && !bytes.empty(); --change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    whole += is_message(bytes) ? 1 : 0;
  }
  CHECK(whole > 1000);
  CHECK(whole < 19000);
}

}  // namespace
}  // namespace llmtrain::remote
