// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/pipeline_order.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

constexpr std::size_t left_width = 48;
constexpr std::size_t label_width = 8;  // "Speed   ", "Run     "
constexpr std::size_t suggestion_width = 48;

// What is written, no line wider than `width`.
struct Page {
  std::string text;
  Paint paint;
  std::size_t width = page_width;
};

// A row of one of the two tables: its text and its bar.
struct Row {
  std::string text;
  std::string bar;
  Ink ink = Ink::plain;
};

std::string mesh_text(const PlanReport& report) {
  const Mesh& mesh = report.mesh;
  std::string text;
  const auto add = [&text](std::string_view name, std::int64_t ranks) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name, ranks);
  };
  add("tensor", mesh.tensor);
  add("context", mesh.context);
  add("data", mesh.data);
  add("pipeline", mesh.pipeline);
  return text + expert_mesh_text(report);
}

// Prefixes the first line with `first` and the others with as many spaces.
void write_wrapped(Page& page, const std::string& first, const std::string& text, Ink ink = Ink::strong) {
  bool is_first = true;
  for (const std::string& line : wrapped(printable(text), page.width - columns(first))) {
    page.text += (is_first ? page.paint(ink, first) : std::string(columns(first), ' ')) + line + '\n';
    is_first = false;
  }
}

void write_title(Page& page, const PlanReport& report) {
  const std::string name = clipped(printable(report.recipe.name), 60);
  std::string rest = ": " + format_count(static_cast<double>(report.total_parameters)) + " parameters";
  if (report.active_parameters != report.total_parameters)
    rest += fmt::format(" ({} active)", format_count(static_cast<double>(report.active_parameters)));
  const std::int64_t world = report.mesh.world();
  rest += fmt::format(" on {} {} of {}", world, world == 1 ? "device" : "devices", printable(report.profile));
  // The figures of another program are not what llmtrain run will reach.
  const ClusterRecipe& cluster = report.recipe.cluster;
  if (cluster.program != ClusterRecipe{}.program)
    rest += ", run by " + printable(std::filesystem::path(cluster.program).stem().string());
  const std::string mesh = mesh_text(report);
  if (!mesh.empty()) rest += ", " + mesh;
  const auto lines = wrapped(name + rest, page.width);
  // A name with spaces may be wrapped; then nothing is emphasised, since escapes would have to span lines.
  const bool whole_name = lines.front().compare(0, name.size(), name) == 0;
  page.text += whole_name ? page.paint(Ink::strong, name) + lines.front().substr(name.size()) : lines.front();
  page.text += '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) page.text += lines[i] + '\n';
}

void write_verdict(Page& page, const PlanReport& report) {
  const PlannedRank& rank = fullest_rank(report);
  const double limit = report.device_memory_bytes;
  const std::string needs = "the fullest rank needs " + bytes_text(rank.peak_bytes);
  const std::string of_limit =
      limit > 0 ? fmt::format("{} of {} ({:.0f} %)", needs, bytes_text(limit), 100 * rank.peak_bytes / limit) : needs;
  if (limit <= 0) {
    write_wrapped(page, "Memory: ", needs + ", the profile states no limit");
  } else if (verdict_of(report) == MemoryVerdict::tight) {
    write_wrapped(page, "Tight: ", of_limit + ", plans of memory err by " + margin_text(*report.accuracy.memory),
                  Ink::notice);
  } else if (report.fits) {
    write_wrapped(page, "Fits: ", fmt::format("{}, {} free", of_limit, bytes_text(limit - rank.peak_bytes)), Ink::good);
  } else {
    write_wrapped(page, "Does not fit: ",
                  fmt::format("{} of {}, {} over the limit", needs, bytes_text(limit),
                              bytes_text(std::max(0.0, rank.peak_bytes - limit))),
                  Ink::bad);
  }
  std::string where = fmt::format("rank {}", rank.rank);
  if (rank.count > 1) where += fmt::format(" and {} like it", rank.count - 1);
  if (!rank.peak_instruction.empty()) where += ", peak at " + printable(rank.peak_instruction);
  if (const auto most = fallback_peak(report))
    where += fmt::format(", at most {} once layers have left FP8", bytes_text(*most));
  if (rank.host_bytes > 0) where += fmt::format(", plus {} of host memory", bytes_text(rank.host_bytes));
  if (rank.evicted_bytes > 0)
    where += fmt::format(", to which steps move {} of gradients", bytes_text(rank.evicted_bytes));
  if (rank.swapped_bytes > 0) where += fmt::format(", updates move {} to it and back", bytes_text(rank.swapped_bytes));
  if (rank.disk_bytes > 0)
    where += fmt::format(", plus {} on a disk, of which steps move {} in {}", bytes_text(rank.disk_bytes),
                         bytes_text(rank.disk_traffic), duration_text(rank.disk_seconds));
  write_wrapped(page, "  ", where);
}

