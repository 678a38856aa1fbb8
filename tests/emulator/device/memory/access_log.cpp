// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/access_log.h"

namespace emulated {
namespace {

std::string text_of(const Record& r, const char* who) {
  return *r.name + (r.is_write ? " writes" : " reads") + " on stream " + std::to_string(r.timeline) + who;
}

}  // namespace

std::string AccessLog::add(const Record& own, const Clock& clock, const Clock& host) {
  std::string race;
  const auto is_before = [&](const Record& r) { return r.time <= clock.at(r.timeline); };
  for (const Record& r : records_) {
    const bool overlaps = r.begin < own.end && own.begin < r.end;
    if (overlaps && (r.is_write || own.is_write) && !is_before(r))
      race = "race: " + text_of(own, " what ") + text_of(r, ", and no event orders them");
  }
  // What is ordered before an access that covers it races with nothing that this one does not race with.
  std::erase_if(records_, [&](const Record& r) {
    const bool is_inside = own.begin <= r.begin && r.end <= own.end;
    return is_inside && is_before(r) && (own.is_write || (!r.is_write && r.timeline == own.timeline));
  });
  records_.push_back(own);
  last_name_ = own.name;
  if (records_.size() > limit_) forget_what(host);
  return race;
}

// Parts of a large block may be read for ever without a write that covers them.
void AccessLog::forget_what(const Clock& host) {
  std::erase_if(records_, [&](const Record& r) { return r.time <= host.at(r.timeline); });
  limit_ = std::max<std::size_t>(32, 2 * records_.size());
}

}  // namespace emulated
