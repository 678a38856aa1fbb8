// SPDX-License-Identifier: Apache-2.0
// Addresses of devices and of pinned memory, and who may use them. All of it but make_arena() may be called by any
// thread at any time.
#pragma once

#include <cstddef>
#include <string>

namespace emulated {

// How memory of the device is closed to the host's threads: rights by memory protection key, which each thread has of
// its own; a second mapping, which streams alone use while the first is closed; or not at all.
enum class Protection { keys, alias, none };

// A range of addresses; memory appears behind those that are used.
struct Arena {
  static constexpr std::size_t bytes = std::size_t{64} << 30;

  char* base = nullptr;
  std::ptrdiff_t to_alias = 0;  // from an address to where streams find the same memory

  bool contains(const void* address) const { return address >= base && address < base + bytes; }
};

class MemoryProtection {
 public:
  // By settings().protection. Throws std::runtime_error if there are no addresses.
  MemoryProtection();

  Protection kind() const { return kind_; }
  const char* name() const;
  Arena make_device_arena() const;
  Arena make_pinned_arena() const;

  // Whether the calling thread may use device memory through reachable().
  void admit_this_thread() const;
  void dismiss_this_thread() const;

  enum class HostMay { nothing, read, all };
  // What the host may do with whole pages of pinned memory.
  void set_host_rights(const char* begin, std::size_t bytes, HostMay rights) const;

 private:
  Protection kind_ = Protection::none;
  int key_ = -1;
};

}  // namespace emulated
