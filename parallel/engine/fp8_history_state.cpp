// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/fp8_history_state.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/huggingface/tensor_dtype.h"

namespace llmtrain {
namespace {

constexpr auto operands = static_cast<std::int64_t>(fp8_operands);

std::string history_name(const LocalModel& model, std::size_t product) {
  return model.graph().parameters[product].name + ".amax_history";
}

bool is_largest(float number) { return std::isfinite(number) && number >= 0; }

std::vector<float> read_maxima(const CheckpointReader& checkpoint, const std::string& name) {
  const LogicalTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return {};
  const auto refuse = [&] {
    throw Error(ExitCode::bad_data, fmt::format("{}: {}: is not F32 [steps, {}] of magnitudes",
                                                checkpoint.folder().string(), name, operands));
  };
  if (tensor->dtype != dtype_name(at::kFloat) || tensor->shape.size() != 2 || tensor->shape[1] != operands) refuse();
  std::vector<float> maxima(static_cast<std::size_t>(element_count(tensor->shape)));
  checkpoint.read_box(name, {{0, 0}, tensor->shape}, std::as_writable_bytes(std::span(maxima)));
  if (!std::ranges::all_of(maxima, is_largest)) refuse();
  return maxima;
}

}  // namespace

void add_fp8_history(std::vector<TensorSlice>& slices, const LocalModel& model) {
  const Fp8History* history = model.fp8_history();
  if (history == nullptr || !model.groups().is_first()) return;
  for (std::size_t i = 0; i < history->products().size(); ++i) {
    const std::vector<float>& maxima = history->maxima(i);
    if (maxima.empty()) continue;
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(maxima.size()) / operands, operands};
    slices.push_back({history_name(model, history->products()[i]),
                      dtype_name(at::kFloat),
                      shape,
                      {0, 0},
                      shape,
                      reinterpret_cast<const std::byte*>(maxima.data())});
  }
}

void read_fp8_history(const CheckpointReader& checkpoint, LocalModel& model) {
  Fp8History* history = model.fp8_history();
  if (history == nullptr) return;
  for (std::size_t i = 0; i < history->products().size(); ++i)
    history->set_maxima(i, read_maxima(checkpoint, history_name(model, history->products()[i])));
}

}  // namespace llmtrain
