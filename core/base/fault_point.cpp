// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_point.h"

#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace llmtrain {
namespace {

struct PlaceWord {
  FaultPlace place;
  std::string_view word;
  ExitCode code;  // that an error of this place ends the program with
};

constexpr std::array places{PlaceWord{FaultPlace::recipe, "recipe", ExitCode::bad_recipe},
                            PlaceWord{FaultPlace::data, "data", ExitCode::bad_data},
                            PlaceWord{FaultPlace::load, "load", ExitCode::bad_data},
                            PlaceWord{FaultPlace::forward, "forward", ExitCode::internal_error},
                            PlaceWord{FaultPlace::collective, "collective", ExitCode::internal_error},
                            PlaceWord{FaultPlace::save, "save", ExitCode::cannot_write},
                            PlaceWord{FaultPlace::commit, "commit", ExitCode::cannot_write},
                            PlaceWord{FaultPlace::weights, "weights", ExitCode::internal_error},
                            PlaceWord{FaultPlace::gradients, "gradients", ExitCode::internal_error},
                            PlaceWord{FaultPlace::evaluation, "evaluation", ExitCode::internal_error},
                            PlaceWord{FaultPlace::memory, "memory", ExitCode::internal_error}};
constexpr std::array<std::string_view, 9> actions = {"fail", "throw", "stall", "kill", "stop",
                                                     "flip", "nan",   "spike", "grow"};

// An element of fp32, or two of bf16, of which the second is the same number.
using Element = std::array<std::byte, 4>;
constexpr Element not_a_number{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}};
constexpr Element two_to_20{std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x49}};

struct Fault {
  std::string action;
  PlaceWord place{};
  std::int64_t rank = 0;
  std::int64_t step = 0;
};

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == ':') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

bool read(const std::string& text, std::int64_t& number) {
  const char* end = text.data() + text.size();
  return std::from_chars(text.data(), end, number).ptr == end && !text.empty();
}

std::optional<Fault> requested_fault() {
  const char* text = std::getenv("LLMTRAIN_FAULT");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::vector<std::string> parts = parts_of(text);
  Fault fault;
  const auto place =
      std::ranges::find_if(places, [&](const PlaceWord& each) { return parts.size() > 1 && each.word == parts[1]; });
  if (parts.size() != 4 || std::ranges::count(actions, parts[0]) == 0 || place == places.end() ||
      !read(parts[2], fault.rank) || !read(parts[3], fault.step))
    throw Error(ExitCode::bad_recipe,
                fmt::format("LLMTRAIN_FAULT: \"{}\"; it must be ACTION:PLACE:RANK:STEP with one "
                            "of fail, throw, stall, kill, stop, flip, nan, spike, grow, and a place of FaultPlace",
                            text));
  fault.action = parts[0];
  fault.place = *place;
  return fault;
}

// Returns whether the action is one that changes memory.
bool change(std::string_view action, std::span<std::byte> memory) {
  if (action == "flip") {
    if (!memory.empty()) memory.front() ^= std::byte{1};
    return true;
  }
  if (action == "grow") return true;
  if (action != "nan" && action != "spike") return false;
  if (memory.size() >= sizeof(Element)) std::ranges::copy(action == "nan" ? not_a_number : two_to_20, memory.begin());
  return true;
}

// Returns when the thread that receives signals has received it.
void ask_to_stop() {
  ::kill(::getpid(), SIGTERM);
  sigset_t pending{};
  do {
    ::usleep(10'000);
    ::sigpending(&pending);
  } while (::sigismember(&pending, SIGTERM) == 1);
}

// The requested fault if it is one of this place and rank; null if not.
const Fault* fault_of(FaultPlace place, std::int64_t rank) {
  static const std::optional<Fault> fault = requested_fault();
  return fault && fault->place.place == place && fault->rank == rank ? &*fault : nullptr;
}

const Fault* fault_at(FaultPlace place, std::int64_t rank, std::int64_t step) {
  const Fault* const fault = fault_of(place, rank);
  return fault != nullptr && fault->step == step ? fault : nullptr;
}

}  // namespace

bool has_fault(FaultPlace place, std::int64_t rank, std::int64_t step) {
  return fault_at(place, rank, step) != nullptr;
}

bool has_grown(std::int64_t rank, std::int64_t step) {
  const Fault* const fault = fault_of(FaultPlace::memory, rank);
  return fault != nullptr && fault->action == "grow" && fault->step <= step;
}

void fault_point(FaultPlace place, std::int64_t rank, std::int64_t step, std::span<std::byte> memory) {
  const Fault* const fault = fault_at(place, rank, step);
  if (fault == nullptr) return;
  const std::string said = fmt::format("fault on demand: {} at step {}", fault->place.word, step);
  if (fault->action == "fail") throw Error(fault->place.code, said);
  if (fault->action == "throw") throw std::runtime_error(said);
  if (fault->action == "kill") ::kill(::getpid(), SIGKILL);
  if (fault->action == "stop") return ask_to_stop();
  if (change(fault->action, memory)) return;
  while (true) ::pause();
}

}  // namespace llmtrain