void write_routing(Page& page, const PlanReport& report) {
  if (!report.routing) return;
  const PlannedRouting& routing = *report.routing;
  std::string text = fmt::format("the fullest expert has {:.2f} times its even share of tokens", routing.expert_load);
  if (report.mesh.expert > 1)
    text += fmt::format(", the busiest rank {:.2f} times, and {:.3g} of {} ranks have none", routing.rank_load,
                        routing.idle_ranks, report.mesh.expert);
  if (routing.dropped_share > 0)
    text += fmt::format("; {:.1f} % of the choices are dropped", 100 * routing.dropped_share);
  write_wrapped(page, "Routing: ", text);
}

// "FP8: 8 of 16 products of layers; in bf16 attention.output, feed_forward.network.down".
void write_products(Page& page, const PlanReport& report) {
  if (report.fp8_products.empty()) return;
  std::int64_t in_fp8 = 0, all = 0;
  std::vector<std::string_view> others;
  for (const PlannedProduct& product : report.fp8_products) {
    all += product.layers;
    if (product.uses_fp8) in_fp8 += product.layers;
    if (!product.uses_fp8 && std::ranges::find(others, product.name) == others.end()) others.push_back(product.name);
  }
  std::string text = fmt::format("{} of {} products of layers", in_fp8, all);
  if (!others.empty())
    text += fmt::format("; in {} {}", word_of(report.recipe.precision.compute), fmt::join(others, ", "));
  write_wrapped(page, "FP8: ", text);
}

// "Recompute: 3 layers full, 2 selective; limits 3.10 GiB in 65ms, 3.40 GiB in 61ms".
void write_limits(Page& page, const PlanReport& report) {
  if (report.limits.empty()) return;
  std::vector<std::string> parts;
  const MemoryRecipe& memory = report.recipe.memory;
  for (const Recompute word : {Recompute::full, Recompute::computation, Recompute::selective}) {
    const auto layers = memory.recompute_of_layers.empty()
                            ? (memory.recompute == word ? layer_count(report.recipe.model) : 0)
                            : std::ranges::count(memory.recompute_of_layers, word);
    if (layers > 0) parts.push_back(fmt::format("{} {}", layers, word_of(word)));
  }
  write_wrapped(
      page, "Recompute: ", parts.empty() ? std::string("nothing") : fmt::format("layers {}", fmt::join(parts, ", ")));
  parts.clear();
  const OffloadRecipe& host = memory.offload;
  if (host.activations) parts.emplace_back("activations");
  if (host.optimizer == StatesPlace::host) parts.emplace_back("optimizer states");
  if (host.gradients) parts.emplace_back("gradients");
  if (host.weights) parts.emplace_back("weights");
  if (host.resident_stages > 0)
    parts.back() += fmt::format("; states of the last {} stages of each rank stay", host.resident_stages);
  if (!parts.empty()) write_wrapped(page, "On the host: ", fmt::format("{}", fmt::join(parts, ", ")));
  if (memory.chunks > 1) write_wrapped(page, "Pieces: ", fmt::format("{}", memory.chunks));
  parts.clear();
  for (const LimitPoint& point : report.limits)
    parts.push_back(fmt::format("{} in {}", bytes_text(point.peak_bytes), duration_text(point.step_seconds)));
  write_wrapped(page, "Limits: ", fmt::format("{}", fmt::join(parts, ", ")));
}

std::vector<Row> memory_rows(const PlanReport& report) {
  const PlannedRank& rank = fullest_rank(report);
  const double full = std::max(rank.peak_bytes, report.device_memory_bytes);
  const Ink ink = report.fits ? Ink::memory : Ink::bad;
  std::vector<Row> rows;
  for (const MemoryName& name : memory_names) {
    const double bytes = rank.bytes[name.category];
    // Categories that the rank does not use would only lengthen the table.
    if (bytes <= 0) continue;
    rows.push_back(
        {"  " + left_aligned(name.label, 15) + right_aligned(bytes_text(bytes), 9) + "  ", bar(bytes / full, 18), ink});
  }
  return rows;
}

