// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/agreement.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "parallel/comm/communicator.h"
#include "parallel/comm/stop_agreement.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Lengths differ between ranks, and one text is empty.
std::string text_of(int rank) {
  return std::string(static_cast<std::size_t>(rank) * 5000, static_cast<char>('a' + rank));
}

}  // namespace

TEST_CASE("texts are sent from one rank to all, and from all to the first") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      const int own = communicator.rank(), last = communicator.size() - 1;
      expect(share_text(communicator, text_of(own), last) == text_of(last), "the last rank's text");
      expect(share_text(communicator, own == 0 ? "" : "x").empty(), "an empty text");
      const auto texts = gather_texts(communicator, text_of(own));
      expect(texts.size() == static_cast<std::size_t>(own == 0 ? communicator.size() : 0), "as many texts as ranks");
      for (std::size_t i = 0; i < texts.size(); ++i) expect(texts[i] == text_of(static_cast<int>(i)), "a rank's text");
      const auto numbers = exchange_numbers(communicator, 7 * own);
      for (int rank = 0; rank <= last; ++rank)
        expect(numbers[static_cast<std::size_t>(rank)] == 7 * rank, "a rank's number");
    });
  }
}

TEST_CASE("all ranks throw the error of the first rank that failed") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](Communicator& communicator) {
      run_together(communicator, [] {});
      for (int failing = 0; failing < ranks; ++failing) {
        const auto failure = error_of([&] {
          run_together(communicator, [&] {
            if (communicator.rank() >= failing)
              throw Error(ExitCode::bad_data, "failed on " + std::to_string(communicator.rank()));
          });
        });
        const std::string number = std::to_string(failing);
        expect(failure && failure->code() == ExitCode::bad_data, "it failed");
        expect(failure->what() == (failing == 0 ? "" : "rank " + number + ": ") + "failed on " + number,
               failure->what());
      }
    });
  }
}

TEST_CASE("work of the first rank alone is waited for, and its error is thrown by all") {
  for (const int ranks : rank_counts()) {
    std::atomic<int> calls = 0;
    on_ranks(ranks, [&calls](Communicator& communicator) {
      bool is_done = false;
      run_on_first(communicator, [&](const auto&) {
        expect(communicator.rank() == 0, "the first rank works");
        ++calls;
        is_done = true;
      });
      expect(is_done == (communicator.rank() == 0), "the work is done when it is returned from");
      const auto failure = error_of([&] {
        run_on_first(communicator, [](const auto&) { throw Error(ExitCode::cannot_write, "the disk is full"); });
      });
      expect(failure && failure->code() == ExitCode::cannot_write, "it failed");
      expect(failure->what() == std::string("the disk is full"), failure->what());
    });
    CHECK(calls <= 1);
  }
}

TEST_CASE("agreement works on a single rank") {
  const std::shared_ptr<Communicator> alone = make_solo_communicator();
  CHECK(exchange_numbers(*alone, 3) == std::vector<std::int64_t>{3});
  CHECK_FALSE(first_failure(*alone, std::nullopt));
  CHECK_THROWS_WITH(run_together(*alone, [] { throw Error(ExitCode::bad_data, "alone"); }), "alone");
  CHECK(error_of([] { throw std::runtime_error("odd"); })->what() == std::string("internal error: odd"));
  CHECK(error_of([] { throw std::bad_alloc(); })->code() == ExitCode::internal_error);
}

TEST_CASE("ranks end equal rounds after the same one, soon after any of them is asked to, and exchange seldom") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](Communicator& communicator) {
      for (int asked = 0; asked < ranks; ++asked) {
        StopAgreement agreement(communicator);
        std::int64_t rounds = 0, exchanges = 0;
        constexpr std::int64_t many = 10000;
        const auto asks = [&] {
          ++exchanges;
          return communicator.rank() == asked && rounds >= many;
        };
        while (!agreement.ends(asks)) ++rounds;
        for (const std::int64_t each : exchange_numbers(communicator, rounds)) expect(each == rounds, "the same round");
        for (const std::int64_t each : exchange_numbers(communicator, exchanges))
          expect(each == exchanges, "asked in the same rounds");
        expect(rounds >= many, "not before");
        // Rounds of no work: intervals double until they last long enough.
        expect(exchanges < many / 10, "seldom");
      }
      StopAgreement agreement(communicator);
      expect(agreement.ends([&] { return communicator.rank() == ranks - 1; }), "before the first round");
      expect(any_rank(communicator, communicator.rank() == ranks - 1), "the last rank says so");
      expect(!any_rank(communicator, false), "no rank says so");
    });
  }
}
