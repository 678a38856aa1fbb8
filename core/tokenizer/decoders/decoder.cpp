// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/decoders/decoder.h"

#include <utility>

#include "core/tokenizer/decoders/decoder_steps.h"

namespace llmtrain {

TextDecoder TextDecoder::of_bytes() {
  TextDecoder decoder;
  decoder.joins_with_spaces_ = false;
  decoder.begins_with_bytes_ = true;
  decoder.is_joined_ = true;
  return decoder;
}

TextDecoder::TextDecoder(const JsonFields& section) : joins_with_spaces_(false) {
  if (section.text("type") != "Sequence") {
    add(section);
    return;
  }
  const JsonFields steps = section.section("decoders");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps.element(i).text("type") == "Sequence") steps.element(i).fail("a Sequence within one is not supported");
    add(steps.element(i));
  }
}

void TextDecoder::add(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "BPEDecoder") {
    steps_.push_back(std::make_shared<EndsWords>(section.text("suffix")));
  } else if (kind == "ByteFallback") {
    steps_.push_back(std::make_shared<FallsBackToBytes>());
  } else if (kind == "ByteLevel") {
    if (steps_.empty() && !begins_with_bytes_) {
      begins_with_bytes_ = true;
      steps_.push_back(std::make_shared<Fuses>());
    } else {
      steps_.push_back(std::make_shared<ReadsBytes>());
    }
    is_joined_ = true;
  } else if (kind == "Fuse") {
    steps_.push_back(std::make_shared<Fuses>());
    is_joined_ = true;
  } else if (kind == "Metaspace") {
    steps_.push_back(std::make_shared<ReadsMetaspace>(section));
  } else if (kind == "Replace") {
    steps_.push_back(std::make_shared<ReplacesText>(TextReplacement(section)));
  } else if (kind == "Strip") {
    steps_.push_back(std::make_shared<StripsParts>(section, is_joined_));
  } else if (kind == "WordPiece") {
    steps_.push_back(std::make_shared<JoinsWordPieces>(section));
  } else {
    section.fail("\"" + kind +
                 "\" is not supported; supported are BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, "
                 "Sequence, Strip and WordPiece");
  }
}

std::string TextDecoder::decode(std::vector<std::string> tokens, DecodedPlace place) const {
  for (const auto& step : steps_) step->apply(tokens, place);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (joins_with_spaces_ && (i > 0 || place == DecodedPlace::continuation)) text.push_back(' ');
    text += tokens[i];
  }
  return text;
}

}  // namespace llmtrain
