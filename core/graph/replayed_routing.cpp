// SPDX-License-Identifier: Apache-2.0
#include "core/graph/replayed_routing.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/graph/graph.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

ExpertShares zipf_shares(const MixtureOfExpertsRecipe& moe) {
  std::vector<double> weights;
  for (std::int64_t expert = 1; expert <= moe.experts; ++expert)
    weights.push_back(std::pow(static_cast<double>(expert), -*moe.routing_zipf));
  return shares_by_weight(weights, moe.top_k);
}

[[noreturn]] void refuse(const std::string& file, std::size_t line, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": line " + std::to_string(line) + " " + what +
                                      "; model.moe.routing_trace is the routing.jsonl of a run with log.routing");
}

// One line of a trace.
struct Entry {
  std::int64_t layer = 0;
  std::vector<double> chosen;
};

std::optional<Entry> parse(const std::string& line) {
  if (is_too_large_json(line)) return std::nullopt;
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("layer") || !row["layer"].is_number_integer()) return std::nullopt;
  const auto chosen = row.find("chosen");
  if (chosen == row.end() || !chosen->is_array()) return std::nullopt;
  Entry entry{row["layer"].get<std::int64_t>(), {}};
  for (const auto& count : *chosen) {
    if (!count.is_number() || count.get<double>() < 0) return std::nullopt;
    entry.chosen.push_back(count.get<double>());
  }
  return entry;
}

// The step whose largest share is the median of all steps' largest.
std::size_t median_step(const std::vector<ExpertShares>& steps) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto largest = [&](std::size_t step) { return *std::ranges::max_element(steps[step]); };
  std::ranges::stable_sort(order, {}, largest);
  return order[order.size() / 2];
}

std::vector<std::int64_t> prime_factors(std::int64_t number) {
  std::vector<std::int64_t> factors;
  for (std::int64_t factor = 2; factor * factor <= number; ++factor)
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  if (number > 1) factors.push_back(number);
  return factors;
}

}  // namespace

ExpertShares shares_by_weight(std::span<const double> weights, std::int64_t top_k) {
  ExpertShares shares(weights.size(), 0);
  std::vector<bool> is_full(weights.size(), false);
  auto left = static_cast<double>(top_k);
  // Each round fills experts to 1 and gives the others the rest by weight, until none is above 1.
  for (bool changed = true; changed;) {
    changed = false;
    double sum = 0, open = 0;
    for (std::size_t e = 0; e < weights.size(); ++e) {
      if (is_full[e]) continue;
      sum += weights[e];
      ++open;
    }
    for (std::size_t e = 0; e < weights.size(); ++e)
      if (!is_full[e]) shares[e] = sum > 0 ? left * (weights[e] / sum) : left / open;
    for (std::size_t e = 0; e < weights.size(); ++e) {
      if (is_full[e] || shares[e] <= 1) continue;
      shares[e] = 1;
      is_full[e] = changed = true;
    }
    left = static_cast<double>(top_k) - static_cast<double>(std::ranges::count(is_full, true));
  }
  return shares;
}

std::vector<std::int64_t> counts_by_share(const ExpertShares& shares, std::int64_t tokens, std::int64_t top_k) {
  // Shares of a recorded step are quotients of whole numbers, whose product with the tokens may end just below one.
  constexpr double rounding = 1e-6;
  std::vector<std::int64_t> counts;
  std::vector<double> remainders;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(tokens);
    counts.push_back(std::min(tokens, static_cast<std::int64_t>(std::floor(exact + rounding))));
    remainders.push_back(exact - static_cast<double>(counts.back()));
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t e) { return remainders[e]; });
  std::int64_t left = tokens * top_k - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    if (counts[order[i]] == tokens) continue;
    ++counts[order[i]];
    --left;
  }
  return counts;
}

ReplayedRouting::ReplayedRouting(const ModelRecipe& model) {
  if (model.moe->routing_zipf) {
    zipf_ = zipf_shares(*model.moe);
  } else {
    read_trace(model, *model.moe->routing_trace);
  }
}

void ReplayedRouting::read_trace(const ModelRecipe& model, const std::string& file) {
  if (!std::filesystem::exists(file))
    throw Error(ExitCode::missing_input, file + ": model.moe.routing_trace: there is no such file");
  const auto experts = static_cast<std::size_t>(model.moe->experts);
  const std::string text = read_file(file);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::optional<Entry> entry = parse(line);
    if (!entry) refuse(file, number, "has no \"layer\" and counts \"chosen\"");
    if (entry->layer < 0 || entry->layer >= model.layers || !has_experts(model, entry->layer))
      refuse(file, number, "is of layer " + std::to_string(entry->layer) + ", which has no experts here");
    if (entry->chosen.size() != experts)
      refuse(file, number,
             "counts " + std::to_string(entry->chosen.size()) + " experts, and model.moe.experts is " +
                 std::to_string(experts));
    traced_[entry->layer].push_back(shares_by_weight(entry->chosen, model.moe->top_k));
  }
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!has_experts(model, layer)) continue;
    if (!traced_.contains(layer)) refuse(file, number, "ends it without layer " + std::to_string(layer));
    typical_[layer] = median_step(traced_[layer]);
  }
}

const ExpertShares& ReplayedRouting::shares(std::int64_t layer, std::int64_t step) const {
  if (!zipf_.empty()) return zipf_;
  const std::vector<ExpertShares>& steps = traced_.at(layer);
  return steps[static_cast<std::size_t>(step) % steps.size()];
}

const ExpertShares& ReplayedRouting::typical_shares(std::int64_t layer) const {
  return zipf_.empty() ? traced_.at(layer)[typical_.at(layer)] : zipf_;
}

SpreadChoices::SpreadChoices(const ExpertShares& shares, std::int64_t tokens, std::int64_t top_k)
    : tokens_(tokens), radices_(prime_factors(tokens)) {
  const std::vector<std::int64_t> counts = counts_by_share(shares, tokens, top_k);
  ends_.resize(counts.size());
  std::partial_sum(counts.begin(), counts.end(), ends_.begin());
}

void SpreadChoices::choose(std::int64_t token, std::span<std::int64_t> experts) const {
  std::int64_t place = 0, rest = token, step = tokens_;
  for (const std::int64_t radix : radices_) {
    step /= radix;
    place += step * (rest % radix);
    rest /= radix;
  }
  const auto top_k = static_cast<std::int64_t>(experts.size());
  // Each expert is the first choice of some tokens, not of all or none: choices are turned by multiples of the golden
  // ratio, which fall evenly and have nothing to do with the digits of the place.
  const auto fraction = static_cast<std::uint64_t>(token) * 0x9E3779B97F4A7C15ULL >> 32;
  const auto turn = static_cast<std::int64_t>(fraction * experts.size() >> 32);
  for (std::int64_t j = 0; j < top_k; ++j) {
    const std::int64_t point = place + ((j + turn) % top_k) * tokens_;
    experts[static_cast<std::size_t>(j)] = std::ranges::upper_bound(ends_, point) - ends_.begin();
  }
}

}  // namespace llmtrain
