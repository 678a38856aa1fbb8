// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/page_sections.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "parallel/plan/report/html/link_lanes.h"

namespace llmtrain {
namespace {

// In units of the SVG's view box.
constexpr double header = 22;        // for the time labels
constexpr double lanes_height = 38;  // of passes, collectives and transfers
constexpr double wire_gap = 1;
constexpr double digit_width = 5.5;
constexpr double ticks_of_data = 1e6;  // integer time units per step in the script's data

struct Lane {
  double top = 0;
  double height = 0;
};

// Vertical position of an entry within its rank's row: passes on top, then collectives, sends and receives.
Lane lane_of(Stream stream, Operation operation) {
  switch (stream) {
    case Stream::compute:
      return {.top = 2, .height = 19};
    case Stream::data:
      return {.top = 23, .height = 5};
    case Stream::transfer:
      break;
  }
  const bool receives = operation == Operation::receive_activation || operation == Operation::receive_gradient;
  return receives ? Lane{.top = 33, .height = 3} : Lane{.top = 29, .height = 3};
}

std::int32_t colours(const ScheduleShape& shape) { return std::min(shape.loops, most_stage_colours); }

// More loops than colours: neighbouring loops share one, so that the order of colours still shows the order of stages.
std::int32_t colour_of_loop(const ScheduleShape& shape, std::int32_t loop) {
  return static_cast<std::int32_t>(static_cast<std::int64_t>(loop) * colours(shape) / shape.loops);
}

std::string stages_of_colour(const ScheduleShape& shape, std::int32_t colour) {
  // The inverse of colour_of_loop(), which rounds down.
  const auto first_loop = [&](std::int64_t of) { return (of * shape.loops + colours(shape) - 1) / colours(shape); };
  const std::int64_t from = first_loop(colour) * shape.pipeline;
  const std::int64_t to = first_loop(colour + 1) * shape.pipeline - 1;
  return from == to ? fmt::format("stage {}", from) : fmt::format("stages {}–{}", from, to);
}

Html swatch(std::string_view colour, std::string_view text) {
  return html("<span class=\"key\"><i class=\"{}\"></i>{}</span>", colour, text);
}

class TimelineDrawing {
 public:
  TimelineDrawing(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis)
      : plan_(plan), axis_(axis), has_wires_(uses_wires(plan)) {
    row_height_ = lanes_height + (has_wires_ ? 2 * (wire_lane_height + wire_gap) + 3 : 0);
    for (std::size_t i = 0; i < selection.ranks.size(); ++i)
      row_top_[selection.ranks[i]] = header + row_height_ * static_cast<double>(i);
    height_ = header + row_height_ * static_cast<double>(selection.ranks.size()) + 2;
    for (const TimelineEntry& entry : selection.entries) add(entry);
    if (has_wires_)
      for (const std::int32_t rank : selection.ranks) add_wires(wire_lanes(plan, selection, axis, rank), rank);
  }

  Html svg() const {
    Html text = html(
        "<svg class=\"timeline\" viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"What each rank does over one step\">"
        "<g class=\"plot\" transform=\"translate({2} 0)\"><g class=\"stretch\">",
        svg_number(gutter + axis_.width()), svg_number(height_), svg_number(gutter));
    text += background();
    for (const auto& [name, path] : paths_) text += html("<path class=\"{}\" d=\"{}\"/>", name, path);
    text += wires_ + "<rect class=\"found\" width=\"0\" height=\"0\"/></g>" + tick_labels() + "<g class=\"labels\">" +
            labels_ + "</g></g>" + rank_names();
    return text + "</svg>";
  }

