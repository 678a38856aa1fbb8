// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/support/support_cases.h"
#include "core/base/error.h"
#include "kernels/kernel_list.h"

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

const char* word(bool can) { return can ? "yes" : "no"; }

// Cases or pairs that differ in one value alone, as a line of the table and, where they are refused, one with the
// reason.
std::string row(const std::string& names, const Support& support, std::size_t width) {
  constexpr std::size_t name_column = 13, reason_column = 15;
  const std::string answers = fmt::format("  {:<4}  {:<3}", word(support.plans), word(support.runs));
  const std::string text = described(answers, names, name_column, width);
  if (support.runs) return text;
  return text + described("", support.plans ? support.run_reason : support.plan_reason, reason_column, width);
}

std::string needs_text(const SupportCase& one) {
  std::string text;
  for (const auto& [key, value] : one.needs) text += (text.empty() ? " with " : ", ") + key + "=" + value;
  return text;
}

std::string singles_table(const std::vector<Support>& alone, std::size_t width) {
  const auto& cases = support_cases();
  std::string text = "  plan  run  key=value\n";
  for (std::size_t first = 0, next = 0; first < cases.size(); first = next) {
    std::string values;
    const auto is_alike = [&](std::size_t index) {
      return cases[index].key == cases[first].key && cases[index].needs == cases[first].needs &&
             alone[index] == alone[first];
    };
    for (; next < cases.size() && is_alike(next); ++next) values += (values.empty() ? "" : "|") + cases[next].value;
    text += row(cases[first].key + "=" + values + needs_text(cases[first]), alone[first], width);
  }
  return text;
}

// A row of the table of pairs: the values of one of the two keys, and the value of the other one.
struct PairRow {
  const SupportPair* pair = nullptr;
  std::string first, second;

  bool takes(const SupportPair& other) const {
    return pair->first->key == other.first->key && pair->second->key == other.second->key &&
           pair->support == other.support;
  }
};

// Joins pairs in the values of the second key, and then rows in those of the first.
std::string pairs_table(const std::vector<SupportPair>& pairs, std::size_t width) {
  std::vector<PairRow> rows;
  const auto add = [&rows](PairRow one, std::string PairRow::*joined, std::string PairRow::*same) {
    const auto place =
        std::ranges::find_if(rows, [&](const PairRow& row) { return row.takes(*one.pair) && row.*same == one.*same; });
    if (place == rows.end()) {
      rows.push_back(std::move(one));
    } else {
      (*place).*joined += "|" + one.*joined;
    }
  };
  for (const SupportPair& pair : pairs)
    add({&pair, pair.first->value, pair.second->value}, &PairRow::second, &PairRow::first);
  for (PairRow& one : std::exchange(rows, {})) add(std::move(one), &PairRow::first, &PairRow::second);
  std::string text;
  for (const PairRow& one : rows)
    text += row(one.pair->first->key + "=" + one.first + " and " + one.pair->second->key + "=" + one.second,
                one.pair->support, width);
  return text;
}

std::string kernels_table(std::size_t width) {
  constexpr std::size_t operator_column = 23;
  const auto device = [](bool has_kernels) { return has_kernels ? "own" : "reference"; };
  std::string text = "  cpu        cuda       operator\n";
  for (const kernels::ListedKernel& one : kernels::kernel_list)
    text += described(fmt::format("  {:<9}  {}", device(one.on_cpu), device(one.on_cuda)),
                      fmt::format("{}: {}", one.name, one.what), operator_column + 1, width);
  return text;
}

std::string tables(const std::vector<Support>& alone, const std::vector<SupportPair>& pairs, std::size_t width) {
  return singles_table(alone, width) + "\nPairs whose answer does not follow from the lines above:\n" +
         pairs_table(pairs, width) + "\n" +
         paragraph("Operators with kernels of llmtrain's own, by device. The reference is LibTorch's operators.",
                   width) +
         kernels_table(width) + "\n" +
         paragraph("llmtrain support --json also names the keys that are not tried, with the reason.", width);
}

Json support_json(const std::vector<Override>& settings, const Support& support) {
  return {{"set", settings},
          {"plan", support.plans},
          {"run", support.runs},
          {"reason", support.plans ? support.run_reason : support.plan_reason}};
}

Json kernels_json() {
  Json all = Json::array();
  for (const kernels::ListedKernel& one : kernels::kernel_list)
    all.push_back({{"operator", one.name}, {"what", one.what}, {"cpu", one.on_cpu}, {"cuda", one.on_cuda}});
  return all;
}

std::string json_text(const std::vector<Support>& alone, const std::vector<SupportPair>& pairs) {
  const auto& cases = support_cases();
  Json singles = Json::array(), both = Json::array();
  for (std::size_t index = 0; index < cases.size(); ++index) {
    Json entry = {{"key", cases[index].key}, {"value", cases[index].value}};
    entry.update(support_json(cases[index].overrides(), alone[index]));
    singles.push_back(std::move(entry));
  }
  for (const SupportPair& pair : pairs) {
    Json entry = {{"keys", {pair.first->key, pair.second->key}}, {"values", {pair.first->value, pair.second->value}}};
    entry.update(support_json(pair.overrides, pair.support));
    both.push_back(std::move(entry));
  }
  Json others = Json::array();
  for (const LeftOut& one : left_out()) others.push_back({{"key", one.key}, {"reason", one.reason}});
  return Json{{"recipe", Json::parse(support_recipe())},
              {"singles", std::move(singles)},
              {"pairs", std::move(both)},
              {"left_out", std::move(others)},
              {"kernels", kernels_json()}}
             .dump(2) +
         "\n";
}

int support(bool json) {
  const ClusterProfile profile = load_profile("cpu", profiles_folder());
  std::vector<Support> alone;
  for (const SupportCase& one : support_cases()) alone.push_back(support_of(one.overrides(), profile));
  const auto pairs = surprising_pairs(alone, profile);
  json ? write_json(json_text(alone, pairs)) : write_result(tables(alone, pairs, style_of_output().width));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_support(CLI::App& program, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand(
      "support", "Shows which keys this version can plan and run, and which kernels each device has");
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Examples:\n  llmtrain support\n  llmtrain support --json");
  command->callback([json, &action] { action = [json] { return support(*json); }; });
}

}  // namespace llmtrain::app
