// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

#include <openssl/evp.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <array>

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

}  // namespace llmtrain
