// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/byte_tokenizer.h"

namespace llmtrain {
namespace {

class ByteEncoder final : public TextEncoder {
 public:
  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    // char may be signed: bytes from 0x80 on would become negative ids.
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
};

}  // namespace

std::unique_ptr<TextEncoder> ByteTokenizer::make_encoder() const { return std::make_unique<ByteEncoder>(); }

std::string ByteTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < vocab_size()) {
      text.push_back(static_cast<char>(id));
    } else {
      text.append(replacement_character);
    }
  }
  return text;
}

}  // namespace llmtrain