std::vector<Row> step_rows(const PlannedStep& step) {
  std::vector<Row> rows;
  for (const StepShare& share : split_step(step)) {
    if (share.seconds < negligible_share * step.seconds) continue;
    const double fraction = share.seconds / step.seconds;
    rows.push_back({left_aligned(share.label, 24) + right_aligned(duration_text(share.seconds), 7) +
                        right_aligned(fraction < 0.005 ? "<1 %" : fmt::format("{:.0f} %", 100 * fraction), 6) + "  ",
                    bar(fraction, 13), share.part == StepPart::compute ? Ink::good : Ink::notice});
  }
  return rows;
}

void write_table(Page& page, const std::string& head, const std::vector<Row>& rows) {
  page.text += page.paint(Ink::strong, head) + '\n';
  for (const Row& row : rows) page.text += row.text + page.paint(row.ink, row.bar) + '\n';
}

void write_side_by_side(Page& page, const std::string& left_head, const std::vector<Row>& left,
                        const std::string& right_head, const std::vector<Row>& right) {
  page.text +=
      page.paint(Ink::strong, left_aligned(left_head, left_width)) + page.paint(Ink::strong, right_head) + '\n';
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const Row memory = i < left.size() ? left[i] : Row{};
    const Row time = i < right.size() ? right[i] : Row{};
    // Measured without colour escapes, which take no columns.
    const std::size_t used = columns(memory.text) + columns(memory.bar);
    page.text += memory.text + page.paint(memory.ink, memory.bar);
    if (!time.text.empty())
      page.text += std::string(left_width - used, ' ') + time.text + page.paint(time.ink, time.bar);
    page.text += '\n';
  }
}

void write_tables(Page& page, const PlanReport& report) {
  const auto memory = memory_rows(report), step = step_rows(report.step);
  const std::string memory_head = "Memory of the fullest rank";
  const std::string step_head = "Step of " + duration_text(report.step.seconds);
  if (page.width >= page_width) {
    write_side_by_side(page, memory_head, memory, step_head, step);
  } else {
    write_table(page, memory_head, memory);
    page.text += '\n';
    write_table(page, step_head, step);
  }
}

std::string label(std::string_view text) { return left_aligned(text, label_width); }

std::string goodput_text(const PlannedGoodput& goodput, bool is_stated) {
  std::string interval = fmt::format("{} steps", goodput.every);
  if (!is_stated) interval += ", which is best";
  if (is_stated && goodput.every != goodput.best_every) interval += fmt::format(" (best: {})", goodput.best_every);
  return fmt::format("{} with {} and a checkpoint of {} every {}: {}", percent(goodput.fraction),
                     failures_text(goodput.failures), duration_text(goodput.checkpoint_seconds), interval,
                     goodput.expected_seconds ? duration_text(*goodput.expected_seconds) : "it never ends");
}

void write_accuracy(Page& page, const PlanReport& report) {
  std::string text;
  const auto add = [&text](std::string_view what, const std::optional<PlanError>& error) {
    if (error)
      text += fmt::format("{}{} {}, {}", text.empty() ? "" : "; ", what, margin_text(*error), origin_text(*error));
  };
  add("step", report.accuracy.step);
  add("memory", report.accuracy.memory);
  if (!text.empty()) write_wrapped(page, label("Error"), text);
}

void write_figures(Page& page, const PlanReport& report) {
  const PlannedThroughput& speed = report.throughput;
  write_wrapped(page, label("Speed"),
                fmt::format("{} tokens/s, {} tokens per day; MFU {}, HFU {}, {} per device",
                            format_count(speed.tokens_per_second), format_count(speed.tokens_per_second * 86400),
                            percent(speed.mfu), percent(speed.hfu), tflops_text(speed.model_tflops_per_device)));
  write_wrapped(page, label("Bubble"),
                percent(report.step.bubble_fraction) + " idle between the first and the last pass");
  write_wrapped(page, label("Run"),
                fmt::format("{} steps, {} tokens: {}, {}", report.recipe.training.steps,
                            format_count(report.run.tokens), duration_text(report.run.seconds), cost_text(report.run)));
  if (const auto& goodput = report.run.goodput)
    write_wrapped(page, label("Goodput"), goodput_text(*goodput, report.recipe.checkpoint.every > 0));
}

