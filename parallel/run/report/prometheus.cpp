// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/prometheus.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <string_view>
#include <vector>

namespace llmtrain {
namespace {

std::string escaped(std::string_view label) {
  std::string text;
  for (const char letter : label) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text;
}

// In Go's form, which the format requires for what is not finite.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class MetricsText {
 public:
  explicit MetricsText(const std::string& run) : run_("run=\"" + escaped(run) + "\"") {}

  void gauge(const char* name, const char* help, double value) { add(name, "gauge", help, value); }
  void counter(const char* name, const char* help, double value) { add(name, "counter", help, value); }
  // One metric with a sample for each term; nothing without terms.
  void terms(const char* name, const char* help, const std::vector<LossTermRow>& terms, const char* label = "term") {
    if (!terms.empty()) begin(name, "gauge", help);
    for (const LossTermRow& term : terms)
      sample(name, fmt::format("{},{}=\"{}\"", run_, label, escaped(term.name)), term.value);
  }
  std::string text() const { return text_; }

 private:
  void add(const char* name, const char* type, const char* help, double value) {
    begin(name, type, help);
    sample(name, run_, value);
  }
  void begin(const char* name, const char* type, const char* help) {
    text_ += fmt::format("# HELP llmtrain_{0} {1}\n# TYPE llmtrain_{0} {2}\n", name, help, type);
  }
  void sample(const char* name, const std::string& labels, double value) {
    text_ += fmt::format("llmtrain_{}{{{}}} {}\n", name, labels, number(value));
  }

  std::string run_;
  std::string text_;
};

}  // namespace

std::string prometheus_text(const Recipe& recipe, const RunProgress& progress, RunState state) {
  if (!progress.last()) return "";
  const TrainingRow& row = *progress.last();
  MetricsText writer(recipe.name);
  writer.gauge("running", "1 while the run is going on.", state == RunState::running ? 1 : 0);
  writer.gauge("step", "Steps done.", static_cast<double>(row.step));
  writer.gauge("steps", "Steps of the whole run.", static_cast<double>(recipe.training.steps));
  writer.counter("tokens_total", "Tokens trained on.", static_cast<double>(row.tokens));
  writer.gauge("loss", "Training loss of the step, in nats per token.", row.loss);
  writer.terms("loss_term", "Term of the step's training loss, without its coefficient.", row.terms);
  if (progress.validation())
    writer.gauge("validation_loss", "Newest validation loss, in nats per token.", progress.validation()->loss);
  writer.terms("validation_loss_term", "Term of the newest validation loss, without its coefficient.",
               progress.validation_terms());
  writer.terms("validation_set_loss", "Newest loss of a named set of validation data, in nats per token.",
               progress.validation_sets(), "set");
  writer.terms("validation_figure", "Newest figure of predictions beside their loss, from 0 to 1; of bleu to 100.",
               progress.validation_figures(), "figure");
  writer.gauge("learning_rate", "Learning rate of the step.", row.learning_rate);
  writer.gauge("gradient_norm", "Gradient norm of the step before clipping.", row.gradient_norm);
  writer.gauge("step_seconds", "Duration of the step.", row.step_seconds);
  writer.gauge("tokens_per_second", "Tokens per second in the step.", row.tokens_per_second);
  writer.gauge("mfu_ratio", "Model FLOP/s by the rate measured at the run's start.", row.mfu);
  writer.gauge("memory_bytes", "Peak memory of the first rank's process.", static_cast<double>(row.memory_bytes));
  writer.gauge("tensor_bytes", "Peak memory of the first rank's tensors.", static_cast<double>(row.tensor_bytes));
  writer.counter("skipped_updates_total", "Updates skipped for a gradient norm that was not finite, or for a spike.",
                 static_cast<double>(row.skipped));
  if (row.routing) {
    writer.gauge("balance_loss", "Balance loss of the routers, without its coefficient.", row.routing->balance_loss);
    writer.gauge("z_loss", "Z-loss of the routers, without its coefficient.", row.routing->z_loss);
    writer.gauge("expert_load_ratio", "Tokens of the fullest expert by the mean.", row.routing->expert_load);
    writer.gauge("dropped_ratio", "Share of the tokens' choices beyond an expert's capacity.",
                 row.routing->dropped_share);
    writer.gauge("router_entropy_ratio", "Entropy of a router's probabilities by that of equal ones.",
                 row.routing->router_entropy);
  }
  if (row.loss_scale)
    writer.gauge("loss_scale", "By which the loss was multiplied before the backward.", *row.loss_scale);
  if (row.saturated_share)
    writer.gauge("saturated_ratio", "Share of the gradients beyond the range of FP8.", *row.saturated_share);
  return writer.text();
}

}  // namespace llmtrain
