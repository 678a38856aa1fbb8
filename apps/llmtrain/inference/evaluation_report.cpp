// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/evaluation_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/printable.h"
#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* name_of(EvaluationMethod method) {
  switch (method) {
    case EvaluationMethod::rolling:
      return "rolling";
    case EvaluationMethod::packed:
      return "packed";
  }
  return "";
}

// As lm-evaluation-harness has it: of all words, or bytes, together.
std::optional<double> perplexity_per(const EvaluateResult& result, std::int64_t TextFigures::*unit) {
  if (!result.loss || !result.texts || (*result.texts).*unit == 0) return std::nullopt;
  return std::exp(-result.texts->log_likelihood / static_cast<double>((*result.texts).*unit));
}

OrderedJson figures_of(const EvaluationData& data, const EvaluateResult& result) {
  OrderedJson json = {{"data", data.name},
                      {"method", name_of(data.method)},
                      {"loss", number_or_null(result.loss)},
                      {"perplexity", number_or_null(result.perplexity)},
                      {"bits_per_byte", number_or_null(result.bits_per_byte)},
                      {"tokens", result.tokens}};
  for (const LossValue& term : result.terms) json["loss_terms"][term.name] = term.value;
  for (const Figure& figure : result.figures) json["figures"][figure.name] = figure.value;
  if (!result.texts) return json;
  json["log_likelihood"] = result.texts->log_likelihood;
  json["byte_perplexity"] = number_or_null(perplexity_per(result, &TextFigures::bytes));
  json["word_perplexity"] = number_or_null(perplexity_per(result, &TextFigures::words));
  json["texts"] = result.texts->texts;
  json["bytes"] = result.texts->bytes;
  json["words"] = result.texts->words;
  return json;
}

std::string shown(const std::optional<double>& number, int digits) {
  return number ? fmt::format("{:.{}g}", *number, digits) : "-";
}

std::string value_text(const Figure& figure) { return fmt::format("{:.6f}", figure.value); }

// What is printed of one of the data, each behind its name.
struct ShownFigure {
  std::string name;
  std::string value;
};

std::vector<ShownFigure> shown_figures(const EvaluateResult& result) {
  if (!result.perplexity && !result.figures.empty()) {
    std::vector<ShownFigure> figures{{"rows", fmt::format("{}", result.tokens)},
                                     {"loss", result.loss ? fmt::format("{:.6f}", *result.loss) : "-"}};
    for (const Figure& figure : result.figures) figures.push_back({figure.name, value_text(figure)});
    return figures;
  }
  std::vector<ShownFigure> figures{
      {"tokens", fmt::format("{}", result.tokens)},
      {"loss", result.loss ? fmt::format("{:.6f}", *result.loss) : "-"},
      {"perplexity", shown(result.perplexity, 4)},
      {"bits/byte", result.bits_per_byte ? fmt::format("{:.6f}", *result.bits_per_byte) : "-"},
      {"per byte", shown(perplexity_per(result, &TextFigures::bytes), 6)},
      {"per word", shown(perplexity_per(result, &TextFigures::words), 6)}};
  for (const Figure& figure : result.figures) figures.push_back({figure.name, value_text(figure)});
  return figures;
}

// The lines of a model that tells classes.
std::string class_lines(const EvaluationData& data, const EvaluateResult& result) {
  std::string text = fmt::format("data        {}\n", message_text(data.name));
  for (const ShownFigure& figure : shown_figures(result))
    text += fmt::format("{:<10}  {}\n", figure.name, figure.value);
  return text;
}

std::string as_lines(const EvaluationData& data, const EvaluateResult& result) {
  if (!result.perplexity && !result.figures.empty()) return class_lines(data, result);
  std::string text = fmt::format("data        {} ({})\ntokens      {}\n", message_text(data.name), name_of(data.method),
                                 result.tokens);
  if (result.loss) text += fmt::format("loss        {:.6f} nats per token\n", *result.loss);
  if (result.perplexity) text += fmt::format("perplexity  {:.4g}\n", *result.perplexity);
  for (const LossValue& term : result.terms) text += fmt::format("{:<10}  {:.6f}\n", term.name, term.value);
  if (result.bits_per_byte) text += fmt::format("bits/byte   {:.6f}\n", *result.bits_per_byte);
  for (const Figure& figure : result.figures) text += fmt::format("{:<11} {}\n", figure.name, value_text(figure));
  if (!result.texts) return text;
  return text + fmt::format(
                    "per byte    {} perplexity, of {} bytes\nper word    {} perplexity, of {} words\n"
                    "texts       {}, log-likelihood {:.6f}\n",
                    shown(perplexity_per(result, &TextFigures::bytes), 6), result.texts->bytes,
                    shown(perplexity_per(result, &TextFigures::words), 6), result.texts->words, result.texts->texts,
                    result.texts->log_likelihood);
}

std::string as_table(const EvaluateRequest& request, const std::vector<EvaluateResult>& results) {
  std::size_t widest = 4;
  for (const EvaluationData& data : request.data) widest = std::max(widest, data.name.size());
  std::string text = fmt::format("{:<{}}  {:<7}", "data", widest, "method");
  for (const ShownFigure& figure : shown_figures(results.front())) text += fmt::format("  {:>12}", figure.name);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const EvaluationData& data = request.data[i];
    text += fmt::format("\n{:<{}}  {:<7}", message_text(data.name), widest, name_of(data.method));
    for (const ShownFigure& figure : shown_figures(results[i])) text += fmt::format("  {:>12}", figure.value);
  }
  return text + "\n";
}

}  // namespace

std::string evaluation_as_text(const EvaluateRequest& request, const std::vector<EvaluateResult>& results) {
  const std::string head = fmt::format("checkpoint  {}\nstep        {}\n", request.checkpoint, results.front().step);
  return head + (results.size() == 1 ? as_lines(request.data.front(), results.front()) : as_table(request, results));
}

std::string evaluation_as_json(const EvaluateRequest& request, const std::vector<EvaluateResult>& results) {
  OrderedJson json = {{"checkpoint", request.checkpoint}, {"step", results.front().step}};
  if (results.size() == 1) {
    json.update(figures_of(request.data.front(), results.front()));
  } else {
    for (std::size_t i = 0; i < results.size(); ++i) json["results"].push_back(figures_of(request.data[i], results[i]));
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain::app
