// SPDX-License-Identifier: Apache-2.0
#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "kernels/muon/muon.h"
#include "kernels/muon/orthogonalize.h"

namespace llmtrain {
namespace {

[[noreturn]] void refuse_small_types() {
  throw Error(ExitCode::internal_error, "Muon has no update of states in small types");
}

}  // namespace

Muon::Muon(const OptimizerRecipe& recipe, const StateMemory& memory, const WholeMatrices& matrices)
    : recipe_(recipe), matrices_(matrices), momentum_(memory(Moment::first)) {}

void Muon::update(const OptimizerUpdate& update) {
  const MuonRecipe& muon = recipe_.muon;
  const kernels::MuonMean how{muon.momentum, update.gradient_scale};
  kernels::muon_mean_(momentum_, update.gradients, how);
  const auto read = [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor mean = momentum_.slice(0, begin, end);
    if (!muon.nesterov) return mean;
    return kernels::muon_mean_ahead(mean, update.gradients.slice(0, begin, end), how);
  };
  const auto transform = [&](const at::Tensor& matrix) {
    const at::ScalarType products = matrix.is_cuda() ? at::kBFloat16 : matrix.scalar_type();
    return kernels::orthogonalize(matrix, muon.steps, products, muon_scale(muon.scale, matrix.size(0), matrix.size(1)));
  };
  const auto write = [&](std::int64_t begin, const at::Tensor& values) {
    const std::int64_t end = begin + values.numel();
    std::optional<at::Tensor> compute_weights;
    if (update.compute_weights) compute_weights = update.compute_weights->slice(0, begin, end);
    kernels::muon_step_(update.weights.slice(0, begin, end), values, {update.learning_rate, recipe_.weight_decay},
                        compute_weights);
  };
  matrices_.for_each(read, transform, write);
}

void Muon::find_largest(std::span<const ScaledUpdate> /*updates*/) const { refuse_small_types(); }

void Muon::update(std::span<const ScaledUpdate> /*updates*/) { refuse_small_types(); }

double muon_scale(MuonScale scale, std::int64_t rows, std::int64_t columns) {
  const auto outputs = static_cast<double>(rows), inputs = static_cast<double>(columns);
  switch (scale) {
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(outputs, inputs));
    case MuonScale::original:
      return std::sqrt(std::max(1.0, outputs / inputs));
  }
  return 1;
}

}  // namespace llmtrain
