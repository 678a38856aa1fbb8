// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <string>

#include "tests/cuda_on_host/machine/machine.h"

namespace cuda_on_host {
namespace {

std::string state_of(const Fiber& fiber) {
  if (fiber.has_ended) return "have ended";
  std::string text = std::string("wait at ") + fiber.waits_for + ", " + text_of(fiber.place);
  if (fiber.mask == 0) return text;
  std::array<char, 16> mask{};
  std::snprintf(mask.data(), mask.size(), "%08x", fiber.mask);
  return text + ", mask " + mask.data();
}

std::string line_of(std::size_t first, std::size_t last, const std::string& state) {
  const std::string threads = std::to_string(first) + (last > first ? " to " + std::to_string(last) : "");
  return "\n  threads " + threads + " " + state;
}

}  // namespace

std::string text_of(const Place& place) {
  const std::string path = place.file;
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(place.line);
}

std::string description_of_deadlock() {
  std::string text = "block " + std::to_string(block_index.x) + " cannot go on:";
  const auto& threads = machine.of_thread;
  for (std::size_t first = 0, i = 1; i <= threads.size(); ++i) {
    const std::string state = state_of(*threads[first]);
    if (i < threads.size() && state_of(*threads[i]) == state) continue;
    text += line_of(first, i - 1, state);
    first = i;
  }
  return text;
}

}  // namespace cuda_on_host
