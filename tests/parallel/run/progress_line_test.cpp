// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/progress_line.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/page/text_layout.h"

namespace llmtrain {
namespace {

const ProgressLine sample{{.step = 473,
                           .loss = 1.4046,
                           .learning_rate = 3.25e-4,
                           .gradient_norm = 0.63,
                           .tokens_per_second = 12'700,
                           .mfu = 0.7,
                           .memory_bytes = 454'033'408},
                          500,
                          "4.7s left"};

TEST_CASE("a progress line leaves out what matters least until it fits") {
  const std::string whole =
      "step 473/500  loss 1.4046  grad norm 0.63  lr 3.25e-04  12.7k tok/s  MFU 70 %  433 MiB  4.7s left";
  CHECK(sample.text() == whole);
  CHECK(sample.text(whole.size()) == whole);
  CHECK(sample.text(whole.size() - 1) ==
        "step 473/500  loss 1.4046  grad norm 0.63  lr 3.25e-04  12.7k tok/s  MFU 70 %  4.7s left");
  CHECK(sample.text(79) == "step 473/500  loss 1.4046  grad norm 0.63  lr 3.25e-04  12.7k tok/s  4.7s left");
  CHECK(sample.text(77) == "step 473/500  loss 1.4046  grad norm 0.63  12.7k tok/s  4.7s left");
  CHECK(sample.text(40) == "step 473/500  loss 1.4046  4.7s left");
  CHECK(sample.text(33) == "step 473/500  loss 1.4046");
  CHECK(sample.text(30) == "step 473/500  loss 1.4046");
  for (std::size_t width = 1; width < 120; ++width) CHECK(columns(sample.text(width)) <= width);
}

TEST_CASE("a progress line says how many choices of experts were dropped, if any") {
  ProgressLine line = sample;
  line.row.routing = RoutingRow{};
  CHECK(line.text() == sample.text());
  line.row.routing->dropped_share = 0.0314;
  CHECK(line.text() ==
        "step 473/500  loss 1.4046  grad norm 0.63  dropped 3.1 %  lr 3.25e-04  12.7k tok/s  MFU 70 %  433 MiB  4.7s "
        "left");
  CHECK(line.text(85) == "step 473/500  loss 1.4046  grad norm 0.63  dropped 3.1 %  12.7k tok/s  4.7s left");
  CHECK(line.text(77) == sample.text(77));
  line.row.routing->dropped_share = 1e-5;
  CHECK(line.text().find("  dropped <0.1 %  ") != std::string::npos);
}

TEST_CASE("a progress line has the terms of a loss where there are several") {
  ProgressLine line = sample;
  line.row.terms = {{"loss", 1.25}, {"second", 0.5}};
  CHECK(line.text() ==
        "step 473/500  loss 1.4046  (loss 1.2500, second 0.5000)  grad norm 0.63  lr 3.25e-04  12.7k tok/s  MFU 70 %  "
        "433 MiB  4.7s left");
  CHECK(line.text(77) == sample.text(77));
}

TEST_CASE("a bar takes the room that is left, if it is enough to tell something") {
  CHECK(progress_bar(1, 2, 8).empty());
  CHECK(progress_bar(1, 2, 9) == "━━━━╌╌╌╌");
  CHECK(columns(progress_bar(3, 4, 100)) == 24);
  CHECK(progress_bar(0, 4, 9) == "╌╌╌╌╌╌╌╌");
  CHECK(progress_bar(4, 4, 9) == "━━━━━━━━");
}

}  // namespace
}  // namespace llmtrain
