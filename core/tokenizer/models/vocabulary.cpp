// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/vocabulary.h"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <limits>

namespace llmtrain {

Vocabulary::Vocabulary(const JsonFields& section) {
  if (section.value().is_array()) {
    for (std::size_t i = 0; i < section.size(); ++i) {
      const auto& entry = section.element(i).value();
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        section.element(i).fail("is not a token with its score");
      const auto [place, is_new] = ids_.try_emplace(entry[0].get<std::string>(), static_cast<TokenId>(i));
      if (!is_new) repeated_.emplace_back(place->first, std::exchange(place->second, static_cast<TokenId>(i)));
    }
    return;
  }
  if (!section.value().is_object()) section.fail("is not an object of tokens and their ids");
  for (const auto& [token, value] : section.value().items()) {
    if (!value.is_number_integer() || value < 0 || value >= std::numeric_limits<TokenId>::max())
      JsonFields(section, value, token).fail("is not a whole number from 0 to 2147483646");
    const auto id = value.get<std::int64_t>();
    if (static_cast<std::size_t>(id) > section.value().size() + most_gaps)
      section.fail(fmt::format("has id {} among {} tokens", id, section.value().size()));
    ids_.emplace(token, static_cast<TokenId>(id));
  }
}

TokenId Vocabulary::named(const JsonFields& section, const char* key) const {
  const auto id = find(section.text(key));
  if (!id) section.section(key).fail("is not in /model/vocab");
  return *id;
}

std::string name_of_byte(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace llmtrain
