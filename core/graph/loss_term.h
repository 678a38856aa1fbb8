// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmtrain {

// One of the losses whose sum, each times its coefficient, training minimises.
struct LossTerm {
  std::string name;        // by which steps, evaluations and metrics report it; one of routers is that of all layers
  std::size_t block = 0;   // that raises it
  double coefficient = 1;  // above 0
  // Whether the block hands over the losses of its rows: the term is their sum ÷ what the samples weigh in it
  // (SampleSource::weight()). Else the block adds the term's gradients in its own backward, and the term is a mean over
  // the rows that the block sees, whether these count in other terms or not; what it came to is said by the block's
  // LayerRouting, and not part of the loss that steps and evaluations report.
  bool is_of_rows = true;
};

// The terms that blocks raise.
namespace loss_names {
constexpr std::string_view head = "loss";  // cross-entropy of the next token
constexpr std::string_view balance = "balance_loss", z = "z_loss";
}  // namespace loss_names

// What a term of rows came to, without its coefficient: a mean.
struct LossValue {
  std::string name;
  double value = 0;
};

}  // namespace llmtrain
