// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/decoders/decoder_steps.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/tokenizer/pieces/byte_level.h"

namespace llmtrain {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string result;
  for (std::size_t found = 0; (found = text.find(from)) != std::string_view::npos;
       text.remove_prefix(found + from.size()))
    result.append(text.substr(0, found)).append(to);
  return result.append(text);
}

// The byte of a token such as <0x0A>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, byte, 16);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string without_artifacts(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> artifacts[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : artifacts)
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  return text;
}

}  // namespace

void EndsWords::apply(TextParts& parts, DecodedPlace /*place*/) const {
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = replaced(parts[i], suffix_, i + 1 == parts.size() ? "" : " ");
}

void FallsBackToBytes::apply(TextParts& parts, DecodedPlace /*place*/) const {
  // Bytes in a row are one part.
  TextParts result;
  bool is_after_byte = false;
  for (std::string& part : parts) {
    const auto byte = byte_of(part);
    if (byte && is_after_byte) {
      result.back().push_back(*byte);
    } else if (byte) {
      result.emplace_back(1, *byte);
    } else {
      result.push_back(std::move(part));
    }
    is_after_byte = byte.has_value();
  }
  parts = std::move(result);
}

void ReadsBytes::apply(TextParts& parts, DecodedPlace place) const {
  for (std::string& part : parts)
    if (auto bytes = bytes_of_token(part)) part = std::move(*bytes);
  Fuses().apply(parts, place);
}

void Fuses::apply(TextParts& parts, DecodedPlace /*place*/) const {
  std::string whole;
  for (const std::string& part : parts) whole += part;
  parts.clear();
  parts.push_back(std::move(whole));
}

ReadsMetaspace::ReadsMetaspace(const JsonFields& section)
    : mark_(section.text("replacement")),
      drops_first_(section.flag("add_prefix_space", true) &&
                   (!section.has("prepend_scheme") || section.text("prepend_scheme") != "never")) {
  if (mark_.empty()) section.section("replacement").fail("is empty");
}

void ReadsMetaspace::apply(TextParts& parts, DecodedPlace place) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_first = i == 0 && place == DecodedPlace::beginning;
    parts[i] = replaced(parts[i], mark_, is_first && drops_first_ ? "" : " ");
  }
}

void ReplacesText::apply(TextParts& parts, DecodedPlace /*place*/) const {
  for (std::string& part : parts) part = replacement_.replaced(part);
}

StripsParts::StripsParts(const JsonFields& section, bool is_joined)
    : content_(section.text("content")),
      start_(static_cast<std::size_t>(section.whole_number("start"))),
      stop_(static_cast<std::size_t>(section.whole_number("stop"))),
      is_joined_(is_joined) {
  if (content_.empty()) section.section("content").fail("is empty");
}

void StripsParts::apply(TextParts& parts, DecodedPlace place) const {
  const bool has_beginning = !is_joined_ || place == DecodedPlace::beginning;
  for (std::string& part : parts) {
    std::string_view rest = part;
    for (std::size_t i = 0; has_beginning && i < start_ && rest.starts_with(content_); ++i)
      rest.remove_prefix(content_.size());
    for (std::size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
    part = std::string(rest);
  }
}

JoinsWordPieces::JoinsWordPieces(const JsonFields& section)
    : prefix_(section.text("prefix")), cleans_up_(section.flag("cleanup", true)) {}

void JoinsWordPieces::apply(TextParts& parts, DecodedPlace place) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 || place == DecodedPlace::continuation) {
      if (parts[i].starts_with(prefix_)) {
        parts[i].erase(0, prefix_.size());
      } else {
        parts[i].insert(0, 1, ' ');
      }
    }
    if (cleans_up_) parts[i] = without_artifacts(std::move(parts[i]));
  }
}

}  // namespace llmtrain
