// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

#include <openssl/evp.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace llmtrain {

std::uint64_t stable_hash(std::string_view text) noexcept {
  // FNV-1a's offset basis and prime: the values are part of every run's random streams and must never change.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char character : text) {
    hash ^= static_cast<unsigned char>(character);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

std::uint64_t memory_hash(const void* memory, std::size_t bytes, std::uint64_t seed) noexcept {
  // Xor with a word and multiplication by an odd number can both be undone: with all other words given, a lane's end
  // follows one to one from each word. Four lanes, because one would wait for its multiplications.
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  constexpr std::size_t word = sizeof(std::uint64_t), lanes = 4;
  std::array<std::uint64_t, lanes> lane{seed, 1, 2, 3};
  const auto* next = static_cast<const char*>(memory);
  const auto mix = [&](std::size_t i, std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, next, count);
    lane[i] = (lane[i] ^ value) * odd;
    next += count;
  };
  for (; bytes >= lanes * word; bytes -= lanes * word)
    for (std::size_t i = 0; i < lanes; ++i) mix(i, word);
  for (std::size_t i = 0; bytes > 0; ++i) {
    const std::size_t count = std::min(bytes, word);
    mix(i, count);
    bytes -= count;
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t each : lane) hash = std::rotl((hash ^ each) * odd, 31);
  return hash;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
    throw Error(ExitCode::internal_error, "OpenSSL offers no SHA-256");
}

void Sha256::update(const void* bytes, std::size_t count) { EVP_DigestUpdate(context_.get(), bytes, count); }

std::string Sha256::hexadecimal() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hexadecimal();
}

}  // namespace llmtrain
