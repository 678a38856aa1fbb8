// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/support/support_cases.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const SupportCase& one) { return one.key + "=" + one.value; }

std::string needs_of(const SupportCase& one) {
  std::string text;
  for (const auto& [key, value] : one.needs) text += (text.empty() ? " with " : ", ") + key + "=" + value;
  return text;
}

const char* word(bool can) { return can ? "yes" : "no"; }

constexpr std::size_t name_column = 13, reason_column = 15;

std::string row(const std::string& name, const Support& support, std::size_t width) {
  const std::string answers = fmt::format("  {:<4}  {:<3}", word(support.plans), word(support.runs));
  const std::string text = described(answers, name, name_column, width);
  if (support.runs) return text;
  return text + described("", support.plans ? support.run_reason : support.plan_reason, reason_column, width);
}

std::string tables(const std::vector<Support>& alone, const std::vector<SupportPair>& pairs, std::size_t width) {
  const auto& cases = support_cases();
  std::string text = "  plan  run  key=value\n";
  for (std::size_t index = 0; index < cases.size(); ++index)
    text += row(name_of(cases[index]) + needs_of(cases[index]), alone[index], width);
  text += "\nPairs whose answer does not follow from the lines above:\n";
  for (const SupportPair& pair : pairs)
    text += row(name_of(*pair.first) + " and " + name_of(*pair.second), pair.support, width);
  return text;
}

Json support_json(const std::vector<Override>& settings, const Support& support) {
  return {{"set", settings},
          {"plan", support.plans},
          {"run", support.runs},
          {"reason", support.plans ? support.run_reason : support.plan_reason}};
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
    std::vector<Override> settings = pair.first->overrides();
    for (const Override& one : pair.second->overrides())
      if (std::ranges::find(settings, one) == settings.end()) settings.push_back(one);
    Json entry = {{"keys", {pair.first->key, pair.second->key}}, {"values", {pair.first->value, pair.second->value}}};
    entry.update(support_json(settings, pair.support));
    both.push_back(std::move(entry));
  }
  return Json{{"recipe", Json::parse(support_recipe())}, {"singles", std::move(singles)}, {"pairs", std::move(both)}}
             .dump(2) +
         "\n";
}

int support(bool json) {
  const ClusterProfile profile = load_profile("cpu", profiles_folder());
  std::vector<Support> alone;
  for (const SupportCase& one : support_cases()) alone.push_back(support_of(one.overrides(), profile));
  const auto pairs = surprising_pairs(alone, profile);
  write_result(json ? json_text(alone, pairs) : tables(alone, pairs, style_of_output().width));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_support(CLI::App& program, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("support", "Shows which keys this version can plan and which it can run");
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Examples:\n  llmtrain support\n  llmtrain support --json");
  command->callback([json, &action] { action = [json] { return support(*json); }; });
}

}  // namespace llmtrain::app
