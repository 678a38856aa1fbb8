// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/agreement.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>

#include "core/machine/host_memory.h"

namespace llmtrain {
namespace {

Array bytes_of(std::string& text) { return {text.data(), static_cast<std::int64_t>(text.size()), ElementType::uint8}; }

}  // namespace

std::string share_text(Communicator& communicator, const std::string& text, int root) {
  const Group& world = communicator.world();
  auto size = static_cast<std::int64_t>(text.size());
  // Receivers must know the length before they can provide memory for the text.
  communicator.broadcast(world, Purpose::control, {&size, 1, ElementType::int64}, root).wait();
  std::string shared = text;
  shared.resize(static_cast<std::size_t>(size));
  if (size > 0) communicator.broadcast(world, Purpose::control, bytes_of(shared), root).wait();
  return shared;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own) {
  const Group& world = communicator.world();
  const auto sizes = exchange_numbers(communicator, static_cast<std::int64_t>(own.size()));
  std::string text = own;
  // Messages of exact length rather than a collective: texts differ in size, and only the first rank needs them.
  if (communicator.rank() > 0) {
    if (!text.empty()) communicator.send(world, Purpose::control, bytes_of(text), 0).wait();
    return {};
  }
  std::vector<std::string> texts{std::move(text)};
  for (int rank = 1; rank < communicator.size(); ++rank) {
    texts.emplace_back(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]), '\0');
    if (!texts.back().empty()) communicator.receive(world, Purpose::control, bytes_of(texts.back()), rank).wait();
  }
  return texts;
}

std::vector<std::int64_t> exchange_numbers(Communicator& communicator, std::int64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator
      .all_gather(communicator.world(), Purpose::control, {&own, 1, ElementType::int64},
                  {all.data(), communicator.size(), ElementType::int64})
      .wait();
  return all;
}

bool any_rank(Communicator& communicator, bool own) {
  return std::ranges::count(exchange_numbers(communicator, own ? 1 : 0), 1) > 0;
}

std::optional<Error> error_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    if (const auto text = out_of_memory(error)) return Error(ExitCode::internal_error, *text);
    return Error(ExitCode::internal_error, std::string("internal error: ") + error.what());
  }
}

std::optional<Error> first_failure(Communicator& communicator, const std::optional<Error>& own) {
  const auto codes = exchange_numbers(communicator, own ? static_cast<std::int64_t>(own->code()) : 0);
  const auto code = std::ranges::find_if(codes, [](std::int64_t each) { return each != 0; });
  if (code == codes.end()) return std::nullopt;
  const int failed = static_cast<int>(code - codes.begin());
  // The lowest failing rank speaks, so that all ranks throw the same message.
  const std::string message = share_text(communicator, own ? own->what() : "", failed);
  return Error(static_cast<ExitCode>(*code), (failed > 0 ? "rank " + std::to_string(failed) + ": " : "") + message);
}

void run_on_first(Communicator& communicator, const std::function<void(const std::atomic<bool>& is_abandoned)>& work) {
  std::atomic<bool> is_abandoned{false};
  std::future<std::optional<Error>> running;
  if (communicator.rank() == 0)
    running = std::async(std::launch::async, [&] { return error_of([&] { work(is_abandoned); }); });
  // Far within any useful time of the watchdog.
  constexpr std::chrono::seconds sign_of_life{1};
  std::int64_t is_done = 0;
  // Each broadcast starts the other ranks' watchdog anew, so that the work may take hours.
  while (is_done == 0) {
    if (running.valid()) is_done = running.wait_for(sign_of_life) == std::future_status::ready ? 1 : 0;
    try {
      communicator.broadcast(communicator.world(), Purpose::control, {&is_done, 1, ElementType::int64}, 0).wait();
    } catch (...) {
      is_abandoned = true;
      throw;  // which waits for the work
    }
  }
  if (const auto failure = first_failure(communicator, running.valid() ? running.get() : std::nullopt))
    throw Error(*failure);
}

void run_together(Communicator& communicator, const std::function<void()>& work) {
  if (const auto failure = first_failure(communicator, error_of(work))) throw Error(*failure);
}

}  // namespace llmtrain