  // Read by the page's script: geometry, the pieces of the axis, and per rank its entries as eight numbers each.
  std::string data() const {
    std::string pieces;
    for (const TimePiece& piece : axis_.pieces())
      pieces += fmt::format("{}[{},{},{},{},{}]", pieces.empty() ? "" : ",", to_ticks(piece.seconds.start),
                            to_ticks(piece.seconds.end), svg_number(piece.left), svg_number(piece.right),
                            piece.is_cut ? 1 : 0);
    std::string rows;
    for (const auto& [rank, entries] : data_)
      rows += fmt::format("{}[{},{},[{}]]", rows.empty() ? "" : ",", rank, svg_number(row_top_.at(rank)), entries);
    return fmt::format(
        R"({{"gutter":{},"width":{},"row":{},"digit":{},"wire":{},"tick":{:.9g},"pieces":[{}],"rows":[{}],"work":{}}})",
        svg_number(gutter), svg_number(axis_.width()), svg_number(row_height_), svg_number(digit_width),
        svg_number(wire_lane_height), plan_.simulation.step_seconds / ticks_of_data, pieces, rows,
        work_data(plan_.report.work));
  }

 private:
  void add(const TimelineEntry& entry) {
    const auto& instructions = plan_.layout->schedule().ranks.at(static_cast<std::size_t>(entry.rank)).instructions;
    const Instruction& instruction = instructions.at(static_cast<std::size_t>(entry.instruction));
    const Lane lane = lane_of(entry.stream, instruction.operation);
    const double top = row_top_.at(entry.rank) + lane.top;
    const double left = axis_.x(entry.start_seconds);
    const double width = axis_.x(entry.end_seconds) - left;
    // A thin gap separates neighbours; it shrinks with the width, so that thousands of entries do not vanish.
    const std::string drawn = svg_number(std::max(0.02, width - std::min(0.6, 0.2 * width)));
    // One path per colour instead of one element per entry keeps large pages small and fast.
    paths_[colour_class(plan_.layout->schedule().shape, instruction)] +=
        fmt::format("M{} {}h{}v{}h-{}z", svg_number(left), svg_number(top), drawn, svg_number(lane.height), drawn);
    if (entry.stream == Stream::compute && instruction.micro >= 0)
      add_label(instruction, left + width / 2, width, top + 13);
    std::string& data = data_[entry.rank];
    data +=
        fmt::format("{}{},{},{},{},{},{},{},{}", data.empty() ? "" : ",", static_cast<int>(instruction.operation),
                    instruction.stage, instruction.micro, instruction.peer, to_ticks(entry.start_seconds),
                    to_ticks(entry.end_seconds - entry.start_seconds), svg_number(lane.top), svg_number(lane.height));
  }

  // The micro-batch number, where the whole step leaves room for it. The script draws those of another zoom.
  void add_label(const Instruction& instruction, double x, double width, double y) {
    const std::string number = std::to_string(instruction.micro);
    if (width < digit_width * static_cast<double>(number.size()) + 1) return;
    labels_ += html("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>",
                    instruction.operation == Operation::backward ? "on-dark" : "on-light", svg_number(x), svg_number(y),
                    number);
  }

  void add_wires(const WireLanes& lanes, std::int32_t rank) {
    double top = row_top_.at(rank) + lanes_height;
    for (const auto& [name, path] : {std::pair{"links", &lanes.links}, {"adapters", &lanes.adapters}}) {
      wires_ += html("<path class=\"{}\" transform=\"translate(0 {})\" data-top=\"{}\" d=\"{}\"/>", name,
                     svg_number(top), svg_number(top), *path);
      top += wire_lane_height + wire_gap;
    }
  }

  Html background() const {
    Html text;
    double top = header;
    for (std::size_t i = 0; i < row_top_.size(); ++i, top += row_height_) {
      text += row(top + 2, 19);
      if (!has_wires_) continue;
      text += row(top + lanes_height, wire_lane_height);
      text += row(top + lanes_height + wire_lane_height + wire_gap, wire_lane_height);
    }
    for (const TimePiece& piece : axis_.pieces())
      if (piece.is_cut)
        text += html("<rect class=\"cut\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", svg_number(piece.left),
                     svg_number(header), svg_number(piece.right - piece.left), svg_number(height_ - header));
    return text;
  }

  Html row(double top, double height) const {
    return html("<rect class=\"row\" x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\"/>", svg_number(top),
                svg_number(axis_.width()), svg_number(height));
  }

