// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/normalizer.h"

#include <functional>
#include <map>
#include <utility>

#include "core/tokenizer/normalizers/bert_normalizer.h"
#include "core/tokenizer/normalizers/precompiled_characters.h"
#include "core/tokenizer/normalizers/simple_normalizers.h"

namespace llmtrain {
namespace {

using StepPointer = std::shared_ptr<const NormalizerStep>;

const std::map<std::string, std::function<StepPointer(const JsonFields&)>>& kinds() {
  static const std::map<std::string, std::function<StepPointer(const JsonFields&)>> all = {
      {"BertNormalizer", [](const JsonFields& section) { return std::make_shared<BertNormalizer>(section); }},
      {"ByteLevel", [](const JsonFields&) { return std::make_shared<WritesBytes>(); }},
      {"Lowercase", [](const JsonFields&) { return std::make_shared<LowersCase>(); }},
      {"NFC", [](const JsonFields&) { return std::make_shared<TakesNormalForm>(NormalForm::c); }},
      {"NFD", [](const JsonFields&) { return std::make_shared<TakesNormalForm>(NormalForm::d); }},
      {"NFKC", [](const JsonFields&) { return std::make_shared<TakesNormalForm>(NormalForm::kc); }},
      {"NFKD", [](const JsonFields&) { return std::make_shared<TakesNormalForm>(NormalForm::kd); }},
      {"Nmt", [](const JsonFields&) { return std::make_shared<CleansForTranslation>(); }},
      {"Precompiled", [](const JsonFields& section) { return std::make_shared<PrecompiledCharacters>(section); }},
      {"Prepend", [](const JsonFields& section) { return std::make_shared<Prepends>(section.text("prepend")); }},
      {"Replace", [](const JsonFields& section) { return std::make_shared<Replaces>(section); }},
      {"Strip", [](const JsonFields& section) { return std::make_shared<Strips>(section); }},
      {"StripAccents", [](const JsonFields&) { return std::make_shared<StripsAccents>(); }},
  };
  return all;
}

}  // namespace

Normalizer::Normalizer(const JsonFields& section) { add(section); }

void Normalizer::add(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "Sequence") {
    const JsonFields steps = section.section("normalizers");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps.element(i).text("type") == "Sequence") steps.element(i).fail("a Sequence within one is not supported");
      add(steps.element(i));
    }
    return;
  }
  const auto found = kinds().find(kind);
  if (found == kinds().end()) {
    std::string supported = "Sequence";
    for (const auto& [name, make] : kinds()) supported += ", " + name;
    section.fail("\"" + kind + "\" is not supported; supported are " + supported);
  }
  steps_.push_back(found->second(section));
}

void Normalizer::apply(NormalizedText& text) const {
  for (const StepPointer& step : steps_) step->apply(text);
}

std::string Normalizer::normalized(std::string text) const {
  NormalizedText whole{std::move(text), true};
  apply(whole);
  return std::move(whole.text);
}

}  // namespace llmtrain
