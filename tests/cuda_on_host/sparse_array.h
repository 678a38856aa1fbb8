// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace llmtrain::test {

// Zeros of which only pages that are written take memory: more than the machine has.
template <class T>
class SparseArray {
 public:
  explicit SparseArray(std::size_t count)
      : bytes_(count * sizeof(T)),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~SparseArray() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  SparseArray(SparseArray&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;
  SparseArray& operator=(SparseArray&&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace llmtrain::test
