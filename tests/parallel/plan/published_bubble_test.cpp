// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/parallel/plan/simulator_case.h"

namespace llmtrain {
namespace {

// A setting that the Zero Bubble paper's authors profiled, in microseconds (v_schedule.py of
// sail-sg/zero-bubble-pipeline-parallelism, tag zero-bubble-v0.1.0: p, n, f, b, w, c), and the bubble fractions that
// table 5 of the paper (arXiv 2401.10241) lists for it.
struct Profiled {
  std::int32_t pipeline, micro_batches;
  double forward, input_backward, weight_backward, transfer;
  double bubble, interleaved_bubble;
};

constexpr Profiled table[] = {
    {8, 24, 18522, 18086, 9337, 601, 0.2431, 0.1055},  {8, 32, 18513, 18086, 9331, 626, 0.1985, 0.0818},
    {8, 64, 18546, 18097, 9321, 762, 0.1240, 0.0443},  {16, 48, 11347, 11248, 8132, 377, 0.2552, 0.1104},
    {16, 64, 11307, 11254, 8101, 379, 0.2082, 0.0852}, {16, 128, 11325, 11308, 8109, 378, 0.1251, 0.0445},
};

double bubble_of(const Profiled& row, PipelineSchedule kind, std::int32_t loops) {
  const ScheduleShape shape{.kind = kind, .pipeline = row.pipeline, .loops = loops, .micro_batches = row.micro_batches};
  const CaseSeconds seconds{.forward = row.forward / loops,
                            .backward = (row.input_backward + row.weight_backward) / loops,
                            .transfer = row.transfer};
  return simulate(make_schedule(shape), equal_costs(shape, seconds), equal_memory(shape)).bubble_fraction;
}

TEST_CASE("published times of passes and transfers give the published bubbles of 1f1b, to the last digit") {
  for (const Profiled& row : table) {
    CAPTURE(row.pipeline, row.micro_batches);
    CHECK(bubble_of(row, PipelineSchedule::one_forward_one_backward, 1) == Approx(row.bubble).margin(5e-5));
  }
}

// The times of its thirds of stages are not published: a third of a stage's time is assumed.
TEST_CASE("published times of passes and transfers come close to the published bubbles of interleaved stages") {
  for (const Profiled& row : table) {
    CAPTURE(row.pipeline, row.micro_batches);
    CHECK(bubble_of(row, PipelineSchedule::interleaved, 3) == Approx(row.interleaved_bubble).margin(0.004));
  }
}

}  // namespace
}  // namespace llmtrain
