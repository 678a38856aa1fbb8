// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {

// A key as `--set` takes it ("parallel.tensor"), and the values that it gets, each JSON or a word.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

// One combination of values: its plan, or the reason why it is refused.
struct SweepPoint {
  std::vector<std::string> values;  // one per axis
  std::optional<PlanReport> report;
  std::string refusal;  // without a report
};

// A recipe planned with every combination of the axes' values; the last axis changes fastest.
struct Sweep {
  std::string name;  // of the recipe
  std::vector<SweepAxis> axes;
  std::vector<SweepPoint> points;
  bool derives_data = false;  // as in the reports of its points
};

// The point of most tokens per second per device among those that fit, the first of equals, but by the rule of
// first_choice() where that one is tight; null if none fits. Devices may differ in number between points: a larger
// cluster is not better for being larger.
const SweepPoint* best_point(const Sweep& sweep);

// Every key without the sections that it shares with no other axis: "tensor" for "parallel.tensor".
std::vector<std::string> short_names(const std::vector<SweepAxis>& axes);

// A table with a row per point, in newline-terminated lines.
std::string sweep_text(const Sweep& sweep, const TextStyle& style);

// {"name", "axes": [{"key", "values"}], "derives_data", "best": index or null, "plans": [{"set": {key: value},
// "refused": null or why, and with a plan "fits", "verdict", "peak_bytes", "device_memory_bytes", "mesh", "step",
// "throughput", "run"}]}: names and units as in report_json(). Indented by two spaces, with a trailing newline.
std::string sweep_json(const Sweep& sweep);

}  // namespace llmtrain
