// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/fp8_history_state.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/huggingface/tensor_dtype.h"

namespace llmtrain {
namespace {

constexpr auto operands = static_cast<std::int64_t>(fp8_operands);
constexpr const char* maxima_suffix = ".amax_history";
constexpr const char* overflow_suffix = ".overflow";
constexpr const char* gradient_overflow_suffix = ".gradient_overflow";

bool is_magnitude(float number) { return std::isfinite(number) && number >= 0; }

// The numbers of an fp32 tensor whose last axis has `columns` of them; none: the checkpoint lacks it.
std::optional<std::vector<float>> stored_numbers(const CheckpointReader& checkpoint, const std::string& name,
                                                 std::size_t axes, std::int64_t columns) {
  const LogicalTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return std::nullopt;
  const auto refuse = [&] {
    throw Error(ExitCode::bad_data, fmt::format("{}: {}: is not F32 numbers of at least 0, {} in a row",
                                                checkpoint.folder().string(), name, columns));
  };
  if (tensor->dtype != dtype_name(at::kFloat) || tensor->shape.size() != axes || tensor->shape.back() != columns)
    refuse();
  std::vector<float> numbers(static_cast<std::size_t>(element_count(tensor->shape)));
  checkpoint.read_box(name, {std::vector<std::int64_t>(axes), tensor->shape},
                      std::as_writable_bytes(std::span(numbers)));
  if (!std::ranges::all_of(numbers, is_magnitude)) refuse();
  return numbers;
}

void add_numbers(std::vector<TensorSlice>& slices, const std::string& name, const std::vector<std::int64_t>& shape,
                 std::span<const float> numbers) {
  const std::vector<std::int64_t> origin(shape.size());
  slices.push_back(
      {name, dtype_name(at::kFloat), shape, origin, shape, reinterpret_cast<const std::byte*>(numbers.data())});
}

const std::string& name_of(const LocalModel& model, std::size_t parameter) {
  return model.graph().parameters[parameter].name;
}

void add_gradient_fallback(std::vector<TensorSlice>& slices, const LocalModel& model,
                           const GradientFallback& gradients) {
  for (std::size_t i = 0; i < gradients.matrices().size(); ++i) {
    const auto state = gradients.state(i);
    add_numbers(slices, name_of(model, gradients.matrices()[i]) + gradient_overflow_suffix, {std::ssize(state)}, state);
  }
}

}  // namespace

void add_fp8_history(std::vector<TensorSlice>& slices, const LocalModel& model) {
  // All ranks have the same histories, since each records the maxima over all of them.
  if (!model.groups().is_first()) return;
  if (const GradientFallback* gradients = model.gradient_fallback()) add_gradient_fallback(slices, model, *gradients);
  const Fp8History* history = model.fp8_history();
  if (history == nullptr) return;
  for (std::size_t i = 0; i < history->products().size(); ++i) {
    const Fp8History::StateView state = history->state(i);
    const std::string& name = name_of(model, history->products()[i]);
    const std::int64_t steps = static_cast<std::int64_t>(state.maxima.size()) / operands;
    add_numbers(slices, name + maxima_suffix, {steps, operands}, state.maxima);
    add_numbers(slices, name + overflow_suffix, {std::ssize(state.fallback)}, state.fallback);
  }
}

void read_fp8_history(const CheckpointReader& checkpoint, LocalModel& model) {
  Fp8History* history = model.fp8_history();
  if (history == nullptr) return;
  for (std::size_t i = 0; i < history->products().size(); ++i) {
    const std::string& name = name_of(model, history->products()[i]);
    Fp8History::State state;
    if (auto maxima = stored_numbers(checkpoint, name + maxima_suffix, 2, operands)) state.maxima = std::move(*maxima);
    if (const auto overflow = stored_numbers(checkpoint, name + overflow_suffix, 1, std::ssize(state.fallback)))
      std::ranges::copy(*overflow, state.fallback.begin());
    history->set_state(i, state);
  }
}

void read_gradient_fallback(const CheckpointReader& checkpoint, LocalModel& model) {
  GradientFallback* gradients = model.gradient_fallback();
  if (gradients == nullptr) return;
  for (std::size_t i = 0; i < gradients->matrices().size(); ++i) {
    GradientFallback::State state{};
    const std::string& name = name_of(model, gradients->matrices()[i]);
    if (const auto overflow = stored_numbers(checkpoint, name + gradient_overflow_suffix, 1, std::ssize(state)))
      std::ranges::copy(*overflow, state.begin());
    gradients->set_state(i, state);
  }
}

}  // namespace llmtrain
