// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/counters.h"

#include <cstdio>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/settings.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

constexpr std::size_t most_reports = 100;

thread_local int forbidding = 0;

// Has a mutex of its own, because the threads of streams count operators.
struct Named {
  std::mutex mutex;
  NamedCounts counts;
};
Named& named() {
  static auto* const instance = new Named;
  return *instance;
}

}  // namespace

Counters& counters(int device) {
  const std::lock_guard lock(world().mutex);
  Device& d = world().device(device);
  Counters& c = d.counters;
  for (const std::string& overrun : d.errors.take_overruns()) {
    ++c.overruns;
    if (c.reports.size() < most_reports) c.reports.push_back(overrun);
  }
  return c;
}

void count(int device, std::int64_t Counters::*what, std::int64_t amount) {
  const std::lock_guard lock(world().mutex);
  world().device(device).counters.*what += amount;
}

NamedCounts named_counts() {
  const std::lock_guard lock(named().mutex);
  return named().counts;
}

void count(const std::string& group, const std::string& name, std::int64_t amount) {
  const std::lock_guard lock(named().mutex);
  named().counts[group][name] += amount;
}

NoSynchronisation::NoSynchronisation() { ++forbidding; }
NoSynchronisation::~NoSynchronisation() { --forbidding; }

void note_race(int device, const std::string& race) {
  Counters& c = world().device(device).counters;
  ++c.races;
  if (c.reports.size() < most_reports) c.reports.push_back(race);
  if (settings().throws) throw Fault(race);
  if (c.races <= 20) std::fprintf(stderr, "emulated: %s\n", race.c_str());
}

void count_wait(int device, const std::string& why) {
  if (is_capturing()) throw Fault("synchronisation while a graph is captured: " + why);
  if (forbidding > 0) throw Fault("forbidden synchronisation: " + why);
  Counters& c = world().device(device).counters;
  ++c.synchronisations;
  ++c.waits[why];
}

}  // namespace emulated
