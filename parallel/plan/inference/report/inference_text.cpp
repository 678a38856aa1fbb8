// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/text_table.h"
#include "parallel/plan/inference/report/inference_report.h"

namespace llmtrain {
namespace {

std::vector<TableCell> row(const char* name, const PlannedPass& planned) {
  const PassPrice& price = planned.price;
  return {{name},
          {split_text(planned.split)},
          {duration_text(price.seconds()), Ink::strong},
          {duration_text(price.product_seconds)},
          {duration_text(price.attention_seconds)},
          {duration_text(price.movement_seconds + price.host_seconds + price.weight_seconds)},
          {duration_text(price.exchange_seconds)},
          {duration_text(planned.bound_seconds)},
          {percent(planned.mfu)}};
}

std::string passes_table(const InferencePlan& plan, const TextStyle& style) {
  TextTable passes({{"pass", Align::left},
                    {"split", Align::left},
                    {"time"},
                    {"products"},
                    {"attention"},
                    {"other"},
                    {"exchanges"},
                    {"least"},
                    {"MFU"}});
  passes.add(row("prefill", plan.prefill));
  passes.add(row("decode", plan.decode));
  return passes.text(style);
}

std::string memory_line(const InferencePlan& plan) {
  const auto text = [](double bytes) { return bytes_text(bytes); };
  const ServedMemory& memory = plan.memory;
  std::string line = fmt::format("{} of weights, {} of cache, {} for passes: {}", text(memory.weights),
                                 text(memory.cache), text(memory.working), text(memory.sum()));
  if (plan.device_memory_bytes == 0) return line;
  line += fmt::format(" of {}, {}", text(plan.device_memory_bytes), plan.fits ? "fits" : "does not fit");
  if (plan.running == plan.request.batch) return line;
  return line + fmt::format("; {} at a time, while the others wait", format_number_of(plan.running, "sequence"));
}

std::string reads_line(const InferencePlan& plan) {
  const WeightReads& reads = *plan.reads;
  return fmt::format("{} of {} are read from the {} in each pass, {} at {}/s",
                     bytes_text(static_cast<double>(reads.weights.bytes_per_pass)),
                     format_number_of(reads.weights.streamed_stages, "layer"), word_of(plan.request.weights_from),
                     duration_text(reads.seconds(plan.decode.pass)), bytes_text(reads.bytes_per_second));
}

}  // namespace

std::string requests_text(const ServingRequest& request) {
  const auto type = [](ServedType stored) {
    return stored == ServedType::compute ? std::string("as computed") : std::string(word_of(stored));
  };
  const std::string wait =
      request.wait_passes > 0 ? fmt::format(" (prompts wait for {} passes)", request.wait_passes) : "";
  return fmt::format("{} of {} + {} tokens, batching {}{}, weights {}, cache {}",
                     format_number_of(request.batch, "sequence"), request.prompt, request.generated,
                     word_of(request.batching), wait, type(request.weights), type(request.cache));
}

std::string inference_text(const InferencePlan& plan, const TextStyle& style) {
  std::string text = paragraph(fmt::format("{}: {} parameters on {} of {}", printable(plan.name),
                                           format_count(static_cast<double>(plan.parameters)),
                                           format_number_of(plan.devices, "device"), plan.profile),
                               style.width) +
                     paragraph(requests_text(plan.request), style.width) + '\n';
  const auto line = [&](const char* name, const std::string& value) {
    text += described(name, value, 14, style.width);
  };
  line("First token", duration_text(plan.first_token_seconds));
  line("Per token", duration_text(plan.per_token_seconds));
  line("Whole answer", duration_text(plan.request_seconds));
  line("Throughput", fmt::format("{} tokens/s", format_count(plan.tokens_per_second)));
  line("Cost", fmt::format("{:.3g} device-seconds per token, of the prompt's {:.3g}", plan.device_seconds_per_token,
                           plan.prefill.device_seconds_per_token));
  line("Memory", memory_line(plan));
  if (plan.reads) line("Weights", reads_line(plan));
  return text + '\n' + passes_table(plan, style);
}

}  // namespace llmtrain
