// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace llmtrain {

// FNV-1a, 64 bits: a stable key from a name (weights' random streams, dropout sites). Not for integrity.
std::uint64_t stable_hash(std::string_view text) noexcept;

// A hash of memory at the speed of reading it. It differs for certain from that of the same memory with one changed
// bit, and otherwise by all but one chance in 2⁶⁴. Not for integrity against people, nor for files. `seed`: the hash of
// what comes before.
std::uint64_t memory_hash(const void* memory, std::size_t bytes, std::uint64_t seed = 0) noexcept;

// SHA-256 of bytes that arrive piece by piece.
class Sha256 {
 public:
  Sha256();

  void update(const void* bytes, std::size_t count);
  std::string hexadecimal();  // 64 digits; call once, at the end

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// SHA-256 of a text, 64 hexadecimal digits.
std::string sha256_of(std::string_view text);

}  // namespace llmtrain
