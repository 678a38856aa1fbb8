// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/timeline_colours.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>

namespace llmtrain {
namespace {

std::int32_t colours(const ScheduleShape& shape) { return std::min(shape.loops, most_stage_colours); }

// More loops than colours: neighbouring loops share one, so that the order of colours still shows the order of stages.
std::int32_t colour_of_loop(const ScheduleShape& shape, std::int32_t loop) {
  return static_cast<std::int32_t>(static_cast<std::int64_t>(loop) * colours(shape) / shape.loops);
}

std::string stages_of_colour(const ScheduleShape& shape, std::int32_t colour) {
  std::int32_t first = 0;
  while (colour_of_loop(shape, first) != colour) ++first;
  std::int32_t last = first;
  while (last + 1 < shape.loops && colour_of_loop(shape, last + 1) == colour) ++last;
  const std::int32_t from = first * shape.pipeline;
  const std::int32_t to = (last + 1) * shape.pipeline - 1;
  return from == to ? fmt::format("stage {}", from) : fmt::format("stages {}–{}", from, to);
}

std::string swatch(std::string_view colour, std::string_view text) {
  return fmt::format("<span class=\"key\"><i class=\"{}\"></i>{}</span>", colour, text);
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
    case Operation::optimizer_step:
      break;
  }
  return "step";
}

std::string timeline_legend(const ScheduleShape& shape) {
  std::string legend = "<p class=\"legend\">";
  for (std::int32_t colour = 0; colour < colours(shape); ++colour)
    legend +=
        fmt::format("<span class=\"key\"><i class=\"f{0}\"></i><i class=\"b{0}\"></i>forward, backward of {1}</span>",
                    colour, stages_of_colour(shape, colour));
  if (shape.sharding() > 0) legend += swatch("gather", "gather weights");
  if (shape.reduces) legend += swatch("reduce", "reduce gradients");
  if (shape.pipeline > 1) legend += swatch("send", "send") + swatch("receive", "receive");
  return legend + swatch("step", "optimizer") + "</p>";
}

}  // namespace llmtrain
