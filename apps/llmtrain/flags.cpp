// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/flags.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>

namespace llmtrain::app {
namespace {

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// CLI11 would accept a number beyond 64 bits as the largest one, and "nan" as above any minimum.
template <class Number, class Rule>
CLI::Validator numbers(const std::string& rule_words, Rule rule) {
  const auto check = [rule_words, rule](const std::string& text) {
    const auto value = number_in<Number>(text);
    return value && rule(*value) ? std::string() : "\"" + text + "\" is not " + rule_words;
  };
  return {check, "", ""};
}

}  // namespace

void add_set_flag(CLI::App& command, std::vector<Override>& overrides) {
  command.add_option("--set", overrides, "Override a key of the recipe, as in batch.micro=4; repeatable")
      ->type_name("KEY=JSON")
      // One value per flag, or the recipe after it would be taken as another one.
      ->allow_extra_args(false);
}

Override text_override(const std::string& pointer_path, const std::string& text) {
  try {
    return pointer_path + "=" + nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return pointer_path + "=" + text;  // not UTF-8; the recipe's reader refuses it
  }
}

CLI::Validator not_negative() {
  return numbers<double>("a number of at least 0", [](double value) { return std::isfinite(value) && value >= 0; });
}

CLI::Validator whole_number() {
  return numbers<std::int64_t>("a whole number", [](std::int64_t) { return true; });
}

CLI::Validator whole_number_not_negative() {
  return numbers<std::int64_t>("a whole number of at least 0", [](std::int64_t value) { return value >= 0; });
}

}  // namespace llmtrain::app
