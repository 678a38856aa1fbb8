// SPDX-License-Identifier: Apache-2.0
#include "core/optim/muon.h"

#include <ATen/ops/empty.h>

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
  // In one pass, where all of it is here.
  if (update.elsewhere == nullptr) kernels::muon_mean_(momentum_, update.gradients, how);
  const auto read = [&](std::int64_t begin, std::int64_t end) {
    at::Tensor gradients = update.gradients.slice(0, begin, end);
    if (update.elsewhere == nullptr) {
      const at::Tensor mean = momentum_.slice(0, begin, end);
      return muon.nesterov ? kernels::muon_mean_ahead(mean, gradients, how) : mean;
    }
    const at::Tensor mean = update.elsewhere->fetch(1, begin, end);
    gradients = update.elsewhere->bring(gradients);
    kernels::muon_mean_(mean, gradients, how);
    at::Tensor ahead = muon.nesterov ? kernels::muon_mean_ahead(mean, gradients, how) : mean.clone();
    update.elsewhere->store(1, begin, mean);
    return ahead;
  };
  const auto transform = [&](const at::Tensor& matrix) {
    const at::ScalarType products = matrix.is_cuda() ? at::kBFloat16 : matrix.scalar_type();
    return kernels::orthogonalize(matrix, muon.steps, products, muon_scale(muon.scale, matrix.size(0), matrix.size(1)));
  };
  const kernels::MuonStep step{update.learning_rate, recipe_.weight_decay};
  const auto write = [&](std::int64_t begin, const at::Tensor& values) {
    const std::int64_t end = begin + values.numel();
    std::optional<at::Tensor> compute_weights;
    if (update.compute_weights) compute_weights = update.compute_weights->slice(0, begin, end);
    if (update.elsewhere == nullptr)
      return kernels::muon_step_(update.weights.slice(0, begin, end), values, step, compute_weights);
    const at::Tensor weights = update.elsewhere->fetch(0, begin, end);
    // The step rounds to another type, on the device where it is made.
    std::optional<at::Tensor> rounded;
    if (compute_weights && compute_weights->scalar_type() != weights.scalar_type())
      rounded = compute_weights->device() == weights.device()
                    ? *compute_weights
                    : at::empty(weights.sizes(), weights.options().dtype(compute_weights->scalar_type()));
    kernels::muon_step_(weights, values, step, rounded);
    const at::Tensor made = rounded.value_or(weights);
    if (compute_weights && !made.is_same(*compute_weights)) update.elsewhere->leave(made, *compute_weights);
    update.elsewhere->store(0, begin, weights);
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
