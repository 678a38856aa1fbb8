// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

#include <openssl/evp.h>

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

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (state_->context == nullptr || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    throw Error(ExitCode::internal_error, "OpenSSL offers no SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }

void Sha256::update(const void* bytes, std::size_t count) { EVP_DigestUpdate(state_->context, bytes, count); }

std::string Sha256::hexadecimal() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

}  // namespace llmtrain
