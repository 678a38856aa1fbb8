// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/emulator/device/vector_clock.h"

namespace emulated {

// An operation's access to memory, at its stream's time.
struct Record {
  const char* begin;
  const char* end;
  std::size_t timeline;
  std::uint64_t time;
  bool is_write;
  const std::string* name;  // of the operation; lives as long as the process
};

// What has accessed one block of memory, as far as a later access may race with it.
class AccessLog {
 public:
  // `clock`: what the access is ordered after; `host`: what the host has waited for. Returns a sentence if an earlier
  // access is ordered neither before nor after this one and one of the two writes, else an empty text.
  std::string add(const Record& own, const Clock& clock, const Clock& host);

  std::size_t size() const { return records_.size(); }
  const std::string* last_name() const { return last_name_; }  // nullptr: nothing has used the block
  void clear() { records_.clear(); }

 private:
  void forget_what(const Clock& host);

  std::vector<Record> records_;
  std::size_t limit_ = 32;
  const std::string* last_name_ = nullptr;
};

}  // namespace emulated