std::string traffic_text(const CommunicationEntry& traffic) {
  const std::string text = fmt::format("{} {} in {}", with_spaces(purpose_name(traffic.purpose)),
                                       bytes_text(traffic.bytes_per_rank_per_step), duration_text(traffic.seconds));
  // Half a per cent is below what the printed digits show.
  if (traffic.exposed_seconds <= 0.005 * traffic.seconds) return text + " (hidden)";
  if (traffic.exposed_seconds >= 0.995 * traffic.seconds) return text + " (none hidden)";
  return text + fmt::format(" ({} not hidden)", duration_text(traffic.exposed_seconds));
}

void write_communication(Page& page, const PlanReport& report) {
  std::vector<CommunicationEntry> purposes;  // one entry per purpose: the sum of its lines
  for (const CommunicationEntry& line : report.communication) {
    auto sum = std::ranges::find(purposes, line.purpose, &CommunicationEntry::purpose);
    if (sum == purposes.end()) sum = purposes.insert(sum, {.purpose = line.purpose, .tensors = {}});
    sum->bytes_per_rank_per_step += line.bytes_per_rank_per_step;
    sum->seconds += line.seconds;
    sum->exposed_seconds += line.exposed_seconds;
  }
  // The slowest traffic first; the sort is stable so that equal plans print equal text.
  std::ranges::stable_sort(purposes, std::greater(), &CommunicationEntry::seconds);
  std::string text;
  for (const CommunicationEntry& traffic : purposes)
    // Scalars are negligible here; the page's table and the JSON list them.
    if (traffic.purpose != Purpose::control) text += (text.empty() ? "" : "; ") + traffic_text(traffic);
  if (!text.empty()) write_wrapped(page, label("Sends"), text + "; by the busiest rank, per step");
}

void write_warnings(Page& page, const PlanReport& report) {
  if (report.warnings.empty()) return;
  page.text += '\n' + page.paint(Ink::notice, "Warnings") + '\n';
  for (const std::string& warning : report.warnings) write_wrapped(page, "  - ", warning);
}

struct SuggestionText {
  std::string set, figures;
};

std::vector<SuggestionText> suggestion_texts(const PlanReport& report) {
  std::vector<SuggestionText> texts;
  for (const PlanSuggestion& suggestion : report.suggestions) {
    texts.push_back(
        {"  --set " + printable(suggestion.change),
         fmt::format("{} per step ({}), {}{}", duration_text(suggestion.step_seconds),
                     change_text(suggestion.step_seconds / report.step.seconds, 0), bytes_text(suggestion.peak_bytes),
                     suggestion.is_tight ? ", tight"
                     : suggestion.fits   ? ""
                                         : ", does not fit")});
  }
  return texts;
}

// Where the figures begin beside their changes; narrow pages have them all there, or none.
std::size_t figures_column(const Page& page, const std::vector<SuggestionText>& texts) {
  if (page.width >= page_width) return suggestion_width;
  std::size_t sets = 0, figures = 0;
  for (const SuggestionText& text : texts) {
    sets = std::max(sets, columns(text.set));
    figures = std::max(figures, columns(text.figures));
  }
  return sets + 2 + figures <= page.width ? sets + 2 : 0;
}

void write_suggestions(Page& page, const PlanReport& report) {
  if (report.suggestions.empty()) return;
  page.text +=
      '\n' + page.paint(Ink::strong, report.fits ? "Changes that make it faster" : "Changes that make it fit") + '\n';
  const std::vector<SuggestionText> texts = suggestion_texts(report);
  const std::size_t column = figures_column(page, texts);
  for (const auto& [set, figures] : texts) {
    if (columns(set) < column && column + columns(figures) <= page.width) {
      page.text += left_aligned(set, column) + figures + '\n';
    } else {
      for (const std::string& line : wrapped(set, page.width - 2)) page.text += "  " + line + '\n';
      write_wrapped(page, "      ", figures);
    }
  }
}

}  // namespace

std::string report_text(const PlanReport& report, const TextStyle& style) {
  Page page{"", Paint{style.colour}, std::min(style.width, page_width)};
  write_title(page, report);
  if (report.derives_data) write_wrapped(page, "Data ranks: ", derived_data_text(report));
  page.text += '\n';
  write_verdict(page, report);
  write_routing(page, report);
  write_products(page, report);
  write_limits(page, report);
  page.text += '\n';
  write_tables(page, report);
  page.text += '\n';
  write_figures(page, report);
  write_communication(page, report);
  write_accuracy(page, report);
  write_warnings(page, report);
  write_suggestions(page, report);
  return page.text;
}

}  // namespace llmtrain
