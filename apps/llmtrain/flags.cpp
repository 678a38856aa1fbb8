// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/flags.h"

#include <cmath>

namespace llmtrain::app {

void add_set_flag(CLI::App& command, std::vector<Override>& overrides) {
  command.add_option("--set", overrides, "Changes a key of the recipe, as in batch.micro=4; repeatable")
      ->type_name("KEY=JSON")
      ->allow_extra_args(false);
}

Override text_override(const std::string& pointer_path, const std::string& text) {
  try {
    return pointer_path + "=" + nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return pointer_path + "=" + text;  // not UTF-8, which the recipe's reader refuses
  }
}

CLI::Validator not_negative() {
  const auto check = [](const std::string& text) {
    double value = 0;
    const bool valid = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0;
    return valid ? std::string() : "\"" + text + "\" is not a number of at least 0";
  };
  return {check, "", "not_negative"};
}

}  // namespace llmtrain::app
