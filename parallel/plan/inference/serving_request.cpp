// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/serving_request.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr std::int64_t most_tokens = 1 << 24, most_devices = 1 << 20, most_passes = 1 << 16;
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

// A key: what it takes, in words, and a function that sets it, or says no.
struct RequestKey {
  std::string_view name;
  std::string values;
  std::function<bool(ServingRequest&, std::string_view)> set;
};

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most) return std::nullopt;
  return value;
}

template <class Member>
RequestKey number_key(std::string_view name, std::int64_t most, Member member) {
  return {name, fmt::format("a whole number from 1 to {}", most), [=](ServingRequest& request, std::string_view text) {
            const auto value = whole_number(text, most);
            if (value) member(request) = *value;
            return value.has_value();
          }};
}

template <class Member>
RequestKey open_number_key(std::string_view name, Member member) {
  return {name, fmt::format("\"auto\" or a whole number from 1 to {}", most_devices),
          [=](ServingRequest& request, std::string_view text) {
            const auto value = whole_number(text, most_devices);
            if (value || text == "auto") member(request) = value;
            return value || text == "auto";
          }};
}

template <class Member>
RequestKey word_key(std::string_view name, std::span<const std::string_view> words, Member member) {
  return {name, fmt::format("one of {}", fmt::join(words, ", ")), [=](ServingRequest& request, std::string_view text) {
            const auto found = std::ranges::find(words, text);
            if (found == words.end()) return false;
            auto& field = member(request);
            field = static_cast<std::remove_reference_t<decltype(field)>>(found - words.begin());
            return true;
          }};
}

// "4294967296", "4GiB".
std::optional<std::int64_t> byte_count(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, int>, 4> units{{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  int shift = 0;
  for (const auto& [unit, bits] : units)
    if (text.ends_with(unit)) {
      shift = bits;
      text.remove_suffix(unit.size());
      break;
    }
  const auto value = whole_number(text, most_bytes >> shift);
  return value ? std::optional(*value << shift) : std::nullopt;
}

const std::vector<RequestKey>& request_keys() {
  using Request = ServingRequest;
  static const std::vector<RequestKey> keys{
      number_key(
          "batch", most_devices, [](Request & request) -> auto& { return request.batch; }),
      number_key(
          "prompt", most_tokens, [](Request & request) -> auto& { return request.prompt; }),
      number_key(
          "generated", most_tokens, [](Request & request) -> auto& { return request.generated; }),
      word_key(
          "batching", batching_words, [](Request & request) -> auto& { return request.batching; }),
      number_key(
          "wait_passes", most_passes, [](Request & request) -> auto& { return request.wait_passes; }),
      word_key(
          "weights", served_type_words, [](Request & request) -> auto& { return request.weights; }),
      word_key(
          "cache", std::span(served_type_words).first(3), [](Request & request) -> auto& { return request.cache; }),
      open_number_key(
          "devices", [](Request & request) -> auto& { return request.devices; }),
      open_number_key(
          "x", [](Request & request) -> auto& { return request.axes.x; }),
      open_number_key(
          "y", [](Request & request) -> auto& { return request.axes.y; }),
      open_number_key(
          "z", [](Request & request) -> auto& { return request.axes.z; }),
      word_key(
          "prefill.weights", weight_layout_words, [](Request & request) -> auto& { return request.prefill.weights; }),
      word_key(
          "prefill.attention", attention_layout_words,
          [](Request & request) -> auto& { return request.prefill.attention; }),
      word_key(
          "decode.weights", weight_layout_words, [](Request & request) -> auto& { return request.decode.weights; }),
      word_key(
          "decode.attention", attention_layout_words,
          [](Request & request) -> auto& { return request.decode.attention; }),
      word_key(
          "experts", expert_layout_words, [](Request & request) -> auto& { return request.experts; }),
      word_key(
          "weights_from", weights_place_words, [](Request & request) -> auto& { return request.weights_from; }),
      {"weight_memory", "a number of bytes, as 4GiB, or \"least\"", [](Request& request, std::string_view text) {
         const std::optional<std::int64_t> bytes = text == "least" ? 0 : byte_count(text);
         request.weight_memory = bytes.value_or(0);
         return bytes.has_value();
       }}};
  return keys;
}

void set_key(std::string_view flag, std::string_view text, ServingRequest& request) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto& keys = request_keys();
  const auto key = std::ranges::find(keys, name, &RequestKey::name);
  if (equals == std::string_view::npos || key == keys.end()) {
    std::vector<std::string_view> names;
    for (const RequestKey& each : keys) names.push_back(each.name);
    throw Error(ExitCode::bad_recipe,
                fmt::format("{} {}: must be KEY=VALUE, of the keys {}", flag, text, fmt::join(names, ", ")));
  }
  if (!key->set(request, text.substr(equals + 1)))
    throw Error(ExitCode::bad_recipe, fmt::format("{} {}: {} must be {}", flag, text, name, key->values));
}

}  // namespace

std::vector<std::string_view> comma_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

ServingRequest parse_request(std::string_view flag, std::span<const std::string> texts) {
  ServingRequest request;
  for (const std::string_view text : texts)
    for (const std::string_view part : comma_parts(text)) set_key(flag, part, request);
  return request;
}

}  // namespace llmtrain