  // Initial labels: the script redraws them for another zoom.
  Html tick_labels() const {
    Html text("<g class=\"ticks\">");
    for (const TimeTick& tick : axis_.ticks())
      text += html("<text class=\"tick\" x=\"{}\" y=\"13\">{}</text>", svg_number(tick.x), tick.label);
    return text + "</g>";
  }

  Html rank_names() const {
    Html text = html("<g class=\"names\"><rect class=\"page\" width=\"{}\" height=\"{}\"/>", svg_number(gutter - 4),
                     svg_number(height_));
    for (const auto& [rank, top] : row_top_)
      text += html("<text class=\"name\" x=\"{}\" y=\"{}\">pipeline {}</text>", svg_number(gutter - 10),
                   svg_number(top + 15), rank);
    return text + "</g>";
  }

  std::int64_t to_ticks(double seconds) const {
    return std::llround(seconds / plan_.simulation.step_seconds * ticks_of_data);
  }

  const Plan& plan_;
  const TimeAxis& axis_;
  bool has_wires_ = false;
  double row_height_ = 0, height_ = 0;
  std::map<std::int32_t, double> row_top_;    // by rank
  std::map<std::string, std::string> paths_;  // by class
  std::map<std::int32_t, std::string> data_;  // by rank
  Html labels_, wires_;
};

Html what_is_left_out(const Plan& plan, const TimelineSelection& selection) {
  Html text;
  const std::size_t ranks = plan.simulation.ranks.size();
  if (selection.ranks.size() < ranks)
    text += html("{} of {} pipeline ranks are shown. ", selection.ranks.size(), ranks);
  if (selection.cut)
    text += html(
        "The hatched middle of the step holds {} of their {} instructions and is left out; "
        "<code>--trace</code> writes all of them. ",
        selection.entries_of_ranks - selection.entries.size(), selection.entries_of_ranks);
  return text;
}

}  // namespace

std::string colour_class(const ScheduleShape& shape, const Instruction& instruction) {
  const std::int32_t colour = colour_of_loop(shape, instruction.stage / shape.pipeline);
  switch (instruction.operation) {
    case Operation::forward:
      return fmt::format("f{}", colour);
    case Operation::backward:
      return fmt::format("b{}", colour);
    case Operation::gather_weights:
      return "gather";
    case Operation::reduce_gradients:
      return "reduce";
    case Operation::send_activation:
    case Operation::send_gradient:
      return "send";
    case Operation::receive_activation:
    case Operation::receive_gradient:
      return "receive";
    case Operation::free_weights:
    case Operation::evict_gradients:
    case Operation::optimizer_step:
      break;
  }
  return "step";
}

Html timeline_legend(const ScheduleShape& shape, bool has_wires) {
  Html legend("<p class=\"legend\">");
  for (std::int32_t colour = 0; colour < colours(shape); ++colour)
    legend += html("<span class=\"key\"><i class=\"f{0}\"></i><i class=\"b{0}\"></i>forward, backward of {1}</span>",
                   colour, stages_of_colour(shape, colour));
  if (shape.sharding() > 0) legend += swatch("gather", "gather weights");
  if (shape.reduces) legend += swatch("reduce", "reduce gradients");
  if (shape.pipeline > 1) legend += swatch("send", "send") + swatch("receive", "receive");
  legend += swatch("step", "optimizer");
  if (has_wires) legend += swatch("links", "links of the node busy") + swatch("adapters", "network adapters busy");
  return legend + "</p>";
}

Html timeline_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis, MarkupLiteral title,
                      MarkupLiteral note) {
  const TimelineDrawing drawing(plan, selection, axis);
  Html text = html(
      "<section><h2>{}<span class=\"zoom\" hidden><button type=\"button\" data-zoom=\"0.5\">−</button>"
      "<button type=\"button\" data-zoom=\"0\">whole step</button>"
      "<button type=\"button\" data-zoom=\"2\">+</button></span></h2><p class=\"note\">{} {}</p>",
      title, note, what_is_left_out(plan, selection));
  text += timeline_legend(plan.layout->schedule().shape, uses_wires(plan));
  text += "<div class=\"scroll\">" + drawing.svg() + "</div>";
  return text + json_data("timeline-data", drawing.data()) + "</section>\n";
}

}  // namespace llmtrain
