// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Small exchanges between ranks outside of training steps. Collective: all ranks of the world make the same calls in
// the same order. Blocking.

// The text of rank `root`, on every rank.
std::string share_text(Communicator& communicator, const std::string& text, int root = 0);

// The texts of all ranks, by rank, on rank 0; empty on the others.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);

// One number from each rank, by rank, on every rank.
std::vector<std::int64_t> exchange_numbers(Communicator& communicator, std::int64_t own);

// Whether any rank says so, on every rank.
bool any_rank(Communicator& communicator, bool own);

// The error that `work` throws; none if it returns.
std::optional<Error> error_of(const std::function<void()>& work);

// The failure of the lowest rank that has one, on every rank; ranks other than 0 are named: "rank 3: …".
std::optional<Error> first_failure(Communicator& communicator, const std::optional<Error>& own);

// Runs `work` on the first rank while the others wait, however long that takes: the watchdog sees signs of life, even
// if the work hangs. If it throws, all throw its error. Once another rank has failed, `is_abandoned` is true, and the
// first rank's call returns only when the work has ended.
void run_on_first(Communicator& communicator, const std::function<void(const std::atomic<bool>& is_abandoned)>& work);

// Runs `work` on every rank; if it throws on one of them, all throw that rank's error.
void run_together(Communicator& communicator, const std::function<void()>& work);

}  // namespace llmtrain
