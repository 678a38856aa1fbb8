// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/emulator/device/settings.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_leaks = 100;  // that are listed; all are counted

std::int64_t wait_until_idle() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::vector<Stream*> streams;
  {
    const std::lock_guard lock(world().mutex);
    streams = world().streams;
  }
  const auto is_busy = [](Stream* stream) { return stream != nullptr && !is_idle(stream); };
  std::int64_t busy = 0;
  while ((busy = std::count_if(streams.begin(), streams.end(), is_busy)) > 0 &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return busy;
}

template <class Blocks, class Describe>
Json leaks_of(const Blocks& blocks, const Describe& describe) {
  Json result = {{"blocks", 0}, {"bytes", 0}, {"list", Json::array()}};
  for (const auto& [begin, block] : blocks) {
    if (block.is_free) continue;
    result["blocks"] = result["blocks"].template get<std::int64_t>() + 1;
    result["bytes"] = result["bytes"].template get<std::size_t>() + block.bytes;
    if (result["list"].size() >= most_leaks) continue;
    Json leak = describe(block);
    const std::string* const name = block.accesses.last_name();
    leak["last_use"] = name != nullptr ? *name : "";
    result["list"].push_back(std::move(leak));
  }
  return result;
}

Json device_json(int index) {
  check_guard_zones(index);
  const Counters& c = counters(index);
  const Json leaks = leaks_of(world().device(index).blocks, [](const Block& block) {
    return Json{{"bytes", block.requested}, {"allocation", block.number}};
  });
  return {{"device", index},
          {"launches", c.launches},
          {"allocations", c.allocations},
          {"growths", c.growths},
          {"synchronisations", c.synchronisations},
          {"waits", c.waits},
          {"item_reads", c.item_reads},
          {"pageable_copies", c.pageable_copies},
          {"bytes_to_device", c.bytes_to_device},
          {"bytes_to_host", c.bytes_to_host},
          {"allocated", c.allocated},
          {"peak", c.peak},
          {"reserved", c.reserved},
          {"races", c.races},
          {"overruns", c.overruns},
          {"reports", c.reports},
          {"streams", {{"created", c.streams}, {"destroyed", c.streams_destroyed}}},
          {"leaks", leaks}};
}

Json pinned_json() {
  const PinnedCounters c = pinned_counters();
  return {{"allocations", c.allocations},
          {"growths", c.growths},
          {"allocated", c.allocated},
          {"peak", c.peak},
          {"reserved", c.reserved},
          {"leaks", leaks_of(world().pinned_blocks, [](const PinnedBlock& block) {
             return Json{{"bytes", block.bytes}};
           })}};
}

Json report_json() {
  const std::int64_t busy = wait_until_idle();
  const std::lock_guard lock(world().mutex);
  Json devices = Json::array();
  for (int d = 0; d < static_cast<int>(world().devices.size()); ++d) devices.push_back(device_json(d));
  Json result = {{"process", getpid()}, {"busy_streams", busy}, {"devices", devices}, {"pinned", pinned_json()}};
  for (const auto& [group, counts] : named_counts()) result[group] = counts;
  return result;
}

void print_device(int index) {
  const Counters& c = counters(index);
  if (c.launches == 0) return;
  std::fprintf(
      stderr,
      "device %d: %ld launches, %ld allocations (%ld new), peak %ld, %ld waits (%ld item), %ld pageable copies, "
      "%ld bytes in, %ld out, %ld races\n",
      index, c.launches, c.allocations, c.growths, c.peak, c.synchronisations, c.item_reads, c.pageable_copies,
      c.bytes_to_device, c.bytes_to_host, c.races);
  for (const auto& [why, count] : c.waits) std::fprintf(stderr, "  waited for %s: %ld\n", why.c_str(), count);
}

void print_summary() {
  for (int d = 0; d < static_cast<int>(world().devices.size()); ++d) print_device(d);
  for (const auto& [group, counts] : named_counts())
    for (const auto& [name, count] : counts) std::fprintf(stderr, "  %s: %s %ld\n", group.c_str(), name.c_str(), count);
}

}  // namespace

std::string report_text() { return report_json().dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

void write_report() {
  const Settings& s = settings();
  if (!s.report_file.empty()) std::ofstream(s.report_file + "." + std::to_string(getpid())) << report_text();
  if (s.summary) print_summary();
}

}  // namespace emulated
