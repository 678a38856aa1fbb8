// SPDX-License-Identifier: Apache-2.0
#include "tests/core/data/small_tokenizer.h"

#include <string>

namespace llmtrain::test {
namespace {

std::string utf8(int character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace

nlohmann::json small_tokenizer() {
  nlohmann::json vocabulary;
  // bytes_to_unicode() of GPT-2's encoder.py, written anew.
  int other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    vocabulary[utf8(is_visible ? byte : other++)] = byte;
  }
  vocabulary["th"] = 256;
  vocabulary["the"] = 257;
  vocabulary["\u0120the"] = 258;
  vocabulary["\u010a\u010a"] = 259;
  const nlohmann::json end = {{"id", 260}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}};
  return {
      {"added_tokens", {end}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h", "th e", "\u0120 the", "\u010a \u010a"}}}}};
}

}  // namespace llmtrain::test
