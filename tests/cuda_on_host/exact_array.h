// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

namespace llmtrain::test {

// Memory for a kernel that ends exactly behind its last element, aligned to 16 bytes: the address sanitizer sees what
// is used beyond it, and without one has_overrun() sees what is written there.
template <class T>
class ExactArray {
 public:
  explicit ExactArray(std::size_t count, T value = {}) : bytes_(count * sizeof(T)) {
    void* memory = nullptr;
    if (::posix_memalign(&memory, 16, bytes_ + guard_bytes) != 0) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
    for (std::size_t i = 0; i < count; ++i) data_[i] = value;
    std::memset(end(), guard, guard_bytes);
  }
  ~ExactArray() { std::free(data_); }
  ExactArray(const ExactArray&) = delete;  // a kernel keeps its address
  ExactArray& operator=(const ExactArray&) = delete;

  T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }

  bool has_overrun() const {
    for (std::size_t i = 0; i < guard_bytes; ++i)
      if (end()[i] != guard) return true;
    return false;
  }

 private:
#ifdef CUDA_ON_HOST_ADDRESS
  static constexpr std::size_t guard_bytes = 0;
#else
  static constexpr std::size_t guard_bytes = 64;
#endif
  static constexpr unsigned char guard = 0xA5;

  unsigned char* end() const { return reinterpret_cast<unsigned char*>(data_) + bytes_; }

  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace llmtrain::test
