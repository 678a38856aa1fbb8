// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/price.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "apps/llmtrain/flags.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

}  // namespace

std::vector<Override> price_overrides(std::string_view price) {
  const std::string_view from_number = price.substr(std::min(price.size(), price.find_first_of("-.0123456789")));
  double number = 0;
  const auto [end, failure] = std::from_chars(from_number.data(), from_number.data() + from_number.size(), number);
  const auto digits = static_cast<std::size_t>(end - from_number.data());
  const auto before = trimmed(price.substr(0, price.size() - from_number.size()));
  const auto after = trimmed(from_number.substr(digits));
  if (failure != std::errc() || (!before.empty() && !after.empty()))
    throw Error(ExitCode::bad_recipe,
                fmt::format("--price {}: must be the price of a device for an hour, as 2.5 or \"2.5 EUR\"", price));
  std::vector<Override> overrides = {fmt::format("cluster.price_per_device_hour={}", number)};
  if (const auto currency = before.empty() ? after : before; !currency.empty())
    overrides.push_back(text_override("cluster.currency", std::string(currency)));
  return overrides;
}

}  // namespace llmtrain::app
