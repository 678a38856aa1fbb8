// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/emulator/device/settings.h"

namespace emulated {
namespace {

constexpr int read_and_write = PROT_READ | PROT_WRITE;

char* map(int rights, int flags, int file) {
  void* const base = mmap(nullptr, Arena::bytes, rights, flags | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) throw std::runtime_error("there are no addresses for an emulated device");
  return static_cast<char*>(base);
}

}  // namespace

MemoryProtection::MemoryProtection() {
  const std::string& wish = settings().protection;
  if (wish.empty() || wish == "keys") key_ = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  kind_ = key_ >= 0 ? Protection::keys : wish == "none" ? Protection::none : Protection::alias;
}

const char* MemoryProtection::name() const {
  switch (kind_) {
    case Protection::keys:
      return "keys";
    case Protection::alias:
      return "alias";
    case Protection::none:
      return "none";
  }
  return "";
}

Arena MemoryProtection::make_pinned_arena() const {
  Arena made;
  if (kind_ != Protection::alias) {
    made.base = map(read_and_write, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return made;
  }
  const int file = memfd_create("emulated", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(Arena::bytes)) != 0)
    throw std::runtime_error("there is no memory for an emulated device");
  made.base = map(PROT_NONE, MAP_SHARED, file);
  made.to_alias = map(read_and_write, MAP_SHARED, file) - made.base;
  close(file);
  return made;
}

Arena MemoryProtection::make_device_arena() const {
  const Arena made = make_pinned_arena();
  if (kind_ == Protection::keys) pkey_mprotect(made.base, Arena::bytes, read_and_write, key_);
  return made;
}

void MemoryProtection::admit_this_thread() const {
  if (kind_ == Protection::keys) pkey_set(key_, 0);
}

void MemoryProtection::dismiss_this_thread() const {
  if (kind_ == Protection::keys) pkey_set(key_, PKEY_DISABLE_ACCESS);
}

void MemoryProtection::set_host_rights(const char* begin, std::size_t bytes, HostMay rights) const {
  auto* const address = const_cast<char*>(begin);
  const int flags = rights == HostMay::nothing ? PROT_NONE : rights == HostMay::read ? PROT_READ : read_and_write;
  if (kind_ == Protection::alias) mprotect(address, bytes, flags);
  if (kind_ != Protection::keys) return;
  if (rights == HostMay::nothing)
    pkey_mprotect(address, bytes, read_and_write, key_);  // the streams' threads may still write
  else
    pkey_mprotect(address, bytes, flags, 0);
}

}  // namespace emulated
